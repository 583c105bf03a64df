# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# boot.sh: runs guest.sh under the kernel that a .t file is named after. To be sourced.
set -euo pipefail
export LC_ALL=C
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR source=../tap.sh
source "$top/tests/tap.sh"

kernel=$(basename "$0" .t)
share=$(mktemp -d /var/tmp/nfq-vm.XXXXXX)
trap 'rm -rf "$share"' EXIT
cd "$top"
status=0
"$top/scripts/vm.sh" run "$kernel" --share "$share" --timeout 500 -- "$top/tests/vm/guest.sh" "$kernel" \
	>"$share/tap" 2>"$share/error" || status=$?
((status != 4)) || skip_all "$(tail -n 1 "$share/error")"
cat "$share/tap"
sed 's/^/# /' "$share/error"
exit "$status"
