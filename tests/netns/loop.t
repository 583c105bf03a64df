#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The loop of nfq-noop under load: what it costs in system calls, memory and faults, how it waits, and that neither its
# buffers nor its real-time policy harm anybody. No test asserts speed.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

# Prints a number of a file of /proc of the daemon, in kB.
noop_memory() { # VmRSS|VmLck|VmHWM
	awk -v key="$1:" '$1 == key { print $2 }' "/proc/$noop_pid/status"
}

# Prints the page faults of all its threads so far.
noop_faults() {
	cat /proc/"$noop_pid"/task/*/stat | sed 's/.*) //' | awk '{ sum += $8 + $10 } END { print sum }'
}

# One TCP flow for so many seconds.
load() { # SECONDS OPTIONS-OF-IPERF3...
	local server
	in_server timeout 60 iperf3 -s -1 >/dev/null 2>&1 </dev/null &
	server=$!
	wait_until 5 server_listens || bail "iperf3's server does not listen"
	in_client timeout $(($1 + 20)) iperf3 -c "${net[server_addr4]}" -t "$1" "${@:2}" >/dev/null 2>&1 </dev/null ||
		fail "iperf3 gets through"
	wait "$server" || true
}

server_listens() {
	in_server ss -Hltn "sport = :5201" | grep -q .
}

lone_packet_test() {
	noop_start
	pings_count 4 50 >/dev/null
	noop_stop
	is "a lone packet: one receive and one verdict" "$(json_value packets) $(json_value send_calls)" "100 100"
	# One more waits for the end, and is answered by the acknowledgement of the stop.
	holds "a lone packet: two system calls" "$(json_value receive_calls) <= 102"
	is "without --spin nothing is asked for in vain" "$(json_value spin_calls)" 0
}

load_test() {
	local faults
	noop_start "$@"
	load 1
	faults=$(noop_faults)
	load 2
	if [[ $(noop_memory VmLck) -gt 0 ]]; then
		is "$*: no page fault under load" "$(($(noop_faults) - faults))" 0
	else
		skip "$*: no page fault under load" "memory is not locked here: not permitted, or more than a quarter of it all"
	fi
	noop_stop
	is "$*: no packet is lost" "$(json_value lost) $(json_value overruns) $(json_value lost_ids)" "0 0 0"
	is "$*: no verdict is refused" "$(json_value verdict_errors) $(json_value malformed)" "0 0"
	holds "$*: it was a load" "$(json_value packets) > 10000"
}

calls_test() {
	noop_start --no-gso
	load 2
	noop_stop
	holds "segments come in bursts: fewer than one call for two packets" \
		"2 * ($(json_value receive_calls) + $(json_value send_calls)) < $(json_value packets)"
}

memory_test() {
	noop_start --copy headers
	if [[ $NFQ_NOOP == */san-* ]]; then
		skip "--copy headers: less than 8 MiB resident" "a sanitizer needs memory of its own"
	else
		holds "--copy headers: less than 8 MiB resident" "$(noop_memory VmRSS) < 8192"
	fi
	if [[ $(noop_memory VmLck) -gt 0 ]]; then
		pass "its memory is locked"
	else
		skip "its memory is locked" "locking memory is not permitted here"
	fi
	noop_stop
	like "the summary tells the policy and the lock" "$(<"$tmp/noop.err")" \
		"scheduling other, spin 0 us, memory (not )?locked"
	is "so does the JSON" "$(json_value memory_locked | grep -cE 'true|false')" 1
}

# A ping every 3 ms, and 5 ms of patience.
spin_test() {
	noop_start --spin 5000
	pings_count 4 100 -i 0.003 >/dev/null
	noop_stop
	holds "--spin: most packets are found without sleeping" "$(json_value spin_receives) > $(json_value packets) / 2"
	holds "--spin: it asked again and again" "$(json_value spin_calls) > $(json_value packets)"
	is "--spin: the JSON tells how long" "$(json_value spin_us)" 5000
}

