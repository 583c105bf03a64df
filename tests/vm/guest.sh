#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# guest.sh: what only another kernel can show: nft's own queue statement, PREEMPT_RT, WireGuard. Runs inside, for a .t
# file beside it; emulated CPUs are slow, so everything is short, and what is asserted is counted, not timed.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../netns/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../netns/lib.sh"

kernel=$1
readonly kernel

# Sets cell to a folder with the raw output of one.
cell_run() { # NAME OPTIONS...
	cell_folder=$tmp/$1
	"$cell" --out "$cell_folder" --prefix "$prefix" --sched rr:99 --ping 0 --iperf 3 "${@:2}" >/dev/null 2>&1 || true
	[[ ! -e $cell_folder/error ]] || fail "the cell $1 is complete" "$(<"$cell_folder/error")"
}

# Of the daemon's totals in the last line of a cell.
cell_value() { # KEY
	local line
	line=$(tail -n 1 "$cell_folder/processor.json")
	line=${line##*"\"$1\":"}
	echo "${line%%[,\}]*}"
}

cell_drops() {
	awk '$1 == 0 { print $6 + $7 }' "$cell_folder/end/queue"
}

kernel_test() {
	like "the kernel is that of the name" "$(uname -r)" "^${kernel%-rt}[.]"
	[[ $kernel != *-rt ]] || is "it is a real-time kernel" "$(cat /sys/kernel/realtime)" 1
}

nft_test() {
	net_up
	is "nft's own queue statement is what is used" "${net[backend]}" nft
	noop_start --sched rr:99
	is "pings pass" "$(pings_count 4 5)" 5
	is "pings pass, IPv6" "$(pings_count 6 5)" 5
	is "the rule has counted both directions" "$(net_value rule4_packets)" 10
	holds "the queue has given out as many" "$(queue_value id_sequence) >= 20"
	like "every thread runs under SCHED_RR 99" "$(chrt -a -p "$noop_pid")" "SCHED_RR.*priority: 99"
	noop_stop
	is "it ends in order" "$noop_status" 0
	is "nothing was lost" "$(json_value lost)" 0
}

fanout_test() {
	net_up --queues 2 --fanout cpu
	like "packets are spread by CPU" "$(in_queue nft list chain ip nfq packets)" "queue (flags fanout )?to 0-1|num 0-1 fanout"
	noop_start --queue 0:1
	is "pings pass through two queues" "$(pings_count 4 5)" 5
	noop_stop
}

bypass_test() {
	net_up --bypass
	noop_start --delay 2000
	in_client ping -n -q -c 40 -i 0.05 -W 2 "${net[server_addr4]}" >"$tmp/ping.out" 2>&1 </dev/null &
	wait_until 5 packets_have_come
	noop_stop
	wait
	like "a stop during pings loses none" "$(<"$tmp/ping.out")" "40 packets transmitted, 40 received"
}

restart_test() {
	local ping
	noop_start --delay 2000 --sched rr:50
	in_client ping -n -q -c 40 -i 0.05 -W 5 "${net[server_addr4]}" >"$tmp/ping.out" 2>&1 </dev/null &
	ping=$!
	wait_until 5 packets_have_come
	noop_restart
	wait "$ping"
	noop_stop
	like "a restart during pings loses none" "$(<"$tmp/ping.out")" "40 packets transmitted, 40 received"
	is "the account goes on and balances" "$(json_value restarts) $(json_value packets) $(json_value residue)" "1 80 0"
	is "with the policy that was asked for" "$(json_value policy) $(json_value priority)" "rr 50"
}

# Only here the clock is ours to set. A leap of the time of day must not matter.
clock_test() {
	net_up
	noop_start --spin 100 --interval 1
	for leap in "+1 hour" "-3 hours" "+2 hours"; do
		date -s "$leap" >/dev/null
		is "the clock leaps by $leap: pings pass" "$(pings_count 4 5)" 5
	done
	noop_stop
	is "clock leaps: it ends in order, the account balances" "$noop_status $(json_value residue)" "0 0"
	holds "clock leaps: its own time is that which has passed" "$(json_value uptime_s | cut -d . -f 1) < 600"
}

packets_have_come() {
	(($(queue_value id_sequence) >= 10))
}

nat_test() {
	net_up --conntrack nat
	is "with NAT the rules are nft's" "${net[backend]}" nft
	noop_start
	is "pings pass translation and queue" "$(pings_count 4 3) $(pings_count 6 3)" "3 3"
	is "two connections were translated" "$(net_value nat_packets)" 2
	holds "both are tracked" "$(net_value conntrack_entries) >= 2"
	noop_stop
	is "none of their packets was lost" "$(json_value lost)" 0
}

gso_test() {
	cell_run gso
	holds "with GSO aggregates come whole" "$(cell_value gso_packets) > 0 && $(cell_value max_packet_bytes) > 1500"
	is "without a drop" "$(cell_drops)" 0
	like "under SCHED_RR 99" "$(<"$cell_folder/sched.txt")" "rr 99 "
	cell_run no-gso --noop-args --no-gso
	is "without GSO none comes" "$(cell_value gso_packets)" 0
	holds "and no packet over the MTU" "$(cell_value max_packet_bytes) <= 1500"
}

wireguard_test() {
	net_up --tunnel wireguard
	is "the network has a tunnel" "${net[tunnel]}" wireguard
	noop_start
	is "pings pass tunnel and queue" "$(pings_count 4 3)" 3
	noop_stop
	cell_run tunnel-on --tunnel wireguard --gro on --iperf-args "-P 2 -R"
	holds "with GRO of the tunnel aggregates come" "$(cell_value gso_packets) > 0"
	is "without a drop there" "$(cell_drops)" 0
	cell_run tunnel-off --tunnel wireguard --gro off --iperf-args "-P 2 -R"
	is "without GRO of the tunnel not a single one" "$(cell_value gso_packets)" 0
	holds "though packets do" "$(cell_value packets) > 100"
}

bridge_test() {
	modprobe br_netfilter
	net_up --topology bridge
	noop_start
	is "pings pass a bridge" "$(pings_count 4 5)" 5
	is "and its queue, twice each" "$(net_value rule4_packets)" 10
	noop_stop
}

kernel_test
nft_test
fanout_test
bypass_test
restart_test
clock_test
nat_test
bridge_test
gso_test
wireguard_test
done_testing
