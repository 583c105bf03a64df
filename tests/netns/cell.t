#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# cell.sh leaves files that are complete and agree with each other, says why if it cannot, and leaves nothing else.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

readonly out=$tmp/cell pings=20

# Sets cell_status and cell_error.
cell_run() { # OPTIONS...
	rm -rf "$out"
	cell_status=0
	cell_error=$("$cell" --out "$out" --prefix "$prefix" "$@" 2>&1) || cell_status=$?
}

conf_value() { # KEY
	sed -n "s/^$1=//p" "$out/cell.conf"
}

# Prints a counter of a snapshot.
rule_packets() { # SNAPSHOT
	sed -n 's/^rule4_packets=//p' "$out/$1/netns.status"
}

id_sequence() { # SNAPSHOT
	awk '$1 == 0 { print $8 }' "$out/$1/queue"
}

processor_packets() { # LINE-OF-JSON
	sed -n "$1p" "$out/processor.json" | grep -o '"total".*' | sed 's/.*"packets":\([0-9]*\),.*/\1/;q'
}

files_test() { # WHAT FILES...
	local file missing=()
	for file in cell.conf steps.log timing ping.txt ping.err ping.status iperf3.json iperf3.err iperf3.status \
		iperf3-server.txt congestion offloads."$prefix"-{client,router,server}.txt \
		{start,ping,end}/{netns.status,queue,proc.stat,tainted,uptime,softnet,throttled} \
		{start,ping,end}/{links,qdiscs}."$prefix"-{client,router,server}.json \
		{start,ping,end}/snmp."$prefix"-{client,router,server} \
		end/offloads."$prefix"-{client,router,server}.txt "${@:2}"; do
		[[ -e $out/$file ]] || missing+=("$file")
	done
	is "$1: status 0" "$cell_status $cell_error" "0 "
	is "$1: every file is there" "${missing[*]}" ""
	ok "$1: no error" test ! -e "$out/error"
}

measurements_test() { # WHAT
	is "$1: ping and iperf3 ended well" "$(cat "$out"/{ping,iperf3}.status | xargs)" "0 0"
	is "$1: ping.txt has a line for each ping" "$(grep -c '^\[.*time=' "$out/ping.txt")" "$pings"
	ok "$1: iperf3.json is JSON" python3 -m json.tool "$out/iperf3.json"
	like "$1: iperf3 used cubic" "$(<"$out/iperf3.json")" '"sender_tcp_congestion":[[:space:]]*"cubic"'
	like "$1: so does the live connection" "$(<"$out/congestion")" "cubic .*bytes_sent"
	is "$1: timing has each step" "$(cut -d = -f 1 "$out/timing" | xargs)" "setup_s ping_s iperf_s teardown_s"
	ok "$1: links are JSON" python3 -m json.tool "$out/end/links.$prefix-client.json"
	is "$1: offloads name namespace and device" \
		"$(cut -d ' ' -f 1,2 "$out/offloads.$prefix-router.txt" | sort -u | xargs)" \
		"$prefix-router to-client: $prefix-router to-server:"
}

none_test() {
	cell_run --mode none --ping "$pings@5" --iperf 1
	files_test "mode none"
	measurements_test "mode none"
	is "mode none: no rule, no queue, no processor" \
		"$(conf_value backend) $(cat "$out"/*/queue) $(conf_value processor_pid)" "none  "
	is_as_before "mode none: nothing is left behind"
}

