#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# valgrind finds nothing in a life of the daemon: start, packets, JSON, a restart, the end.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=../netns/lib.sh
source "$(dirname "$0")/../netns/lib.sh"

type -P valgrind >/dev/null || skip_all "no valgrind"
[[ $NFQ_NOOP != */san-* ]] || skip_all "a sanitizer and valgrind do not go together"

# Each of its processes writes a file, whose last line tells the errors. valgrind makes system calls of its own.
valgrind_errors() {
	grep -h "ERROR SUMMARY" "$tmp"/valgrind.* | sed 's/.*SUMMARY: \([0-9]*\) errors.*/\1/' | xargs
}

valgrind_life() { # OPTIONS...
	rm -f "$tmp"/valgrind.*
	# shellcheck disable=SC2054 # commas belong to valgrind's words
	noop_before=(valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite
		--trace-children=yes "--trace-children-skip=*/sh,*iptables*,*nft*,*xtables*" --verbose "--log-file=$tmp/valgrind.%p")
	noop_start --sandbox off "$@"
	is "$*: pings pass" "$(pings_count 4 5)" 5
	kill -USR1 "$noop_pid"
	ok "$*: JSON is written" wait_until 10 json_is_there
	life_ends 10 "$@"

	noop_start --sandbox off "$@"
	noop_restart
	is "$*: pings pass after a restart" "$(pings_count 4 5)" 5
	life_ends 10 "$@"
	noop_before=()
}

json_is_there() {
	(($(json_lines) > 0))
}

life_ends() { # PACKETS OPTIONS...
	noop_stop
	is "${*:2}: it ends in order" "$noop_status $(json_value packets) $(json_value residue)" "0 $1 0"
	like "${*:2}: no error, no leak" "$(valgrind_errors)" "^0( 0)*$"
	rm -f "$tmp"/valgrind.*
}

net_up --bypass
valgrind_life --latency --interval 1
valgrind_life --trace
done_testing
