#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The networks beside router and pair: bridge, lo, connection tracking, translation, BIG TCP; and datagrams at a rate.
#
# shellcheck disable=SC2317,SC2119 # functions are called by their names, and noop_start often without options
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

# Each ping and its reply pass the queue so many times.
passes_test() { # WHAT PASSES OPTIONS...
	local family
	net_up "${@:3}"
	noop_start
	for family in 4 6; do
		is "$1: pings come back, IPv$family" "$(pings_count "$family" 5)" 5
		is "$1: and passed the queue, IPv$family" "$(rule_count "$family")" "$((5 * $2))"
	done
	noop_stop
	is "$1: nothing was lost" "$(json_value lost)" 0
}

# IPv6 also reports its groups, in packets of 76 bytes, which a bridge passes on; pings have 104.
rule_count() { # FAMILY
	local packets bytes
	packets=$(net_value "rule$1_packets") bytes=$(net_value "rule$1_bytes")
	(($1 == 4)) && echo "$packets" || echo $(((bytes - 76 * packets) / 28))
}

bridge_test() {
	[[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ]] || { skip bridge "no br_netfilter in this kernel" && return; }
	passes_test bridge 2 --topology bridge
	is "bridge: its namespace has the rule" "${net[topology]} ${net[hook]} ${net[queue_ns]}" "bridge forward $prefix-router"
	like "bridge: it has two ports" "$(in_queue ip -brief link show master br0 | xargs)" "to-client.*to-server"
	noop_start
	file_pass bridge 4
	holds "bridge: aggregates pass it whole" "$(json_value gso_packets) > 0"
}

lo_test() {
	passes_test lo 2 --topology lo --mtu 65535
	is "lo: there is one namespace" "$(ls /run/netns)" "$prefix-client"
	is "lo: it has the MTU" "$(in_client ip -o link show lo | grep -o "mtu [0-9]*")" "mtu 65535"
	noop_start
	is "lo: a packet of 60000 bytes passes" "$(pings_count 4 3 -s 60000)" 3
	noop_stop
	is "lo: in one piece" "$(json_value max_packet_bytes)" 60028
}

conntrack_test() {
	net_up
	noop_start
	pings_count 4 3 >/dev/null
	like "off: no connection is tracked" "off ${net[conntrack]} $(net_value conntrack_entries)" "^off off 0?$"
	noop_stop
	net_up --conntrack on
	noop_start
	is "on: pings pass" "$(pings_count 4 3) $(pings_count 6 3)" "3 3"
	holds "on: connections are tracked" "$(net_value conntrack_entries) >= 2"
	is "on: none is translated" "${net[nat_packets]}" 0
	noop_stop
	net_up --conntrack nat
	noop_start
	is "nat: pings pass" "$(pings_count 4 3) $(pings_count 6 3)" "3 3"
	is "nat: two connections were translated" "$(net_value nat_packets)" 2
	like "nat: the server sees the router" "$(server_sees)" "10[.]0[.]2[.]254"
	noop_stop
	net_up --no-rule --conntrack on
	pings_count 4 3 >/dev/null
	holds "on, without a queue: connections are tracked" "$(net_value conntrack_entries) >= 1"
	is "on, without a queue: there is none" "${net[queues]}" ""
}

# Prints the address that a connection to the server comes from.
server_sees() {
	# shellcheck disable=SC2016 # for the shell of socat
	in_server timeout 10 socat -u TCP-LISTEN:9,reuseaddr SYSTEM:'echo $SOCAT_PEERADDR' 2>/dev/null &
	wait_until 5 server_listens || true
	in_client timeout 5 socat -u /dev/null TCP:"${net[server_addr4]}":9
	wait $!
}

server_listens() {
	in_server ss -Hltn "sport = :9" | grep -q .
}

# A file that arrives unchanged, through a daemon that is then stopped.
file_pass() { # WHAT FAMILY
	local address=${net[server_addr$2]}
	[[ $2 == 4 ]] || address="[$address]"
	head -c 60000000 /dev/urandom >"$tmp/sent"
	in_server timeout 20 socat -u TCP"$2"-LISTEN:9,reuseaddr CREATE:"$tmp/received" &
	wait_until 5 server_listens || true
	in_client timeout 20 socat -u OPEN:"$tmp/sent" TCP"$2":"$address":9
	wait $! || true
	ok "$1: a file arrives unchanged, IPv$2" cmp "$tmp/sent" "$tmp/received"
	noop_stop
	rm -f "$tmp/sent" "$tmp/received"
}

