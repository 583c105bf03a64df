#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# nfq-noop on the real kernel: who may bind, what its options do, what it reports, and that it starts and stops without
# losing a packet.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

# Ends what it starts with within a second, or by timeout with status 124.
quickly=(timeout 1)

queue_is_bound() { # QUEUE
	[[ $(queue_value portid "$1") ]]
}

owner_test() {
	noop_start
	noop_before=("${quickly[@]}")
	noop_fail
	noop_before=()
	like "an owned queue: status 1 within a second, the owner named" "$noop_status $noop_error" \
		"^1 nfq-noop: queue 0: owned by $(</proc/"$noop_pid"/comm) \(pid $noop_pid\)"
	is "an owned queue: one line" "$(wc -l <<<"$noop_error")" 1
	is "the owner goes on" "$(pings_count 4 5)" 5
	noop_fail --queue 0:1
	ok "a range with an owned queue binds none of it" not queue_is_bound 1
	kill -KILL "$noop_pid"
	wait "$noop_pid" 2>/dev/null || true
	noop_start
	is "after kill -9 the queue can be bound at once" "$(pings_count 4 5)" 5
	noop_stop
}

capability_test() {
	noop_start
	noop_before=("${quickly[@]}" setpriv --bounding-set -net_admin --inh-caps -net_admin)
	for queue in 0 1; do
		noop_fail --queue "$queue"
		like "no capability, queue $queue: status 1 within a second, it is named" "$noop_status $noop_error" \
			"^1 nfq-noop: queue $queue: needs CAP_NET_ADMIN"
		is "no capability, queue $queue: one line" "$(wc -l <<<"$noop_error")" 1
	done
	noop_before=()
	noop_stop
}

# Prints the policies and priorities of all threads, each once.
policies_print() {
	chrt --all-tasks --pid "$noop_pid" | sed 's/.*: //' | xargs -n 2 | sort -u
}

realtime_test() {
	if ! realtime_is_permitted; then
		skip "chrt's policy is kept; --sched sets one" "real-time scheduling is not permitted here"
		return
	fi
	noop_before=(chrt -rr 99)
	noop_start
	is "chrt -rr 99: every thread keeps it, and none hands it down" "$(policies_print)" \
		"$(printf '%s\n' "SCHED_RR 99" "SCHED_RR|SCHED_RESET_ON_FORK 99")"
	is "chrt -rr 99: pings pass" "$(pings_count 4 5)" 5
	noop_stop
	is "chrt -rr 99: the JSON tells it" "$(json_value policy) $(json_value priority)" "rr 99"
	noop_start --sched other
	noop_stop
	is "--sched other: undoes it for the workers" "$(json_value policy) $(json_value priority)" "other 0"
	noop_before=()
	noop_start --sched rr:50
	like "--sched rr:50: a thread has it" "$(policies_print)" "SCHED_RR.SCHED_RESET_ON_FORK 50"
	noop_stop
	is "--sched rr:50: the JSON tells it" "$(json_value policy) $(json_value priority)" "rr 50"
	noop_start --sched fifo:7
	noop_stop
	is "--sched fifo:7: the JSON tells it" "$(json_value policy) $(json_value priority)" "fifo 7"
}

# What the kernel does to a real-time thread that is stuck, without one that is: it sends SIGXCPU.
realtime_stuck_test() {
	if thread_sanitizer_is_there; then
		skip "a real-time thread that is stuck loses its policy" "the sanitizer has a thread of its own"
		return
	fi
	if ! realtime_is_permitted; then
		skip "a real-time thread that is stuck loses its policy" "real-time scheduling is not permitted here"
		return
	fi
	noop_before=(chrt -rr 99)
	noop_start
	noop_before=()
	like "RLIMIT_RTTIME is set" "$(prlimit --rttime --output SOFT --noheadings --pid "$noop_pid")" "500000"
	kill -XCPU "$noop_pid"
	ok "a thread that is stuck: all lose the real-time policy" wait_until 5 policies_are_ordinary
	is "a thread that is stuck: packets go on" "$(pings_count 4 5)" 5
	noop_stop
	is "a thread that is stuck: the JSON tells the policy in force" "$(json_value policy) $(json_value priority)" \
		"other 0"
	like "a thread that is stuck: a warning says so" "$(<"$tmp/noop.err")" "real-time policy given up"
}