queue_test() {
	local policy="other 0" options=()
	! realtime_is_permitted || { options=(--sched rr:42) && policy="rr 42"; }
	cell_run --ping "$pings@5" --iperf 1 --pin client=0,server=0,daemon=0 "${options[@]}"
	files_test "mode queue" processor.{json,out,err,status} sched.txt {start,ping,end}/proc.processor.{stat,status}
	measurements_test "mode queue"
	is "mode queue: the warm-up is over at the start" "$(id_sequence start)" 6
	is "mode queue: the pings, both directions, and nothing else" \
		$(($(id_sequence ping) - $(id_sequence start))) $((2 * pings))
	is "mode queue: the rule counts what the queue counts" "$(rule_packets ping) $(rule_packets end)" \
		"$(id_sequence ping) $(id_sequence end)"
	is "mode queue: so does IP before the hook" "$(ip_count InReceives router ping) $(ip_count InReceives router end)" \
		"$(rule_packets ping) $(rule_packets end)"
	is "mode queue: so does the daemon, after ping and at the end" "$(processor_packets 1) $(processor_packets 2)" \
		"$(id_sequence ping) $(id_sequence end)"
	is "mode queue: the daemon ended in order" "$(<"$out/processor.status")" 0
	is "mode queue: every thread ran under the policy asked for" \
		"$(cut -d ' ' -f 2,3 "$out/sched.txt" | sort -u)" "$policy"
	like "mode queue: it was the processor's" "$(<"$out/sched.txt")" "^$(conf_value processor_pid) "
	like "mode queue: its memory is told" "$(<"$out/end/proc.processor.status")" "VmHWM:.*VmRSS:"
	is_as_before "mode queue: nothing is left behind"
}

# Prints a counter of IPv4 in a namespace.
ip_count() { # NAME ROLE SNAPSHOT
	awk -v name="$1" '$1 != "Ip:" { next }
		field { print $field; exit }
		{ for (i = 2; i <= NF; i++) if ($i == name) field = i }' "$out/$3/snmp.$prefix-$2"
}

# Prints the numbers of the queues of a snapshot, and how many packets they had together.
queues_print() { # SNAPSHOT
	awk '{ numbers = numbers $1 " "; packets += $8 } END { print numbers packets }' "$out/$1/queue"
}

queues_test() {
	cell_run --queue 3 --queues 2 --fanout cpu --ping "$pings@5" --iperf 1
	is "several queues: status 0" "$cell_status $cell_error" "0 "
	is "several queues: cell.conf tells them" "$(conf_value queue) $(conf_value queues) $(conf_value fanout)" "3 2 cpu"
	is "several queues: a snapshot has each of them, and every packet" "$(queues_print end)" \
		"3 4 $(rule_packets end)"
	is "several queues: the daemon counts the same" "$(processor_packets 2)" "$(rule_packets end)"
	cell_run --queue 3 --queues 2 --ping 5@5 --iperf 0 \
		--processor "'$NFQ_NOOP' --queue {queue}:{last_queue} --json >'$tmp/elsewhere'"
	is "several queues, a processor of one's own: status 0" "$cell_status $cell_error" "0 "
	is "several queues, a processor of one's own: it had all of them" "$(queues_print end)" "3 4 $(rule_packets end)"
	is "a processor's output goes where its command says" \
		"$(wc -l <"$tmp/elsewhere") $(wc -c <"$out/processor.out")" "1 0"
	is_as_before "several queues: nothing is left behind"
}

# When the first and the last reply came, and when iperf3 began and ended: microseconds, but iperf3 tells seconds only.
replies_print() {
	sed -n 's/^\[\([0-9]*\)\.\([0-9]*\)\].*/\1\2/p' "$out/ping.txt" | sed -n '1p;$p' | xargs
}

load_print() {
	python3 -c '
import json, sys
start = json.load(sys.stdin)["start"]
begin = start["timestamp"]["timesecs"]
print(begin * 1000000, (begin + 1 + start["test_start"]["duration"]) * 1000000)' <"$out/iperf3.json"
}

together_test() {
	local first last begin end
	cell_run --together --ping "$pings@25" --iperf 2
	files_test "--together" processor.{json,out,err,status} sched.txt
	measurements_test "--together"
	read -r first last < <(replies_print)
	read -r begin end < <(load_print)
	holds "--together: ping ran while iperf3 did" "$begin <= $first && $first < $last && $last <= $end"
	is "--together: nothing before both" "$(rule_packets ping)" "$(rule_packets start)"
	is "--together: the rule counts what the queue counts" "$(rule_packets end)" "$(id_sequence end)"
	is "--together: cell.conf tells it" "$(conf_value together)" yes
	cell_run --together --ping "$pings@100" --iperf 2
	like "--together: ping must end first" "$cell_status $cell_error" "^2 cell.sh: --together: .* would outlast"
	cell_run --together --ping 0
	like "--together: needs both" "$cell_status $cell_error" "^2 cell.sh: --together: needs both"
	is_as_before "--together: nothing is left behind"
}