giants_are_supported() {
	unshare --net bash -c 'ip link add probe type veth && '"$top"'/scripts/link-sizes probe 100000' >/dev/null 2>&1
}

big_tcp_test() {
	giants_are_supported || { skip "BIG TCP" "this kernel has it for IPv6 only" && return; }
	net_up --topology pair --gso-max 196608
	noop_start
	file_pass "BIG TCP, pair" 4
	holds "BIG TCP, pair: greater packets than 64 KiB, IPv4" "$(json_value max_packet_bytes) > 65535"
	noop_start
	file_pass "BIG TCP, pair" 6
	holds "BIG TCP, pair: greater packets than 64 KiB, IPv6" "$(json_value max_packet_bytes) > 65535"
	net_up --gso-max 196608
	noop_start
	file_pass "BIG TCP, router" 4
	holds "BIG TCP, router: greater packets than 64 KiB, IPv4" "$(json_value max_packet_bytes) > 65535"
	noop_start
	file_pass "BIG TCP, router" 6
	holds "BIG TCP, router: IPv6 keeps to 64 KiB" "$(json_value max_packet_bytes) <= 65575"
}

refusals_test() {
	local words
	for words in "--topology pair --conntrack nat:only a router translates" "--topology lo --tunnel wireguard:needs a router" \
		"--topology lo --hook input:lo in output" "--topology bridge --hook output:forward"; do
		# shellcheck disable=SC2086
		like "refused: ${words%%:*}" "$("$netns" up --prefix "$prefix" ${words%%:*} 2>&1)" "netns[.]sh: .*${words#*:}"
	done
	if unshare --net ip link add type wireguard 2>/dev/null; then
		skip "a kernel without WireGuard says so" "this one has it"
	else
		like "a kernel without WireGuard says so" "$("$netns" up --prefix "$prefix" --tunnel wireguard 2>&1)" \
			"cannot run here: this kernel has no WireGuard.*--vm"
	fi
}

udp_test() {
	local folder=$tmp/udp
	"$cell" --out "$folder" --prefix "$prefix" --ping 0 --iperf 1 --udp 20000 --udp-bytes 64 --udp-segments 32 >/dev/null ||
		fail "datagrams: the cell is complete" "$(cat "$folder/error")"
	holds "datagrams: all that were sent have come" "$(udp_value sent) > 15000 && $(udp_value lost) == 0"
	is "datagrams: none twice, none in the wrong order" "$(udp_value duplicates) $(udp_value reordered)" "0 0"
	like "datagrams: 32 of them are one packet to the daemon" "$(tail -n 1 "$folder/processor.json")" '"max_packet_bytes":2076,'
	"$cell" --out "$folder-6" --prefix "$prefix" --family 6 --mode none --ping 0 --iperf 1 --udp 1000 --udp-segments 1 >/dev/null
	folder+=-6
	holds "datagrams: one by one, IPv6" "$(udp_value sent) == $(udp_value send_calls) && $(udp_value lost) == 0"
}

udp_value() { # KEY
	sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$folder/udp.json"
}

nfq_udp_refusals_test() {
	local program=${NFQ_UDP:-$top/nfq-udp}
	like "nfq-udp: neither side" "$("$program" 2>&1)" "either -s or -c ADDRESS"
	like "nfq-udp: too many segments" "$("$program" -c 1 -g 65 2>&1)" "-g 65: should be a number from 1 to 64"
	like "nfq-udp: nobody there" "$("$program" -c 127.0.0.1 -p 9 2>&1)" "cannot connect to port 9 of 127.0.0.1: Connection refused"
	like "nfq-udp: no address" "$("$program" -c nowhere 2>&1)" "nowhere: not an address"
}

machine_remember
bridge_test
lo_test
conntrack_test
big_tcp_test
refusals_test
udp_test
nfq_udp_refusals_test
"$netns" down --quiet --prefix "$prefix"
is_as_before "nothing is left behind"
done_testing
