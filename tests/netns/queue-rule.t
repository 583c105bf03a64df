#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The rule that netns.sh makes queues exactly what it should, and counts it; and it is made by what the machine has.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

counters_print() {
	net_read
	echo "${net[rule4_packets]} ${net[rule4_bytes]} ${net[rule6_packets]} ${net[rule6_bytes]}"
}

# With 56 bytes of data an IPv4 ping is a packet of 84 bytes, an IPv6 ping one of 104.
no_daemon_test() { # OPTIONS...
	net_up "$@"
	is "nobody has bound the queue: no IPv4 ping passes (${*:-router})" "$(pings_count 4 5)" 0
	is "nobody has bound the queue: no IPv6 ping passes (${*:-router})" "$(pings_count 6 7)" 0
	is "the rule counted each packet once (${*:-router})" "$(counters_print)" "5 $((5 * 84)) 7 $((7 * 104))"
}

bypass_test() {
	net_up --bypass
	is "--bypass, nobody has bound the queue: IPv4 passes" "$(pings_count 4 5)" 5
	is "--bypass, nobody has bound the queue: IPv6 passes" "$(pings_count 6 7)" 7
	is "--bypass: the rule counted both directions" "$(counters_print)" "10 $((10 * 84)) 14 $((14 * 104))"
	is "status tells the bypass" "${net[bypass]}" yes
	noop_start
	is "--bypass, queue bound: IPv4 passes" "$(pings_count 4 5)" 5
	is "--bypass, queue bound: through the queue" "$(queue_value id_sequence)" 10
	noop_stop
}

no_rule_test() {
	net_up --no-rule
	is "--no-rule: pings pass" "$(pings_count 4 5)" 5
	is "--no-rule: status says so" "${net[backend]} ${net[queues]} $(counters_print)" "none  0 0 0 0"
}

# The kernel spreads by addresses: which queue takes a family is its business, the sum is exact.
queues_test() {
	net_up --queue 3 --queues 2
	is "--queue 3 --queues 2: status tells the range" "${net[queues]}" 3:4
	noop_start --queue 3:4
	is "--queues 2: IPv4 passes" "$(pings_count 4 5)" 5
	is "--queues 2: IPv6 passes" "$(pings_count 6 7)" 7
	is "--queues 2: the two queues had every packet" \
		$(($(queue_value id_sequence 3) + $(queue_value id_sequence 4))) 24
	noop_stop
	net_up --queue 65535
	noop_start --queue 65535
	is "--queue 65535: pings pass" "$(pings_count 4 5)" 5
	noop_stop
}

# The rule of a pair matches the server only.
pair_test() {
	local hook
	for hook in output input; do
		net_up --topology pair --hook "$hook"
		ok "pair, $hook: what stays in the client is not queued" \
			in_client ping -c 2 -i 0.01 -q "${net[client_addr4]}"
		is "pair, $hook: and not counted" "$(counters_print)" "0 0 0 0"
		noop_start
		is "pair, $hook: IPv4 passes" "$(pings_count 4 5)" 5
		is "pair, $hook: IPv6 passes" "$(pings_count 6 7)" 7
		is "pair, $hook: one direction was queued" "$(queue_value id_sequence)" 12
		noop_stop
	done
}

hide_program() { # NAME...
	local name
	for name; do
		printf '#!/bin/sh\necho "%s does not work here" >&2\nexit 1\n' "$name" >"$tmp/bin/$name"
		chmod +x "$tmp/bin/$name"
	done
}