# What netns.sh makes of the options is tested with it.
links_test() {
	cell_run --topology pair --family 6 --gso-max 131072 --rps 0 --ping 5@5 --iperf 0
	((cell_status != 4)) || { skip "--gso-max and --rps reach the links" "$cell_error" && return; }
	is "--gso-max and --rps: status 0" "$cell_status $cell_error" "0 "
	is "--gso-max and --rps reach the links" "$(grep -E '^(gso_max|rps)=' "$out/end/netns.status" | xargs)" \
		"gso_max=131072 rps=0"
	is "--gso-max and --rps: cell.conf tells them" "$(conf_value gso_max) $(conf_value rps)" "131072 0"
	cell_run --fanout cpu
	like "what netns.sh refuses: its status and reason" "$cell_status $cell_error" "^2 netns.sh: --fanout cpu: needs"
	is_as_before "options of the links: nothing is left behind"
}

# Prints the ticks that CPU 0 spent on ordinary processes up to a snapshot.
user_ticks() { # SNAPSHOT
	awk '$1 == "cpu0" { print $2 }' "$out/$1/proc.stat"
}

busy_test() {
	cell_run --busy 0 --ping 100@10 --iperf 0
	is "--busy: status 0" "$cell_status $cell_error" "0 "
	holds "--busy: the CPU has something else to do" "$(user_ticks ping) - $(user_ticks start) > 25" # of 100
	is "--busy: cell.conf tells it" "$(conf_value busy)" 0
	is_as_before "--busy: nothing is left behind"
}

foreign_test() {
	cell_run --family 6 --topology pair --queue 3 --ping 5@5 --iperf 0 \
		--processor "'$NFQ_NOOP' --queue {queue} --no-gso"
	is "a processor of one's own: status 0" "$cell_status $cell_error" "0 "
	is "a processor of one's own: it had its queue" "$(awk '{ print $1, $8 }' "$out/ping/queue")" "3 8"
	is "a processor of one's own: it was ended by SIGTERM" "$(<"$out/processor.status")" 0
	is "a processor of one's own: no JSON is expected" "$(find "$out" -name 'p*.json')" ""
	ok "--iperf 0: the policy is read all the same" test -s "$out/sched.txt"
	is_as_before "a processor of one's own: nothing is left behind"
}

# The cell must fail with status 1 and this in the error file, and clean up.
failure_test() { # WHAT ERROR OPTIONS...
	cell_run "${@:3}"
	is "$1: status 1" "$cell_status" 1
	like "$1: the error is told" "$(<"$out/error")" "$2"
	is "$1: in one line" "$(wc -l <"$out/error")" 1
	is_as_before "$1: nothing is left behind"
}

usage_test() {
	mkdir -p "$out" && : >"$out/file"
	is "a folder that is not empty is refused" "$("$cell" --out "$out" 2>&1 || echo $?)" \
		"cell.sh: --out $out: is not empty"$'\n'2
	cell_run --ping often
	like "wrong usage: status 2" "$cell_status $cell_error" "^2 cell.sh: --ping: 'often'"
	cell_run --out
	like "a value is missing: status 2" "$cell_status $cell_error" "^2 cell.sh: --out: needs a value"
	is_as_before "wrong usage makes nothing"
}

# Starts a cell in the background, sets cell_pid, and waits until it has come to where the condition holds.
cell_start() { # CONDITION...
	rm -rf "$out"
	"$cell" --out "$out" --prefix "$prefix" --ping 100@10 --iperf 2 >"$tmp/cell.log" 2>&1 &
	cell_pid=$!
	wait_until 20 "$@" || bail "cell.sh did not get there: $*"
}

