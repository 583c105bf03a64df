#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Stops, starts and restarts under load lose nothing. A stop that does not care loses some, which shows that the test
# would see it.
#
# NFQ_FAULTS_ROUNDS says how many of each.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=load.sh
source "$(dirname "$0")/load.sh"

readonly rounds=${NFQ_FAULTS_ROUNDS:-5}
readonly seconds=$((rounds * 6 / 10 + 2))

residues=0

# Ends it by this signal and starts it again.
stop_and_start() { # SIGNAL
	kill -"$1" "$noop_pid"
	noop_await_end 2>/dev/null
	if [[ $1 == TERM ]]; then
		((noop_status == 0)) || fail "it ends in order" "$(<"$tmp/noop.err")"
		residues=$((residues + $(json_value residue) + $(json_value waiting) + $(json_value kernel_dropped)))
	fi
	noop_start "${held[@]}"
}

stops_test() { # NAME SIGNAL
	local i
	load_start "$seconds"
	for ((i = 0; i < rounds; i++)); do
		sleep 0.25
		stop_and_start "$2"
	done
	ok "$1: the load was still on" load_goes_on
	load_await
	noop_stop
	diag "$1: $i times; UDP $udp_lost of $sent lost, pings $pings_lost of $pings, TCP $tcp_bytes bytes"
}

stops_in_order_test() {
	stops_test "stops in order" TERM
	is "stops in order: no datagram is lost" "$udp_lost" 0
	is "stops in order: no ping is lost" "$pings_lost" 0
	holds "stops in order: TCP had its share" "$tcp_bytes > 1000000"
	is "stops in order: every account balances, nothing waits, and the kernel has dropped none" "$residues" 0
}

stops_without_care_test() {
	stops_test "kill -9" KILL
	holds "kill -9: datagrams are lost" "$udp_lost > 0"
}

restarts_test() {
	local i portid
	noop_start "${held[@]}"
	portid=$(queue_value portid)
	load_start "$seconds"
	for ((i = 0; i < rounds; i++)); do
		sleep 0.3
		noop_restart
	done
	ok "restarts: the load was still on" load_goes_on
	load_await
	is "restarts: it is the same process with the same socket" "$(queue_value portid)" "$portid"
	queue_await_rest 0
	noop_stop
	diag "restarts: $i times; UDP $udp_lost of $sent lost, pings $pings_lost of $pings, TCP $tcp_bytes bytes"
	is "restarts: the JSON counts them" "$(json_value restarts)" "$rounds"
	is "restarts: no datagram is lost" "$udp_lost" 0
	is "restarts: no ping is lost" "$pings_lost" 0
	holds "restarts: TCP had its share" "$tcp_bytes > 1000000"
	is "restarts: ids have no gap" "$(json_value lost_ids)" 0
	is "restarts: the account of all of them balances" "$(json_value residue) $(json_value waiting)" "0 0"
}

net_up --bypass
noop_start "${held[@]}"
stops_in_order_test
noop_start "${held[@]}"
stops_without_care_test
restarts_test
done_testing