policies_are_ordinary() {
	! policies_print | grep -qv '^SCHED_OTHER'
}

# shellcheck disable=SC2016
realtime_refused_test() {
	noop_before=(setpriv --bounding-set -sys_nice --inh-caps -sys_nice bash -c 'ulimit -r 0; exec "$@"' -)
	noop_fail --sched rr:50
	noop_before=()
	like "--sched without permission: status 1, the remedy named" "$noop_status $noop_error" \
		"^1 nfq-noop: --sched rr:50: not permitted: .*CAP_SYS_NICE"
	is "--sched without permission: one line" "$(wc -l <<<"$noop_error")" 1
	ok "--sched without permission: the queue stays free" not queue_is_bound 0
}

ready_test() {
	local i passed=0
	for ((i = 0; i < 10; i++)); do
		noop_start
		passed=$((passed + $(pings_count 4 1)))
		noop_stop
	done
	is "once it says ready the first packet passes, 10 times of 10" "$passed" 10
}

signals_test() {
	local signal
	for signal in TERM INT; do
		noop_start
		kill -"$signal" "$noop_pid"
		noop_await_end
		is "SIG$signal ends it with status 0" "$noop_status" 0
		is "SIG$signal: one last line of JSON" "$(json_lines)" 1
	done
}

# As timeout(1) does: right behind each other.
signals_twice_test() {
	local i lines=0
	for ((i = 0; i < 10; i++)); do
		noop_start --delay 3000
		pings_count 4 1 >/dev/null
		kill -TERM "$noop_pid"
		kill -TERM "$noop_pid" 2>/dev/null || true
		noop_await_end
		lines=$((lines + $(json_lines) + noop_status))
	done
	is "SIGTERM twice ends it in order all the same, 10 times of 10" "$lines" 10
}

# It shall not have to open all of them first.
start_interrupted_test() {
	local pid status=0
	(
		ulimit -n "$(ulimit -Hn)"
		exec timeout --preserve-status 30 nsenter --net="/run/netns/${net[queue_ns]}" -- "$NFQ_NOOP" --queue 0:65535
	) >/dev/null 2>"$tmp/noop.err" &
	pid=$!
	wait_until 20 queue_is_bound 0 || bail "nfq-noop --queue 0:65535 binds nothing"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	is "SIGTERM while thousands of queues are bound: status 0, no error" "$status $(grep -v warning: "$tmp/noop.err")" "0 "
	ok "SIGTERM while thousands of queues are bound: none stays bound" not queue_is_bound 0
}

# A ping every 2 ms, each packet held for 3 ms: some are held whenever the daemon stops.
stop_test() {
	local ping stops=0
	net_up --bypass
	noop_start --delay 3000
	nsenter --net="/run/netns/$prefix-client" -- \
		ping -n -q -c 600 -i 0.002 -W 1 "${net[server_addr4]}" >"$tmp/ping.out" 2>&1 </dev/null &
	ping=$!
	while kill -0 "$ping" 2>/dev/null; do
		wait_until 2 packets_have_come 20 || true
		noop_stop
		((noop_status == 0)) || fail "it ends in order" "$(<"$tmp/noop.err")"
		stops=$((stops + 1))
		noop_start --delay 3000
	done
	noop_stop
	wait "$ping" || true
	like "stops and starts under a stream of pings lose none" "$(<"$tmp/ping.out")" \
		"600 packets transmitted, 600 received, 0% packet loss"
	holds "that was at least three stops" "$stops >= 3"
	net_up
}

