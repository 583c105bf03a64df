#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# kill -9: with a service manager that keeps the sockets nothing is lost; without one just what waited, and what comes
# until somebody has bound the queue unless the rule has bypass.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=load.sh
source "$(dirname "$0")/load.sh"

readonly rounds=${NFQ_FAULTS_ROUNDS:-5}
readonly manager=$top/tests/faults/manager.py state=$tmp/manager

ldd "$NFQ_NOOP" | grep -q libsystemd || skip_all "this nfq-noop was built without libsystemd"

# Starts the manager, which starts nfq-noop with the options of the file `options`.
managed_start() { # [--watchdog USEC]
	rm -rf "$state"
	mkdir "$state"
	: >"$state/log"
	rm -f "$tmp"/noop.{json,err}
	# shellcheck disable=SC2016
	in_queue_background python3 "$manager" "$state" "$@" bash -c \
		'exec "$0" --adopt --json="$1" --sandbox kill $(<"$2")' "$NFQ_NOOP" "$tmp/noop.json" "$tmp/options"
	manager_pid=$!
	wait_until 10 managed_has_said READY 1 || bail "it is not ready: $(<"$tmp/noop.err")"
}

# Its pid must be the program's.
in_queue_background() { # COMMAND...
	nsenter --net="/run/netns/${net[queue_ns]}" -- "$@" >"$tmp/noop.out" 2>"$tmp/noop.err" </dev/null &
}

managed_has_said() { # LINE TIMES
	(($(grep -cx "$1" "$state/log") >= $2))
}

managed_pid() {
	sed -n 's/^started //p' "$state/log" | tail -n 1
}

managed_kill() {
	local ready
	ready=$(grep -cx READY "$state/log")
	kill -KILL "$(managed_pid)"
	wait_until 10 managed_has_said READY $((ready + 1)) || fail "it is started again" "$(<"$tmp/noop.err")"
}

managed_stop() {
	kill -TERM "$manager_pid"
	wait "$manager_pid" || true
}

adoption_test() {
	local i portid
	echo "${held[*]}" >"$tmp/options"
	managed_start
	portid=$(queue_value portid)
	load_start $((rounds / 2 + 3))
	for ((i = 0; i < rounds; i++)); do
		sleep 0.3
		managed_kill
	done
	ok "kill -9, socket kept: the load was still on" load_goes_on
	load_await
	is "kill -9, socket kept: the queue has the same socket" "$(queue_value portid)" "$portid"
	queue_await_rest 0
	managed_stop
	diag "kill -9, socket kept: $i times; UDP $udp_lost of $sent lost, pings $pings_lost of $pings, TCP $tcp_bytes bytes"
	is "kill -9, socket kept: no datagram is lost" "$udp_lost" 0
	is "kill -9, socket kept: no ping is lost" "$pings_lost" 0
	holds "kill -9, socket kept: TCP had its share" "$tcp_bytes > 1000000"
	is "kill -9, socket kept: the last one's account balances" \
		"$(json_value residue) $(json_value waiting) $(json_value lost_ids)" "0 0 0"
}

# Fifty packets wait for a process that is slow.
fill_queue() {
	noop_start --delay 10000000 --burst 1
	in_client ping -n -q -f -i 0.002 -c 50 -W 2 "${net[server_addr4]}" >"$tmp/ping.out" 2>&1 </dev/null &
	ping_pid=$!
	wait_until 5 packets_wait 50 || fail "fifty packets wait" "$(queue_value waiting)"
}

crash_test() {
	fill_queue
	kill -KILL "$noop_pid"
	noop_await_end 2>/dev/null
	is "kill -9, bypass: the next packets pass" "$(pings_count 4 5)" 5
	wait "$ping_pid" || true
	like "kill -9, bypass: just those that waited are lost" "$(<"$tmp/ping.out")" "50 packets transmitted, 0 received"
	net_up
	fill_queue
	kill -KILL "$noop_pid"
	noop_await_end 2>/dev/null
	is "kill -9, no bypass: those that come next are lost too" "$(pings_count 4 5)" 0
	noop_start
	is "kill -9, no bypass: until it is started again" "$(pings_count 4 5)" 5
	noop_stop
	wait "$ping_pid" || true
	net_up --bypass
}

# A second process holds the socket, so that even the kernel's drop is seen: what it does not answer stays waiting.
orphans_test() {
	echo "--delay 10000000 --burst 8" >"$tmp/options"
	managed_start
	in_client ping -n -q -f -i 0.002 -c 50 -W 10 "${net[server_addr4]}" >"$tmp/ping.out" 2>&1 </dev/null &
	ping_pid=$!
	wait_until 5 packets_wait 50 || fail "fifty packets wait" "$(queue_value waiting)"
	echo "--copy headers --maxlen 100 --fail-open" >"$tmp/options"
	managed_kill
	wait "$ping_pid" || true
	like "what the dead process had read is released, the rest answered" "$(<"$tmp/ping.out")" \
		"50 packets transmitted, 50 received"
	like "other options than before are told" "$(<"$tmp/noop.err")" \
		"queue 0: options differ from before, copy 65531 -> 128 bytes, maxlen 1024 -> 100, fail-open off -> on: packets"
	is "and are in force" "$(queue_value copy_range)" 128
	queue_await_rest 0
	managed_stop
	is "the account balances" "$(json_value residue)" 0
}

fewer_queues_test() {
	echo "--queue 0:1" >"$tmp/options"
	managed_start
	echo "--queue 0" >"$tmp/options"
	managed_kill
	like "a queue that is no longer asked for is told" "$(<"$tmp/noop.err")" "queue 1: was left to us, but --queue does not"
	is "the other goes on" "$(pings_count 4 5)" 5
	managed_stop
}

manager_test() {
	echo "--queue 0" >"$tmp/options"
	managed_start --watchdog 400000
	ok "the watchdog is told" wait_until 5 managed_has_said WATCHDOG 3
	kill -HUP "$(managed_pid)"
	ok "a restart is told, and its end" wait_until 5 managed_has_said READY 2
	ok "a restart is told" managed_has_said RELOADING 1
	is "pings pass" "$(pings_count 4 5)" 5
	managed_kill
	is "a crash after a restart loses nothing either" "$(pings_count 4 5)" 5
	managed_stop
	ok "the end is told" managed_has_said STOPPING 1
	is "it ended in order" "$(tail -n 1 "$state/log")" "ended 0"
}

# Somebody else who holds the socket unbinds the queue.
loss_test() {
	local pid
	echo "--queue 0" >"$tmp/options"
	managed_start
	pid=$(managed_pid)
	kill -USR1 "$manager_pid"
	ok "a queue that was unbound by another ends the process" wait_until 5 grep -qx "ended 1" "$state/log"
	like "which says why" "$(<"$tmp/noop.err")" "queue 0: (is bound no more|failed): another process that holds its socket"
	is "it was that process" "$(managed_pid)" "$pid"
	wait "$manager_pid" || true
}

net_up --bypass
adoption_test
crash_test
orphans_test
fewer_queues_test
manager_test
loss_test
done_testing