died_test() { # MEASUREMENT FILE-THAT-SHOWS-IT
	local status=0
	cell_start test -s "$out/$2"
	kill -KILL "$(conf_value processor_pid)"
	wait "$cell_pid" || status=$?
	is "a processor that dies during $1: status 1, the error is told" "$status $(<"$out/error")" \
		"1 the processor ended with status 137 during $1: $(tail -n 1 "$out/processor.err")"
	is_as_before "a processor that dies during $1: nothing is left behind"
}

# With -J, iperf3 may fail with status 0.
iperf_failure_test() {
	cell_run --cc nonesuch --ping 0 --iperf 1
	is "iperf3 fails: the cell was performed" "$cell_status $cell_error" "0 "
	like "iperf3 fails: its JSON says why" "$(<"$out/iperf3.json")" '"error":.*congestion control'
	is_as_before "iperf3 fails: nothing is left behind"
}

steps_are() { # NUMBER
	[[ -e $out/steps.log ]] && (($(grep -c '^\[+\]' "$out/steps.log") >= $1))
}

kill_test() {
	local condition
	for condition in "steps_are 10" "test -s $out/processor.err" "test -s $out/ping.txt" "test -s $out/congestion" \
		"test -e $out/end"; do
		# shellcheck disable=SC2086
		cell_start $condition
		kill -KILL "$cell_pid"
		wait "$cell_pid" 2>/dev/null || true
		"$netns" down --quiet --prefix "$prefix"
		is_as_before "kill -9 at '${condition//$out\//}', then netns.sh down: nothing is left behind"
	done
}

# Prints what TCP remembers of connections that have ended.
metrics_print() {
	ip -n "$prefix-client" tcp_metrics show 2>/dev/null || true
}

metrics_are_kept() {
	[[ $(metrics_print) ]]
}

# No run inherits from the one before it: neither a server that waits for a client that was killed, nor TCP's metrics.
again_test() {
	cell_start test -s "$out/congestion"
	kill -KILL "$cell_pid"
	wait "$cell_pid" 2>/dev/null || true
	"$netns" down --quiet --prefix "$prefix"
	cell_start metrics_are_kept
	wait "$cell_pid"
	is "after a client that was killed the next run works at once" \
		"$(<"$out/iperf3.status") $(grep -c '"error":' "$out/iperf3.json")" "0 0"
	cell_start test -s "$out/ping.txt"
	is "TCP's metrics of the run before are gone" "$(metrics_print)" ""
	kill "$cell_pid"
	wait "$cell_pid" || true
	is_as_before "several runs leave nothing behind"
}

terminate_test() {
	local status=0
	cell_start test -s "$out/ping.txt"
	kill "$cell_pid"
	wait "$cell_pid" || status=$?
	is "SIGTERM: status 1 and an error" "$status $(<"$out/error")" "1 stopped by a signal"
	is_as_before "SIGTERM: nothing is left behind"
}

machine_remember
none_test
queue_test
queues_test
together_test
links_test
busy_test
foreign_test
failure_test "a processor that never binds" "has not bound queue 0 after 1 s" --processor "sleep 100" --ready 1
failure_test "a processor that binds one queue of two" "has not bound queue 0:1 after 1 s" --ready 1 --queues 2 \
	--processor "'$NFQ_NOOP' --queue {queue}"
failure_test "a processor that fails" "ended with status 2 before it was ready: nfq-noop: --nonsense" \
	--noop-args --nonsense
died_test ping ping.txt
died_test iperf3 congestion
realtime_is_permitted ||
	failure_test "SCHED_RR is not permitted" "before it was ready: chrt: .*not permitted" --sched rr:42
failure_test "a processor that drops everything" "no ping comes back" \
	--processor "'$NFQ_NOOP' --queue {queue} --delay 3000000"
iperf_failure_test
usage_test
kill_test
again_test
terminate_test
done_testing