# Pings every 2 ms, each held for 3 ms, and the program becomes itself anew again and again.
restart_test() {
	local ping portid restarts=0
	noop_start --delay 3000
	portid=$(queue_value portid)
	nsenter --net="/run/netns/$prefix-client" -- \
		ping -n -q -c 400 -i 0.002 -W 1 "${net[server_addr4]}" >"$tmp/ping.out" 2>&1 </dev/null &
	ping=$!
	while kill -0 "$ping" 2>/dev/null; do
		noop_restart
		restarts=$((restarts + 1))
		sleep 0.1
	done
	wait "$ping" || true
	is "SIGHUP: the process and its socket stay the same" "$(queue_value portid) $(noop_is_gone || echo alive)" \
		"$portid alive"
	queue_await_rest 0
	noop_stop
	like "SIGHUP: restarts under a stream of pings lose none" "$(<"$tmp/ping.out")" \
		"400 packets transmitted, 400 received, 0% packet loss"
	holds "that was at least three restarts" "$restarts >= 3"
	is "SIGHUP: the JSON counts them" "$(json_value restarts)" "$restarts"
	is "SIGHUP: no packet is unseen, all are counted from the first start on" \
		"$(json_value lost_ids) $(json_value packets) $(json_value queued)" "0 800 800"
	is "SIGHUP: the account has no residue" "$(json_value residue)" 0
}

# The file is replaced by one that says so: a script, which needs calls that the filter does not know.
restart_newer_test() {
	local noop=$NFQ_NOOP
	cp "$NFQ_NOOP" "$tmp/newer"
	NFQ_NOOP=$tmp/newer
	noop_start --sandbox off
	rm "$tmp/newer"
	kill -HUP "$noop_pid"
	ok "SIGHUP without the file: an error" wait_until 5 grep -q "cannot start .*newer anew: No such file" "$tmp/noop.err"
	is "SIGHUP without the file: the old program goes on" "$(pings_count 4 5)" 5
	printf '#!/bin/bash\necho "the newer one: $*" >&2\nexec %q "$@"\n' "$noop" >"$tmp/newer"
	chmod 755 "$tmp/newer"
	noop_restart
	like "SIGHUP: the program that is there by now is started, with the same options" "$(<"$tmp/noop.err")" \
		"the newer one: --json=$tmp/noop.json"
	is "SIGHUP: pings pass" "$(pings_count 4 5)" 5
	noop_stop
	is "SIGHUP: it ends in order" "$noop_status $(json_value packets) $(json_value residue)" "0 20 0"
	NFQ_NOOP=$noop
}

