#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# install.t: what `make install` puts into a system works from there, and `make uninstall` takes all of it away again.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source-path=SCRIPTDIR source=../tap.sh
source tests/tap.sh
# The make that runs this test shall not lend its options to the one that is tested.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL CPPFLAGS CFLAGS LDFLAGS LDLIBS SAN HARDEN WERROR V DESTDIR PREFIX
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
CC=${CC:-cc}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
installed=$root/usr/local

install_make() {
	make --no-print-directory BUILD="$work/build" "$@"
}

daemon_tells_version() {
	[[ $("$installed/sbin/nfq-noop" --version) == *"$(sed -n 's/^#define NQ_VERSION "\(.*\)"/\1/p' include/nq.h)"* ]]
}

# From another directory, so that it cannot lean on the source tree.
bench_lists_scenarios_and_references() {
	local list
	list=$(cd / && "$installed/bin/nfq-bench" list)
	printf '%s\n' "$list"
	[[ $list == *gso* && $list == *2018-apu2* ]]
}

manuals_are_in_their_sections() {
	local page
	for page in src/man/*.[1-8]; do
		cmp "$page" "$installed/share/man/man${page##*.}/${page##*/}"
	done
}

# The processor that the header shows in its comment, made into a program.
print_example() {
	printf '%s\n' '#include <nq.h>' '#include <stddef.h>'
	sed -n '/^ \* A whole processor/,/^ \* Conventions/s/^ \*     //p' include/nq.h |
		awk '/^struct nq_config/ { print "int main(void)\n{" } { print } END { print "\treturn error ? 1 : 0;\n}" }'
}

installed_pkg_config() {
	PKG_CONFIG_PATH=$installed/lib/pkgconfig $PKG_CONFIG "$@"
}

# As a third party does: by pkg-config, with the header and the library that were installed.
example_of_the_header_builds() {
	local flags
	flags=$(installed_pkg_config --define-variable=prefix="$installed" --cflags --libs libnq)
	print_example >"$work/example.c"
	# shellcheck disable=SC2086 # words, as for any compiler
	(cd "$work" && $CC -Wall -Werror -o example example.c $flags)
}

# The manual page holds a whole program, header included.
example_of_the_manual_builds() {
	local flags
	flags=$(installed_pkg_config --define-variable=prefix="$installed" --cflags --libs libnq)
	sed -n '/^\.Bd -literal/,/^\.Ed/{/^\./d;p}' src/man/nq.3 >"$work/manual.c"
	grep -q '^int main' "$work/manual.c"
	# shellcheck disable=SC2086 # words, as for any compiler
	(cd "$work" && $CC -Wall -Werror -o manual manual.c $flags)
}

pkg_config_tells_the_header_s_version() {
	grep -q "define NQ_VERSION \"$(installed_pkg_config --modversion libnq)\"" "$installed/include/nq.h"
}

nothing_is_left() {
	[[ -z $(find "$1" -mindepth 1 -print | tee /dev/stderr) ]]
}

# Without DESTDIR the system is in use: what others have put there stays, and so do the directories that all share.
others_files_stay() {
	local prefix=$work/prefix
	install_make install PREFIX="$prefix"
	touch "$prefix/share/nfq-bench/mine" "$prefix/bin/mine"
	install_make uninstall PREFIX="$prefix"
	[[ $(cd "$prefix" && find . ! -type d | sort) == $'./bin/mine\n./share/nfq-bench/mine' ]]
	[[ -d $prefix/sbin && ! -e $prefix/share/nfq-bench/scripts ]]
}

directories_are_the_user_s() {
	install_make install DESTDIR="$work/other" BINDIR=/opt/x/bin LIBDIR=/opt/x/lib64 MANDIR=/opt/x/man
	[[ -x $work/other/opt/x/bin/nfq-bench && -f $work/other/opt/x/lib64/libnq.a ]]
	grep -qx 'libdir=/opt/x/lib64' "$work/other/opt/x/lib64/pkgconfig/libnq.pc"
	install_make uninstall DESTDIR="$work/other" BINDIR=/opt/x/bin LIBDIR=/opt/x/lib64 MANDIR=/opt/x/man
	nothing_is_left "$work/other"
}

ok "make install succeeds" install_make install DESTDIR="$root"
ok "the installed daemon tells its version" daemon_tells_version
ok "the installed nfq-bench finds its modules, scenarios and references" bench_lists_scenarios_and_references
ok "the installed nfq-bench finds the installed daemon" \
	cmp "$installed/share/nfq-bench/nfq-noop" "$work/build/nfq-noop"
ok "manual pages are in their sections" manuals_are_in_their_sections
ok "the example in nq.h builds with the installed header and library" example_of_the_header_builds
ok "the example in nq(3) builds with the installed header and library" example_of_the_manual_builds
ok "pkg-config tells the version of the header" pkg_config_tells_the_header_s_version
ok "make install succeeds again on top" install_make install DESTDIR="$root"
ok "make uninstall succeeds" install_make uninstall DESTDIR="$root"
ok "make uninstall leaves nothing in DESTDIR" nothing_is_left "$root"
ok "make uninstall without DESTDIR leaves what others have put there" others_files_stay
ok "BINDIR, LIBDIR and MANDIR are the user's to choose" directories_are_the_user_s
done_testing
