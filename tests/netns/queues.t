#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# How netns.sh spreads packets over queues and CPUs, and how large it lets them become.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

# As net_up, but tells by its status when the machine cannot.
net_try() { # OPTIONS-OF-NETNS...
	local status=0
	net_problem=$("$netns" up --quiet --prefix "$prefix" "$@" 2>&1) || status=$?
	((status != 4)) || return 1
	((status == 0)) || bail "netns.sh up $*: $net_problem"
	net_read
}

cpus_are_there() {
	taskset -c 0 true 2>/dev/null && taskset -c 1 true 2>/dev/null
}

ping_from_cpu() { # CPU FAMILY COUNT
	in_client taskset -c "$1" ping -"$2" -n -q -c "$3" -i 0.01 -W 1 "${net[server_addr$2]}" >/dev/null
}

# Prints a member of the last JSON object that belongs to one queue.
json_queue_value() { # KEY QUEUE
	tail -n 1 "$tmp/noop.json" | grep -o "\"queue\":$2,[^}]*" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"
}

rules_count() {
	net_read
	echo $((net[rule4_packets] + net[rule6_packets]))
}

iperf_run() { # OPTIONS-OF-THE-CLIENT...
	local server
	nsenter --net="/run/netns/$prefix-server" -- timeout 60 iperf3 -s -1 >/dev/null 2>&1 </dev/null &
	server=$!
	wait_until 5 iperf_server_listens || bail "iperf3's server does not listen"
	in_client timeout 60 iperf3 "$@" >"$tmp/iperf.txt" 2>&1 || fail "iperf3 $*" "$(<"$tmp/iperf.txt")"
	wait "$server" || true
}

iperf_server_listens() {
	in_server ss -Hltn "sport = :5201" | grep -q .
}

rules_print() {
	case ${net[backend]} in
	nft) in_queue nft list ruleset ;;
	*) in_queue "${net[backend]}" -w -nL && in_queue "ip6tables-${net[backend]#*-}" -w -nL ;;
	esac | grep -i queue
}

rule_test() {
	net_up --queue 3 --queues 2 --bypass
	is "two queues: status tells that addresses choose" "${net[queues]} ${net[fanout]}" "3:4 hash"
	is "two queues: no rule has the fan-out by CPU" "$(rules_print | grep -c fanout)" 0
	net_up --queue 3 --queues 2 --bypass --fanout cpu
	is "--fanout cpu: status tells it" "${net[queues]} ${net[fanout]}" "3:4 cpu"
	is "--fanout cpu: the rules of both families have it" "$(rules_print | grep -c fanout)" 2
	is "--fanout cpu: and the bypass" "$(rules_print | grep -c bypass)" 2
	ok "--fanout cpu --bypass: pings pass without a daemon" ping_server 6 -c 1
	ok "nft, even where the kernel refuses the rule, understands it" not grep "syntax error" <<-END
		$("$netns" up --prefix "$prefix" --queues 2 --fanout cpu --bypass 2>&1)
		$("$netns" up --prefix "$prefix" --queues 2 --fanout cpu 2>&1)
	END
}

# What a process sends is queued on its CPU.
fanout_cpu_pair_test() {
	net_up --topology pair --queues 2 --fanout cpu
	noop_start --queue 0:1
	ok "--fanout cpu, pair: pings from CPU 0 pass" ping_from_cpu 0 4 5
	ok "--fanout cpu, pair: pings from CPU 1 pass" ping_from_cpu 1 6 7
	is "--fanout cpu, pair: each CPU has its queue" "$(queue_value id_sequence 0) $(queue_value id_sequence 1)" "5 7"
	noop_stop
	is "--fanout cpu, pair: the daemon had the same" \
		"$(json_queue_value packets 0) $(json_queue_value packets 1)" "5 7"
	is "--fanout cpu, pair: the rules count the sum" "$(rules_count)" 12
}

# The way back starts on the CPU that gave the verdict, so only the sum is exact.
fanout_cpu_router_test() {
	net_up --queues 2 --fanout cpu
	noop_start --queue 0:1
	ok "--fanout cpu, router: pings from CPU 0 pass" ping_from_cpu 0 4 5
	ok "--fanout cpu, router: pings from CPU 1 pass" ping_from_cpu 1 6 7
	noop_stop
	holds "--fanout cpu, router: both queues had packets" \
		"$(json_queue_value packets 0) > 0 && $(json_queue_value packets 1) > 0"
	is "--fanout cpu, router: the rules count the sum" "$(rules_count)" "$(json_value packets)"
	is "--fanout cpu, router: which is every ping, both ways" "$(json_value packets)" 24
}

hash_test() {
	local counts
	net_up --queues 2
	noop_start --queue 0:1
	iperf_run -c "${net[server_addr4]}" -P 4 -n 256K
	queue_await_rest 0
	queue_await_rest 1
	mapfile -t counts < <(printf '%s\n' "$(queue_value id_sequence 0)" "$(queue_value id_sequence 1)" | sort -n)
	is "--fanout hash: one queue has all connections between two hosts, the other none" "${counts[*]}" \
		"0 $(rules_count)"
	noop_stop
}