# Prints the lines of /proc of each thread for these fields, each once.
status_print() { # FIELD
	sed -n "s/^$1:[[:space:]]*//p" /proc/"$noop_pid"/task/*/status | sort -u
}

privilege_test() {
	if thread_sanitizer_is_there; then
		skip "privileges" "the sanitizer has a thread of its own, which keeps its privileges"
		return
	fi
	local user=(--user nobody)
	root_is_real || user=()
	noop_start "${user[@]}"
	for set in CapPrm CapEff CapBnd; do
		is "of $set CAP_NET_ADMIN is left" "$(status_print $set)" 0000000000001000
	done
	is "no new privileges" "$(status_print NoNewPrivs)" 1
	is "pings pass with that" "$(pings_count 4 5)" 5
	noop_restart
	is "after a restart too" "$(status_print CapEff) $(pings_count 4 5)" "0000000000001000 5"
	kill -USR1 "$noop_pid"
	wait_until 5 json_has_lines 1 || true
	noop_stop
	is "the JSON file is written to all the same, and the kernel's counters are known" \
		"$(json_lines) $(json_value kernel_dropped) $(json_value residue)" "2 0 0"
	if ! root_is_real; then
		skip "--user nobody" "root of a user namespace has no other users"
		return
	fi
	noop_start "${user[@]}"
	is "--user nobody: all threads are nobody's" "$(status_print Uid | cut -f 1-3 | tr '\t' ' ')" \
		"$(id -u nobody) $(id -u nobody) $(id -u nobody)"
	noop_stop
	noop_fail --user no-such-user
	like "--user of nobody known: one line, status 1" "$noop_status $(grep -v warning: <<<"$noop_error")" \
		"^1 nfq-noop: --user no-such-user: there is no such user"
}

# An ordinary user with two capabilities, of which it gives one back.
service_test() {
	local capabilities="-all,+net_admin,+dac_read_search"
	if ! root_is_real || thread_sanitizer_is_there; then
		skip "as a service manager starts it" "root of a user namespace has no other users, or a sanitizer its own thread"
		return
	fi
	chmod 777 "$tmp"
	noop_before=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps "$capabilities"
		--ambient-caps "$capabilities" --bounding-set "$capabilities")
	noop_start
	noop_before=()
	is "as a service manager starts it: of the capabilities one is left" \
		"$(status_print CapEff) $(status_print CapAmb)" "0000000000001000 0000000000001000"
	noop_restart
	is "as a service manager starts it: pings pass" "$(pings_count 4 5)" 5
	noop_stop
	is "as a service manager starts it: the kernel's counters are known" "$(json_value kernel_dropped) $(json_value residue)" \
		"0 0"
	chmod 755 "$tmp"
}

# Filters of the threads, of which a sanitizer's runtime allows none.
sandbox_test() {
	if sanitizer_is_there; then
		skip "--sandbox" "a sanitizer's runtime makes calls of its own"
		return
	fi
	noop_start
	is "every thread is under a filter" "$(status_print Seccomp)" 2
	noop_restart
	noop_restart
	is "restarts do not add to them" "$(status_print Seccomp_filters | tail -n 1)" 2
	noop_stop
	noop_start --sandbox off
	is "--sandbox off: none is" "$(status_print Seccomp)" 0
	noop_stop
}

sanitizer_is_there() {
	grep -q __asan_init "$NFQ_NOOP" || thread_sanitizer_is_there
}

thread_sanitizer_is_there() {
	grep -q __tsan_init "$NFQ_NOOP"
}

rules_test() {
	noop_start
	like "a rule without bypass is told" "$(<"$tmp/noop.err")" "warning: a rule without bypass: .*"
	noop_stop
	noop_fail --check
	like "--check tells it too" "$noop_status $noop_error" "^0 .*rule without bypass"
	net_up --bypass
	noop_start
	is "one with bypass is not" "$(grep -c bypass "$tmp/noop.err")" 0
	noop_stop
	noop_fail --check
	like "--check: all have bypass" "$noop_error" "ok +rules: all have bypass"
	net_up
}

packets_have_come() { # NUMBER
	(($(queue_value id_sequence) >= $1))
}

json_test() {
	noop_start
	pings_count 4 3 >/dev/null
	kill -USR1 "$noop_pid"
	wait_until 5 json_has_lines 1 || true
	is "SIGUSR1 writes a line" "$(json_lines)" 1
	is "it counts what came by then" "$(json_value packets)" 6
	pings_count 4 3 >/dev/null
	noop_stop
	is "the end writes another" "$(json_lines) $(json_value packets)" "2 12"
	ok "each line is a JSON object of schema 1" python3 -c '
import json, sys
for line in open(sys.argv[1]):
    assert json.loads(line)["schema"] == 1' "$tmp/noop.json"
}

json_has_lines() { # NUMBER
	(($(json_lines) == $1))
}

queues_test() {
	noop_start --queue 0:1
	ok "--queue 0:1 binds queue 0" queue_is_bound 0
	ok "--queue 0:1 binds queue 1" queue_is_bound 1
	ok "--queue 0:1 binds no other" not queue_is_bound 2
	noop_stop
	ok "the end frees them" not queue_is_bound 0
	is "the JSON has an entry for each" "$(grep -o '"queue":[0-9]*' "$tmp/noop.json" | xargs)" "queue:0 queue:1"
}

check_test() {
	noop_fail --check
	is "--check of what would work: status 0" "$noop_status" 0
	ok "--check leaves the queue free" not queue_is_bound 0
	noop_start
	noop_fail --check
	like "--check of an owned queue: status 1, the owner named" "$noop_status $noop_error" "^1 .*queue 0: owned by"
	noop_stop
}

options_in_kernel_test() {
	noop_start --copy headers
	is "--copy headers: the kernel copies 128 bytes" "$(queue_value copy_mode) $(queue_value copy_range)" "2 128"
	noop_stop
	noop_start --copy meta
	is "--copy meta: the kernel copies no payload" "$(queue_value copy_mode)" 1
	noop_stop
	noop_start --cpu 0
	is "--cpu 0: a thread may run there only" \
		"$(grep -h Cpus_allowed_list /proc/"$noop_pid"/task/*/status | cut -f 2 | grep -c '^0$')" 1
	noop_stop
	is "--cpu 0: the JSON tells it" "$(json_value cpu)" 0
}

