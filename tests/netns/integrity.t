#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What passes through nfq-noop arrives unchanged, large packets stay whole with F_GSO and are segmented without, and
# daemon, queue and rule count the same packets.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

readonly file_bytes=$((6 * 1024 * 1024))

# Sends the file from client to server. The small window keeps any queue and socket buffer from overflowing.
file_send() { # FAMILY
	local address=${net[server_addr$1]} receiver
	rm -f "$tmp/received"
	nsenter --net="/run/netns/$prefix-server" -- timeout 60 \
		socat -u "TCP$1-LISTEN:5000,reuseaddr,rcvbuf=131072" "CREATE:$tmp/received" &
	receiver=$!
	wait_until 5 server_listens || bail "socat does not listen"
	[[ $1 == 4 ]] || address="[$address]"
	in_client timeout 60 socat -u "OPEN:$tmp/sent" "TCP$1:$address:5000"
	wait "$receiver"
}

server_listens() {
	in_server ss -Hltn "sport = :5000" | grep -q .
}

file_test() { # FAMILY WHAT
	file_send "$1" || diag "socat ended with status $?"
	is "$2: a file over TCP and IPv$1 arrives as it was sent" \
		"$(sha256sum <"$tmp/received")" "$(sha256sum <"$tmp/sent")"
}

pings_test() { # WHAT
	local family
	for family in 4 6; do
		is "$1: IPv$family pings pass" "$(pings_count "$family" 5)" 5
		is "$1: IPv$family pings in 14 fragments pass" "$(pings_count "$family" 5 -s 20000)" 5
	done
}

counters_test() { # WHAT
	queue_await_rest 0
	noop_stop
	is "$1: ended in order" "$noop_status" 0
	is "$1: the daemon had every packet that was queued" "$(json_value packets)" "$queue_last"
	is "$1: the kernel dropped none" "$(json_value kernel_dropped) $(json_value kernel_user_dropped)" "0 0"
	is "$1: no id is missing, no verdict was refused" \
		"$(json_value lost_ids) $(json_value verdict_errors) $(json_value flushed) $(json_value lost)" "0 0 0 0"
}

# WHAT of a topology with GSO: aggregates are queued and counted as the one packet that they are for the rule.
gso_test() { # WHAT OPTIONS-OF-NFQ-NOOP...
	local rule_packets rule_bytes
	net_up ${topology:+--topology "$topology"}
	noop_start "${@:2}"
	pings_test "$1"
	file_test 4 "$1"
	file_test 6 "$1"
	counters_test "$1"
	net_read
	rule_packets=$((net[rule4_packets] + net[rule6_packets]))
	rule_bytes=$((net[rule4_bytes] + net[rule6_bytes]))
	is "$1: packets are those of the rule" "$(json_value packets)" "$rule_packets"
	holds "$1: packets over the MTU were queued" "$(json_value gso_packets) > 0"
	[[ $(json_value max_packet_bytes) == null ]] || gso_bytes_test "$1" "$rule_bytes"
}

gso_bytes_test() { # WHAT RULE-BYTES
	is "$1: bytes are those of the rule" "$(json_value bytes)" "$2"
	holds "$1: the largest packet is over the MTU" "$(json_value max_packet_bytes) > ${net[mtu]}"
}

no_gso_test() {
	local what=--no-gso
	net_up
	noop_start --no-gso
	pings_test "$what"
	file_test 4 "$what"
	file_test 6 "$what"
	counters_test "$what"
	net_read
	is "$what: no packet is an aggregate" "$(json_value gso_packets)" 0
	is "$what: the largest packet fills the MTU" "$(json_value max_packet_bytes)" "${net[mtu]}"
	holds "$what: more packets were queued than the rule saw" \
		"$(json_value packets) > ${net[rule4_packets]} + ${net[rule6_packets]}"
}

# One packet of 60028 bytes that is no aggregate.
large_packet_test() { # OPTIONS-OF-NFQ-NOOP...
	net_up --mtu 65535
	noop_start "$@"
	is "packets of 60028 bytes pass (${*:-GSO})" "$(pings_count 4 5 -s 60000)" 5
	noop_stop
	is "and came in one piece (${*:-GSO})" "$(json_value packets) $(json_value max_packet_bytes)" "10 60028"
}

head -c "$file_bytes" /dev/urandom >"$tmp/sent"
gso_test "GSO"
no_gso_test
topology=pair gso_test "pair, GSO"
gso_test "--copy headers" --copy headers
holds "--copy headers: packets were cut" "$(json_value truncated_packets) > 0"
gso_test "--copy meta" --copy meta
is "--copy meta: no length is claimed" "$(json_value bytes) $(json_value max_packet_bytes)" "null null"
large_packet_test
large_packet_test --no-gso
done_testing