# Another thread wants the CPU on which the daemon spins in real time.
spin_realtime_test() {
	local hog ticks
	if ! realtime_is_permitted; then
		skip "--spin under SCHED_RR leaves CPU time to others" "real-time scheduling is not permitted here"
		return
	fi
	noop_start --sched rr:99 --spin 1000000 --cpu 0
	like "--spin under SCHED_RR: is bounded, with a warning" "$(<"$tmp/noop.err")" "warning: --spin 1000000: lowered to"
	taskset -c 0 timeout 20 bash -c 'while :; do :; done' &
	hog=$!
	is "--spin under SCHED_RR: pings pass" "$(pings_count 4 500 -i 0.004)" 500
	# Its child is the one that works: utime of the tree.
	ticks=$(cat /proc/"$hog"/task/*/children | tr ' ' '\n' | while read -r pid; do
		[[ ! $pid ]] || sed 's/.*) //' "/proc/$pid/stat"
	done | awk '{ sum += $12 } END { print sum + 0 }')
	kill "$hog" 2>/dev/null || true
	wait "$hog" 2>/dev/null || true
	noop_stop
	holds "--spin under SCHED_RR: it did spin" "$(json_value spin_receives) > 500"
	holds "--spin under SCHED_RR: leaves CPU time to others" "$ticks >= 4" # of 200, 2 s
	is "--spin under SCHED_RR: keeps its policy" "$(json_value policy)" rr
}

sizing_test() {
	if ! root_is_real; then
		noop_start
		like "a buffer that is not granted: a warning with the remedy" "$(<"$tmp/noop.err")" \
			"warning: queue 0: socket buffer of .* are needed: .*rmem_max"
		holds "and a queue that is not longer than it can be" "$(json_maxlen) <= 2 * $(</proc/sys/net/core/rmem_max) / 832"
		noop_stop
	fi
	noop_start --rcvbuf 100000
	is "--rcvbuf: the queue is as long as fits" "$(json_maxlen)" 1
	noop_stop
	noop_start --rcvbuf 1
	like "--rcvbuf 1: a warning that nothing large fits" "$(<"$tmp/noop.err")" "holds 0 of the largest kind"
	noop_stop
	noop_start --rcvbuf 100000 --copy headers
	is "--rcvbuf: longer with a smaller copy" "$(json_maxlen)" 156
	noop_stop
	noop_start --rcvbuf 100000 --maxlen 500
	is "--rcvbuf and --maxlen: as asked" "$(json_maxlen)" 500
	noop_stop
	is "the buffer in force is told" "$(tail -n 1 "$tmp/noop.json" | sed -n 's/.*"rcvbuf_bytes":\([0-9]*\).*/\1/p')" 200000
}

# By its own account, for the kernel does not tell.
json_maxlen() {
	local before
	before=$(json_lines)
	kill -USR1 "$noop_pid"
	wait_until 5 json_has_more "${before:-0}" || bail "no JSON"
	tail -n 1 "$tmp/noop.json" | sed -n 's/.*"maxlen":\([0-9]*\).*/\1/p'
}

json_has_more() { # LINES
	(($(json_lines) > $1))
}

latency_test() {
	noop_start --latency --delay 2000
	pings_count 4 5 >/dev/null
	noop_stop
	ok "--latency: packets stayed as long as they were held" python3 -c '
import json, sys
latency = json.loads(open(sys.argv[1]).readlines()[-1])["queues"][0]["latency_us"]
stay, call = latency["receive_to_verdict"], latency["verdict_call"]
assert 2000 <= stay["p50"] <= stay["p99"] <= stay["p999"] <= stay["max"]
assert 0 < call["p50"] <= call["max"] < stay["max"]' "$tmp/noop.json"
	noop_start
	pings_count 4 5 >/dev/null
	noop_stop
	is "without --latency it is unknown" "$(json_value latency_us)" null
}

# shellcheck disable=SC2119 # without options
net_up
lone_packet_test
load_test --copy full
load_test --copy headers --no-gso
load_test --copy full --spin 50 --latency
calls_test
memory_test
spin_test
spin_realtime_test
sizing_test
latency_test
done_testing
