#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# systemd.t: the unit is one that systemd understands, and leaves the service little to do harm with.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source-path=SCRIPTDIR source=../tap.sh
source tests/tap.sh

type -P systemd-analyze >/dev/null || skip_all "no systemd-analyze"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unit=$work/nfq-noop.service

# With programs that are there, since it is not installed.
sed -e "s|@SBINDIR@/nfq-noop|$(type -P true)|; s|^Documentation=.*||" src/systemd/nfq-noop.service.in >"$unit"

# It prints a line for each thing that it does not understand.
unit_is_understood() {
	local said
	said=$(systemd-analyze --man=no verify "$unit" 2>&1 | grep -F "$(basename "$unit")" || true)
	printf '%s\n' "$said"
	[[ ! $said ]]
}

# In tenths, as the threshold is.
exposure() {
	systemd-analyze security --offline=true --no-pager "$unit" |
		sed -n 's/.*exposure level for [^:]*: \([0-9]*\)\.\([0-9]\).*/\1\2/p'
}

exposure_is_below() { # TENTHS
	local tenths
	tenths=$(exposure)
	printf 'exposure: %s tenths\n' "$tenths"
	[[ $tenths ]] && ((10#$tenths < $1))
}

real_time_is_allowed() {
	! grep -q '^RestrictRealtime=yes' "$unit" && grep -q '^LimitRTPRIO=99' "$unit"
}

ok "systemd understands the unit" unit_is_understood
ok "systemd-analyze security rates it below 2.0" exposure_is_below 20
ok "real-time limits are allowed" real_time_is_allowed
ok "queues are kept" grep -Eq '^FileDescriptorStoreMax=[1-9]' "$unit"
done_testing
