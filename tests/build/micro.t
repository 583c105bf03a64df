#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# micro.t: what `make bench-micro` counts does its work, whoever counts.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source-path=SCRIPTDIR source=../tap.sh
source tests/tap.sh

build=$(dirname "${NFQ_NOOP:-build/nfq-noop}")
loop=$build/tests/micro/loop
data=tests/micro/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The program itself judges what was received and what was replied.
loop_answers() { # CASE
	local burst
	for burst in 1 2 8 32; do
		"$loop" "$data/$1" "$burst" 1000
	done
}

loop_refuses() { # MESSAGE ARGUMENTS...
	local output status=0
	output=$("$loop" "${@:2}" 2>&1) || status=$?
	printf '%s\n' "$output"
	[[ $status == 1 && $output == *"$1"* ]]
}

truncated_recording_is_refused() {
	head -c 1000 "$data/no-gso-full" >"$work/truncated"
	loop_refuses "within a datagram" "$work/truncated" 1 10
	head -c 8 "$data/no-gso-full" >"$work/empty"
	loop_refuses "empty" "$work/empty" 1 10
}

recordings_are_small() {
	[[ $(cat "$data"/* | wc -c) -le 300000 ]]
}

# A figure for each burst, and the parts do not exceed the whole.
run_prints_figures() {
	local output
	output=$(tests/micro/run --build "$build" gso-meta)
	printf '%s\n' "$output"
	[[ $(awk '$1 == "gso-meta" && $4 > 0 && $5 > 0 && $3 > $4 + $5' <<<"$output" | wc -l) == 4 ]]
}

unknown_case_is_refused() {
	local output status=0
	output=$(tests/micro/run --build "$build" gso-fool 2>&1) || status=$?
	printf '%s\n' "$output"
	[[ $status == 1 && $output == *gso-fool*gso-full* ]]
}

for recording in "$data"/*; do
	ok "${recording##*/}: every packet is answered, in order" loop_answers "${recording##*/}"
done
ok "a truncated recording is refused" truncated_recording_is_refused
ok "recordings are small" recordings_are_small
ok "an unknown case is refused" unknown_case_is_refused
if ! type -P valgrind >/dev/null; then
	skip "instructions are counted" "valgrind is not installed"
elif [[ $build == *san-* ]]; then
	skip "instructions are counted" "valgrind does not run what the sanitizers have changed"
else
	ok "instructions are counted" run_prints_figures
fi
done_testing