delay_test() {
	local rtt
	noop_start --delay 2000
	rtt=$(ping_server 4 -c 5 -i 0.01 | sed -n 's,.* = \([0-9.]*\)/.*,\1,p')
	noop_stop
	holds "--delay 2000: no round trip is shorter than two delays" "${rtt/./} >= 4000"
	noop_start --delay 100
	pings_count 4 20 >/dev/null
	noop_stop
	holds "--delay 100: a packet is held awake, and waited for asleep" \
		"$(json_value voluntary_switches) < $(json_value packets) * 3 / 2"
}

trace_test() {
	noop_start --trace
	pings_count 4 1 >/dev/null
	pings_count 6 1 >/dev/null
	noop_stop
	is "--trace prints a line a packet" "$(wc -l <"$tmp/noop.out")" 4
	like "--trace names the interfaces" "$(head -n 1 "$tmp/noop.out")" "in to-client out to-server ipv4 length 84"
	like "--trace names them for IPv6" "$(tail -n 1 "$tmp/noop.out")" "in to-server out to-client ipv6 length 104"
}

interval_test() {
	noop_start --interval 1
	ok "--interval 1 prints rates" wait_until 5 grep -q '/s' "$tmp/noop.err"
	noop_stop
}

# Twenty packets at once, each held for 5 ms, and room for one.
overload_test() {
	local options=(--maxlen 1 --burst 1 --delay 5000) received overloaded
	noop_start "${options[@]}"
	received=$(pings_count 4 40 -l 20)
	queue_await_rest 0
	overloaded=$(queue_value dropped)
	ok "an overload is told" wait_until 5 grep -q overload: "$tmp/noop.err"
	noop_stop
	holds "a queue that is too short loses packets" "$received < 40"
	holds "which the daemon reports" "$(json_value kernel_dropped) > 0"
	like "while it lasts, with the remedy" "$(<"$tmp/noop.err")" \
		"queue 0: overload: $overloaded packets dropped within 1 s, $overloaded in all, because 1 were waiting: raise"
	is "and once only, since it did not last" "$(grep -c overload: "$tmp/noop.err")" 1
	noop_start "${options[@]}" --fail-open
	received=$(pings_count 4 40 -l 20)
	queue_await_rest 0
	noop_stop
	is "--fail-open loses none" "$received $(json_value kernel_dropped)" "40 0"
	holds "though some passed unseen" "$(json_value packets) < 80"
}

burst_test() {
	noop_start --delay 5000
	pings_count 4 40 -l 20 >/dev/null
	queue_await_rest 0
	noop_stop
	holds "several packets are received at once" "$(json_value receive_calls) < $(json_value packets)"
	holds "and answered at once" "$(json_value send_calls) < $(json_value packets)"
	noop_start --burst 1 --delay 500
	pings_count 4 40 -l 20 >/dev/null
	queue_await_rest 0
	noop_stop
	holds "--burst 1: a call for each packet" "$(json_value receive_calls) >= $(json_value packets)"
	is "--burst 1: an answer for each packet" "$(json_value send_calls)" "$(json_value packets)"
}

net_up
owner_test
capability_test
realtime_test
realtime_stuck_test
realtime_refused_test
ready_test
signals_test
signals_twice_test
start_interrupted_test
json_test
queues_test
check_test
options_in_kernel_test
delay_test
trace_test
interval_test
overload_test
burst_test
stop_test
restart_test
restart_newer_test
privilege_test
service_test
sandbox_test
rules_test
done_testing
