#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# flags.t: the build obeys its user, and the library keeps to what it promises about itself.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source-path=SCRIPTDIR source=../tap.sh
source tests/tap.sh
# The make that runs this test shall not lend its options to the one that is tested.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL CPPFLAGS CFLAGS LDFLAGS LDLIBS SAN HARDEN WERROR V DESTDIR PREFIX

work=$(mktemp -d)
chmod 755 "$work"
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

flags_make() {
	make --no-print-directory BUILD="$work/build" "$@"
}

# What a build would run, a command a line.
print_commands() {
	make --no-print-directory --dry-run --always-make V=1 "$@" | sed -e ':join' -e '/\\$/{N;s/\\\n//;bjoin' -e '}'
}

# Shows what it finds, and then fails.
contains_no() { # REGULAR-EXPRESSION
	if grep -E -e "$1"; then
		return 1
	fi
}

user_flags_come_last() {
	local commands
	commands=$(print_commands BUILD="$work/none" CC=mycc CPPFLAGS=-DMINE CFLAGS='-O1 -fmine' LDFLAGS=-Lmine LDLIBS=-lmine)
	printf '%s\n' "$commands"
	grep -qE '^mycc .* -DMINE -O1 -fmine -c -o [^ ]*/src/main.o src/main.c$' <<<"$commands"
	grep -qE '^mycc .* -DMINE -O1 -fmine -c -o [^ ]*/src/libnq/queue.o src/libnq/queue.c$' <<<"$commands"
	grep -qE '^mycc .* -O1 -fmine -Lmine -o [^ ]*/nfq-noop .* -lmine$' <<<"$commands"
}

hardening_is_on() {
	local commands
	commands=$(print_commands BUILD="$work/none" CFLAGS=-O2)
	grep -q -- '-D_FORTIFY_SOURCE=2 .*-fstack-protector-strong' <<<"$commands"
	grep -q -- '-pie -Wl,-z,relro,-z,now' <<<"$commands"
}

hardening_can_be_left_out() {
	print_commands BUILD="$work/none" HARDEN=0 | contains_no '-D_FORTIFY_SOURCE|-fstack-protector|-z,relro'
}

# A distribution's level, and a build without optimization, which would warn.
fortification_of_the_user_is_left_alone() {
	print_commands BUILD="$work/none" CPPFLAGS=-D_FORTIFY_SOURCE=3 CFLAGS=-O2 | contains_no '-D_FORTIFY_SOURCE=2'
	print_commands BUILD="$work/none" CFLAGS='-O2 -O0' | contains_no '-D_FORTIFY_SOURCE'
}

sanitizers_have_their_own_tree() {
	local commands
	commands=$(print_commands SAN=address,undefined)
	printf '%s\n' "$commands"
	grep -qE -- '-fsanitize=address,undefined .*-o build/san-address-undefined/src/main.o ' <<<"$commands"
	grep -qE -- '-fsanitize=address,undefined .*-o build/san-address-undefined/nfq-noop ' <<<"$commands"
	contains_no '-o build/(src|nfq-noop)|ln -sf' <<<"$commands"
}

help_lists_every_target() {
	local help target
	help=$(make help)
	for target in all check check-san bench bench-micro lint install uninstall clean help; do
		grep -qE "^  $target +[a-z]" <<<"$help" || { echo "not listed: $target" && return 1; }
	done
}

same_flags_build_nothing() {
	flags_make "$work/build/src/noop.o"
	[[ $(flags_make "$work/build/src/noop.o") != *'  CC '* ]]
}

other_flags_build_anew() {
	flags_make "$work/build/src/noop.o"
	[[ $(flags_make "$work/build/src/noop.o" CPPFLAGS=-DOTHER) == *'  CC '* ]]
}

changed_header_builds_anew() {
	flags_make "$work/build/src/noop.o"
	[[ $(flags_make "$work/build/src/noop.o" --what-if=include/nq.h) == *'  CC '* ]]
}

# A tree of root's, as after `sudo make`, seen by somebody else. Root himself may write anywhere.
foreign_tree_is_explained() {
	local output status=0 drop=()
	((EUID != 0)) || drop=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	mkdir -p "$work/foreign/src"
	chmod 555 "$work/foreign" "$work/foreign/src"
	output=$("${drop[@]}" make --no-print-directory BUILD="$work/foreign" "$work/foreign/src/noop.o" 2>&1) || status=$?
	printf '%s\n' "$output"
	[[ $status != 0 && $output == *"cannot write to $work/foreign"*BUILD=DIR* ]]
}

library_includes_its_own_headers_only() {
	local header
	sed -n 's/^#include "\(.*\)".*/\1/p' src/libnq/*.[ch] | sort -u | while read -r header; do
		[[ -e include/$header || -e src/libnq/$header ]] || { echo "not of the library: $header" && return 1; }
	done
}

library_names_begin_with_nq() {
	nm --defined-only --extern-only "$work/build/libnq.a" | awk 'NF == 3 { print $3 }' | contains_no '^(n[^q]|[^n])'
}

library_has_no_writable_variable() {
	nm --defined-only "$work/build/libnq.a" | contains_no ' [BbCDdGgSs] '
}

library_never_prints_nor_exits() {
	nm --undefined-only "$work/build/libnq.a" |
		contains_no ' _*(v?f?printf|v?printf|puts|putchar|fputs|fwrite|perror|syslog|exit|abort)(_chk)?$'
}

# A reason stands in a comment, and so the names stand there, too, in the same order.
disabled_checks_have_their_reasons() {
	local config
	for config in .clang-tidy tests/*/.clang-tidy; do
		diff <(sed -n 's/^# \(-[^ ]*\)$/\1/p' "$config") <(sed -nE "s/^(Checks: ')?[ ]*(-[^ ,']*)[,']*$/\2/p" "$config")
	done
}

ok "the user's flags come last" user_flags_come_last
ok "hardening is on" hardening_is_on
ok "HARDEN=0 leaves hardening out" hardening_can_be_left_out
ok "the user's _FORTIFY_SOURCE is left alone" fortification_of_the_user_is_left_alone
ok "SAN builds in a tree of its own" sanitizers_have_their_own_tree
ok "make help lists every target" help_lists_every_target
ok "nothing is built twice" same_flags_build_nothing
ok "other flags build anew" other_flags_build_anew
ok "a changed header builds anew" changed_header_builds_anew
if ((EUID == 0)) && ! setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$PWD/Makefile"; then
	skip "a tree of somebody else's is explained" "others cannot read this source tree"
else
	ok "a tree of somebody else's is explained" foreign_tree_is_explained
fi
ok "each disabled check of clang-tidy has its reason" disabled_checks_have_their_reasons
ok "the library includes no header of the daemon" library_includes_its_own_headers_only
ok "the library builds alone" flags_make "$work/build/libnq.a"
ok "the library's names begin with nq_" library_names_begin_with_nq
ok "the library has no writable variable" library_has_no_writable_variable
ok "the library never prints nor exits" library_never_prints_nor_exits
done_testing