backends_test() {
	local PATH=$tmp/bin:$PATH output status=0
	mkdir "$tmp/bin"
	net_up
	like "the rule is made by what works first" "${net[backend]}" "^(nft|iptables-nft|iptables-legacy)$"
	if [[ ${net[backend]} == nft ]]; then
		hide_program nft
		net_up
		is "without nft, iptables-nft makes it" "${net[backend]}" iptables-nft
	fi
	hide_program nft iptables-nft
	if XTABLES_LOCKFILE=/dev/null unshare --net iptables-legacy -A FORWARD -j NFQUEUE 2>/dev/null; then
		no_daemon_test
		is "without nft and iptables-nft, iptables-legacy makes it" "${net[backend]}" iptables-legacy
		net_up --queues 2 --fanout cpu
		like "iptables-legacy also spreads by CPU" \
			"$(XTABLES_LOCKFILE=/dev/null in_queue iptables-legacy -nL FORWARD)" "balance 0:1 cpu-fanout"
		ok "iptables-legacy leaves no lock file in /run" test ! -e /run/xtables.lock
	else
		skip "iptables-legacy makes it" "iptables-legacy does not work here"
	fi
	"$netns" down --quiet --prefix "$prefix"
	machine_remember
	hide_program iptables-legacy
	output=$("$netns" up --quiet --prefix "$prefix" 2>&1) || status=$?
	is "without any of them: status 4 and one line" "$status $(wc -l <<<"$output")" "4 1"
	like "without any of them: options of the kernel and reasons are named" "$output" \
		"CONFIG_NFT_QUEUE.*CONFIG_NETFILTER_XT_TARGET_NFQUEUE.*iptables-legacy does not work here"
	is_as_before "without any of them: nothing is made"
}

tools_test() {
	local output status=0 program
	mkdir "$tmp/few"
	for program in bash dirname id; do
		ln -s "$(type -P "$program")" "$tmp/few"
	done
	output=$(PATH=$tmp/few "$netns" up 2>&1) || status=$?
	is "tools are missing: status 4 and one line" "$status $(wc -l <<<"$output")" "4 1"
	like "tools are missing: all are named with their packages" "$output" "flock .*nsenter .*unshare .*util-linux"
}

# Also those that this kernel does not support. They are tried out one by one in scratch namespaces, so that none may
# need the one before.
conntrack_rules_test() {
	local commands
	commands=$(conntrack=nat tunnel='' conntrack_rules_print nft '')
	is "nft: states and translation are a command each" "$(wc -l <<<"$commands")" 2
	is "nft: each makes the table that it is in" "$(grep -c "^nft add table ip nfq; " <<<"$commands")" 2
	like "nft: the states are asked for before packets are queued" "$commands" "hook forward priority -10; .*ct state "
	like "nft: what leaves towards the server is translated" "$commands" "oifname to-server counter masquerade"
	like "nft: or what enters the tunnel" "$(conntrack=nat tunnel=wireguard conntrack_rules_print nft 6)" \
		"ip6 nfq nat oifname wg0 counter masquerade"
	like "iptables: likewise" "$(conntrack=nat tunnel=wireguard conntrack_rules_print iptables-legacy 6)" \
		"^ip6tables-legacy .*-A FORWARD .*--ctstate .*ip6tables-legacy .*-t nat -A POSTROUTING -o wg0 -j MASQUERADE"
	is "on: nothing is translated" "$(conntrack=on conntrack_rules_print iptables-nft '' | wc -l)" 1
}

conntrack_rules_print() { # BACKEND 6-OR-NOTHING
	# shellcheck disable=SC2034 # for netns-rule.sh
	local hook=forward
	# shellcheck source-path=SCRIPTDIR source=../../scripts/netns-rule.sh
	(source "$top/scripts/netns-rule.sh" && conntrack_add "$1" "$2" echo)
}

rule_gone_test() {
	net_up
	in_queue nft flush ruleset || true
	in_queue iptables-legacy -F || true
	like "status fails when the rule is gone" "$("$netns" status --prefix "$prefix" 2>&1 || echo $?)" \
		"rule for IPv4 is gone"$'\n'1
}

no_daemon_test
no_daemon_test --topology pair
bypass_test
no_rule_test
queues_test
pair_test
backends_test
tools_test
conntrack_rules_test
rule_gone_test
done_testing