# Prints "GSO GRO", the sizes that a link is limited to.
sizes_print() { # NAMESPACE DEVICE
	ip -d -n "$prefix-$1" link show dev "$2" |
		sed -n 's/.* gso_max_size \([0-9]*\).* gro_max_size \([0-9]*\).*/\1 \2/p'
}

gso_max_test() {
	net_up --topology pair --no-rule
	is "without --gso-max: status tells the kernel's default" "${net[gso_max]}" 65536
	if ! net_try --topology pair --gso-max 200000; then
		skip "--gso-max: packets over 64 KiB" "$net_problem"
		return
	fi
	is "--gso-max acts on both ends" "$(sizes_print client eth0), $(sizes_print server eth0)" \
		"200000 200000, 200000 200000"
	is "--gso-max: status reads it back" "${net[gso_max]}" 200000
	noop_start
	iperf_run -6 -c "${net[server_addr6]}" -n 50M
	queue_await_rest 0
	noop_stop
	holds "--gso-max: packets over 64 KiB pass through the queue" "$(json_value max_packet_bytes) > 65536"
	holds "--gso-max: but none is larger than asked for" "$(json_value max_packet_bytes) <= 200000"
	is "--gso-max: the rule counts what the daemon counts" "$(rules_count)" "$(json_value packets)"
	is "--gso-max: its bytes too" "$(net_value rule6_bytes)" "$(json_value bytes)"
}

# Prints the masks of all links but lo, each once. /sys shows the links of the namespace in which it was mounted.
masks_print() { # NAMESPACE
	# shellcheck disable=SC2016
	in_namespace "$prefix-$1" unshare --mount sh -ec 'mount -t sysfs sysfs /sys
		for device in /sys/class/net/*; do
			test "${device##*/}" = lo || cat "$device"/queues/rx-*/rps_cpus
		done' 2>/dev/null | sed 's/^[0,]*\(.\)/\1/' | sort -u | xargs
}

rps_test() {
	local cpu role
	if ! net_try --rps 0; then
		skip "--rps steers packets" "$net_problem"
		return
	fi
	for cpu in 0 1; do
		grep -q "^cpu$cpu " /proc/stat || continue
		net_up --rps "$cpu"
		is "--rps $cpu: status tells it" "${net[rps]}" "$cpu"
		for role in client router server; do
			rps_links_test "$cpu" "$role"
		done
		is "--rps $cpu: the rule counts" "$(pings_count 4 3) $(rules_count)" "0 3"
	done
	net_up --rps client=0
	is "--rps client=0: status tells it" "${net[rps]}" client=0
	rps_links_test 0 client
	rps_links_test '' router
	net_up
	is "without --rps: status tells none" "${net[rps]}" ""
}

rps_links_test() { # CPU-OR-NOTHING NAMESPACE
	local masks
	masks=$(masks_print "$2")
	if [[ $masks ]]; then
		is "--rps ${1:-of others}: the links of $2 have no other CPU" "$masks" $((${1:+1 << $1}))
	else
		skip "--rps ${1:-of others}: the links of $2 have no other CPU" "/sys cannot be mounted here"
	fi
}

# Sets refusal to the status and the message of an up that cannot work.
up_refuse() { # COMMAND...
	local status=0
	refusal=$("$@" 2>&1) || status=$?
	refusal="$status $refusal"
}

unsupported_test() {
	"$netns" down --quiet --prefix "$prefix"
	machine_remember
	mkdir "$tmp/old"
	cat >"$tmp/old/ip" <<-END
		#!/bin/sh
		case "\$*" in *gro_max_size*) echo 'Error: "gro_max_size" is a garbage.' >&2; exit 255 ;; esac
		exec $(type -P ip) "\$@"
	END
	chmod +x "$tmp/old/ip"
	up_refuse env PATH="$tmp/old:$PATH" "$netns" up --quiet --prefix "$prefix" --topology pair --gso-max 200000
	like "an old ip: status 4, what is needed and what it said" "$refusal" "^4 netns.sh: .*BIG TCP.*is a garbage\.$"
	# shellcheck disable=SC2016
	up_refuse unshare --mount sh -c 'mount -t tmpfs tmpfs /proc/sys/net/core && exec "$@"' - \
		"$netns" up --quiet --prefix "$prefix" --rps 0
	like "no receive steering in the kernel: status 4, what is needed" "$refusal" "^4 netns.sh: --rps: .*CONFIG_RPS"
	is_as_before "what the machine cannot do makes nothing"
}

rule_test
if cpus_are_there; then
	fanout_cpu_pair_test
	fanout_cpu_router_test
else
	skip "--fanout cpu: each CPU has its queue" "may not run on CPUs 0 and 1"
fi
hash_test
gso_max_test
rps_test
unsupported_test
done_testing
