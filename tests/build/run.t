#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# run.t: tests/run runs what there is, and takes nothing for a success that is not.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source-path=SCRIPTDIR source=../tap.sh
source tests/tap.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests/netns" "$work/tests/unit"
cp tests/run "$work/tests/run"

# Replaces the one test of the kind netns.
given_a_test() { # LINES...
	printf '%s\n' '#!/bin/sh' "$@" >"$work/tests/netns/one.t"
	chmod 755 "$work/tests/netns/one.t"
}

run() { # EXPECTED-STATUS ARGUMENTS...
	local status=0
	output=$("$work/tests/run" "${@:2}" 2>&1) || status=$?
	printf '%s\n' "$output"
	[[ $status == "$1" ]]
}

success_ends_with_the_closing_lines_of_prove() {
	given_a_test 'echo ok 1' 'echo ok 2' 'echo 1..2'
	run 0 netns
	[[ $output == *"Files=1, Tests=2,"*"Result: PASS" ]]
}

failure_fails() {
	given_a_test 'echo ok 1' 'echo not ok 2' 'echo 1..2'
	run 1 netns
	[[ $output == *"Result: FAIL"* ]]
}

exit_status_counts() {
	given_a_test 'echo ok 1' 'echo 1..1' 'exit 3'
	run 1 netns
}

nothing_executed_fails() {
	given_a_test 'echo 1..0'
	run 1 netns
	given_a_test 'exit 0'
	run 1 netns
}

# Even if others are executed.
nothing_executed_fails_among_others() {
	given_a_test 'echo 1..0'
	printf '%s\n' '#!/bin/sh' 'echo ok 1' 'echo 1..1' >"$work/tests/netns/two.t"
	chmod 755 "$work/tests/netns/two.t"
	run 1 netns
	rm "$work/tests/netns/two.t"
}

kind_without_tests_fails() {
	rm -f "$work/tests/unit"/*
	run 1 unit
	[[ $output == *"tests/unit holds no test"* ]]
	run 1 typing-error
}

program_that_is_not_built_fails() {
	touch "$work/tests/unit/one.c"
	run 1 --build "$work/build" unit
	[[ $output == *"$work/build/tests/unit/one is not built"* ]]
}

built_programs_run_with_the_daemon_of_their_tree() {
	touch "$work/tests/unit/one.c"
	mkdir -p "$work/build/tests/unit"
	printf '%s\n' '#!/bin/sh' 'echo ok 1' 'echo 1..1' \
		"[ \"\$NFQ_NOOP\" = '$work/build/nfq-noop' ]" >"$work/build/tests/unit/one"
	chmod 755 "$work/build/tests/unit/one"
	run 0 --build "$work/build" unit
}

ok "success ends with the closing lines of prove" success_ends_with_the_closing_lines_of_prove
ok "a failed test fails" failure_fails
ok "a bad exit status fails" exit_status_counts
ok "a test that executes nothing fails" nothing_executed_fails
ok "a test that executes nothing fails among others" nothing_executed_fails_among_others
ok "a kind without a test fails" kind_without_tests_fails
ok "a program that was not built fails" program_that_is_not_built_fails
ok "programs run with the daemon of their tree" built_programs_run_with_the_daemon_of_their_tree
done_testing
