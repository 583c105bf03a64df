#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# deps.t: install-deps finds what is missing, and installs it at once or tells how.
#
# Theory of operation
#
#   A PATH of our own holds the few tools that the script itself needs and a package manager that only writes down what
#   it is asked for, so that a machine without anything, of any distribution, can be had without installing anything.
#
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source-path=SCRIPTDIR source=../tap.sh
source tests/tap.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp scripts/install-deps "$work"

# A directory with a package manager; what it is asked for goes to its file `asked`.
machine_make() { # NAME MANAGER
	machine=$work/$1
	mkdir "$machine"
	ln -s "$(type -P bash)" "$(type -P cat)" "$(type -P env)" "$(type -P sort)" "$machine"
	[[ $2 == none ]] || machine_add_program "$2" "printf '%s\n' \"\$*\" >>'$machine/asked'"
	chmod -R a+rX "$work"
}

machine_add_program() { # NAME COMMANDS
	printf '#!%s\n%s\n' "$(type -P bash)" "$2" >"$machine/$1"
	chmod 755 "$machine/$1"
}

# Runs install-deps there, as root or as another user, and sets status and output.
machine_install_deps() { # root|user ARGUMENTS...
	local as=()
	if [[ $1 == root && $EUID != 0 ]]; then
		as=(unshare --user --map-root-user)
	elif [[ $1 == user && $EUID == 0 ]]; then
		as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	fi
	status=0
	output=$("${as[@]}" env -i PATH="$machine" CC="$machine/cc" PKG_CONFIG="$machine/pkg-config" \
		"$work/install-deps" "${@:2}" 2>&1) || status=$?
	asked=$(cat "$machine/asked" 2>/dev/null) || true
}

deps_are_complete() {
	[[ -z $(scripts/install-deps check 2>&1) ]]
}

list_names_items_and_packages() { # MANAGER PACKAGE-OF-LIBMNL PACKAGE-OF-CC
	machine_make "list-$1" "$1"
	machine_install_deps user --list build
	printf '%s\n' "$output"
	[[ $status == 1 && ! $asked ]]
	grep -qxF "libmnl	$2" <<<"$output"
	grep -qxF "C compiler	$3" <<<"$output"
}

a_set_includes_those_before_it() {
	machine_make sets apt-get
	machine_install_deps user --list build
	[[ $output != *iperf3* ]]
	machine_install_deps user --list bench
	[[ $output == *libmnl*iperf3* && $output != *cmocka* ]]
	machine_install_deps user --list check
	[[ $output == *libmnl*iperf3*cmocka* && $output != *cppcheck* ]]
	machine_install_deps user --list lint build
	[[ $output == *libmnl*iperf3*cmocka*cppcheck* ]]
}

user_gets_one_command() {
	machine_make user apt-get
	machine_install_deps user build
	printf '%s\n' "$output"
	[[ $status == 1 && ! $asked ]]
	[[ $(grep -c sudo <<<"$output") == 1 ]]
	grep -qE 'sudo apt-get install .*gcc .*libmnl-dev .*make' <<<"$output"
}

unknown_distribution_names_the_items() {
	machine_make unknown none
	machine_install_deps root build
	printf '%s\n' "$output"
	[[ $status == 1 && $output == *"missing: C compiler, "*libmnl* && $output != *sudo* ]]
}

# A compiler that finds every header, and a pkg-config that finds every library, appear by the installation.
root_installs_all_at_once() {
	machine_make root apt-get
	machine_add_program apt-get "printf '%s\n' \"\$*\" >>'$machine/asked'
		[[ \$1 != install ]] || for tool in cc make pkg-config; do $(type -P ln) -sf $(type -P true) '$machine/'\$tool; done"
	machine_install_deps root build
	printf '%s\n' "$output" "$asked"
	[[ $status == 0 && $(grep -c '^install ' <<<"$asked") == 1 ]]
	grep -qE '^install .*--no-install-recommends .*gcc .*libmnl-dev .*make' <<<"$asked"
	machine_install_deps root build
	[[ $status == 0 && ! $output ]]
}

what_is_still_missing_is_named() {
	machine_make still apt-get
	machine_install_deps root build
	printf '%s\n' "$output"
	[[ $status == 1 && $output == *"still missing: C compiler, "* ]]
}

# On a fresh machine apt knows no package before it has fetched its lists.
lists_are_fetched_if_need_be() {
	machine_make lists apt-get
	machine_add_program apt-get "printf '%s\n' \"\$*\" >>'$machine/asked'
		[[ \$1 == update || -e '$machine/lists' ]] || exit 100
		: >'$machine/lists'"
	machine_install_deps root build
	printf '%s\n' "$asked"
	[[ $(grep -v simulate <<<"$asked" | cut -d ' ' -f 1 | paste -sd ' ') == "update install" ]]
}

unknown_words_are_usage_errors() {
	machine_make words apt-get
	machine_install_deps root everything
	[[ $status == 2 && ! $asked && $output == *everything* ]]
}

ok "nothing is printed when nothing is missing" deps_are_complete
ok "apt: --list names items and packages" list_names_items_and_packages apt-get libmnl-dev gcc
ok "a set includes those before it" a_set_includes_those_before_it
ok "an ordinary user gets one command to run" user_gets_one_command
ok "an unknown word is a usage error" unknown_words_are_usage_errors
# Where programs are not kept apart from an administrator's, this machine's own package manager cannot be hidden.
if [[ /usr/bin -ef /usr/sbin ]]; then
	skip "other distributions are known" "/usr/sbin is /usr/bin here"
else
	ok "dnf: --list names items and packages" list_names_items_and_packages dnf libmnl-devel gcc
	ok "pacman: --list names items and packages" list_names_items_and_packages pacman libmnl gcc
	ok "apk: --list names items and packages" list_names_items_and_packages apk libmnl-dev gcc
fi
if ((EUID != 0)) && ! unshare --user --map-root-user true 2>/dev/null; then
	skip "root installs" "needs root, or user namespaces"
else
	ok "root installs all that is missing at once" root_installs_all_at_once
	ok "what is still missing afterwards is named" what_is_still_missing_is_named
	ok "package lists are fetched if need be" lists_are_fetched_if_need_be
	[[ /usr/bin -ef /usr/sbin ]] || ok "an unknown distribution gets names" unknown_distribution_names_the_items
fi
done_testing
