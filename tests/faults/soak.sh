#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# soak.sh: full load for a long time, with stops, restarts, crashes and other faults in between, while memory, threads and
# descriptors are watched. `make soak MINUTES=n` runs it. Speaks TAP, and ends with a summary.
#
# Theory of operation
#
#   Each round lasts ten seconds: the load of load.sh begins, something befalls the program, the load ends, and the round's
#   account is drawn up. What must not lose anything is told from what may. A program that was restarted over and over has
#   the same pid, and its memory is compared with what it had after its first restart.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=load.sh
source "$(dirname "$0")/load.sh"

readonly minutes=${1:-10} round_seconds=10
readonly faults=(nothing restart restart stop "rules 8 0.5" "freeze 0.5" signals "link 0.2")

rounds=0 restarts=0 stops=0 total_sent=0 total_pings=0 total_bytes=0
lost_in_order=0 lost_otherwise=0 residues=0 greatest_kb=0 first_kb=0

noop_resident_kb() {
	awk '$1 == "VmRSS:" { print $2 }' "/proc/$noop_pid/status"
}

noop_descriptors() {
	find "/proc/$noop_pid/fd" -mindepth 1 | wc -l
}

noop_threads() {
	find "/proc/$noop_pid/task" -mindepth 1 -maxdepth 1 | wc -l
}

befall_nothing() { :; }

befall_restart() {
	for ((i = 0; i < 8; i++)); do
		noop_restart
		restarts=$((restarts + 1))
		sleep 0.5
	done
}

befall_stop() {
	for ((i = 0; i < 8; i++)); do
		noop_stop
		account_take
		noop_start "${held[@]}"
		stops=$((stops + 1))
		sleep 0.5
	done
}

befall_signals() {
	for ((i = 0; i < 50; i++)); do
		kill -USR1 "$noop_pid"
		sleep 0.05
	done
}

account_take() {
	local residue
	residue=$(json_value residue)
	((noop_status == 0 && residue == 0)) || fail "an account that balances" "status $noop_status, residue $residue"
	residues=$((residues + ${residue#-}))
}

# Of what is done in order nothing may be lost.
round_take() { # FAULT
	local lost=$((udp_lost + pings_lost)) kb
	case $1 in
	rules | link) lost_otherwise=$((lost_otherwise + lost)) ;;
	*)
		lost_in_order=$((lost_in_order + lost))
		((lost == 0)) || fail "round $rounds, $1: nothing is lost" "UDP $udp_lost of $sent, pings $pings_lost of $pings"
		;;
	esac
	kb=$(noop_resident_kb)
	((first_kb > 0 || restarts == 0)) || first_kb=$kb
	((kb <= greatest_kb)) || greatest_kb=$kb
	total_sent=$((total_sent + sent)) total_pings=$((total_pings + pings)) total_bytes=$((total_bytes + ${tcp_bytes:-0}))
	diag "$((SECONDS / 60)) min: round $rounds, $1: UDP $udp_lost of $sent lost, pings $pings_lost of $pings," \
		"$((${tcp_bytes:-0} / 1000000)) MB of TCP; $kb kB, $(noop_descriptors) descriptors, $(noop_threads) threads"
}

net_up --bypass
noop_start "${held[@]}"
noop_restart
restarts=1
descriptors=$(noop_descriptors)
SECONDS=0
while ((SECONDS < minutes * 60)); do
	fault=${faults[rounds % ${#faults[@]}]}
	load_start $((round_seconds - 2))
	sleep 1
	# shellcheck disable=SC2086 # a fault and its arguments
	befall_$fault
	load_await
	queue_await_rest 0
	rounds=$((rounds + 1))
	round_take "${fault%% *}"
done
is "descriptors are as many as at first" "$(noop_descriptors)" "$descriptors"
is "threads are the first one and the worker" "$(noop_threads)" 2
noop_stop
account_take
diag "in $minutes minutes: $rounds rounds, $restarts restarts, $stops stops; $total_sent datagrams," \
	"$total_pings pings, $((total_bytes / 1000000)) MB of TCP"
diag "lost: $lost_in_order where nothing may be, $lost_otherwise while links and rules went away"
diag "memory: $first_kb kB at first, $greatest_kb kB at most"
is "where nothing may be lost nothing is" "$lost_in_order" 0
is "every account balances" "$residues" 0
holds "memory does not grow" "$greatest_kb <= $first_kb * 11 / 10 + 256"
done_testing
