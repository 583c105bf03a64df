#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What netns.sh makes works at once, is what was asked for, and goes without a trace, however it was interrupted.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

# Duplicate address detection or a missing neighbour would lose the first packet; other packets would be counted.
first_ping_test() { # PASSES OPTIONS...
	local family
	net_up --bypass "${@:2}"
	for family in 4 6; do
		ok "${*:2}: the first IPv$family ping comes back" ping_server "$family" -c 1
		is "${*:2}: the IPv$family rule counted that ping only" "$(net_value "rule${family}_packets")" "$1"
	done
}

status_test() {
	local keys=(prefix topology hook backend queue_ns queues fanout bypass client_ns router_ns server_ns
		server_addr4 server_addr6 client_addr4 client_addr6 mtu tso gro gso_max rps conntrack conntrack_entries
		nat_packets tunnel rule4_packets rule4_bytes rule6_packets
		rule6_bytes)
	net_up
	is "status prints its keys in order" \
		"$("$netns" status --prefix "$prefix" | cut -d = -f 1 | xargs)" "${keys[*]}"
	is "router: the router queues" "${net[topology]} ${net[hook]} ${net[queue_ns]}" "router forward $prefix-router"
	net_up --topology pair
	is "pair: the client queues" "${net[topology]} ${net[hook]} ${net[queue_ns]}" "pair output $prefix-client"
	is "pair: there is no router" "${net[router_ns]}$(ls /run/netns)" "$prefix-client"$'\n'"$prefix-server"
}

topology_print() {
	local file
	"$netns" status --prefix "$prefix"
	for file in /run/netns/*; do
		ip -n "${file##*/}" -brief address
		ip -n "${file##*/}" route
		ip -n "${file##*/}" -6 route
	done
}

idempotence_test() {
	local once other
	machine_remember
	net_up
	once=$(topology_print)
	net_up
	is "up on what is up gives the same as one up" "$(topology_print)" "$once"
	net_up --topology pair --mtu 9000 --tso off --gro on --bypass --queues 3
	net_up
	is "up on another topology gives the same as one up" "$(topology_print)" "$once"
	"$netns" up --quiet --prefix "$prefix" --topology pair &
	other=$!
	net_up
	wait "$other" || fail "the other one of two at once succeeds" "status $?"
	net_up
	is "up after two at once gives the same as one up" "$(topology_print)" "$once"
	ok "down removes it" "$netns" down --quiet --prefix "$prefix"
	ok "down of what is down is no error" "$netns" down --quiet --prefix "$prefix"
	ok "status of what is down fails" not "$netns" status --prefix "$prefix"
	is_as_before "up and down leave nothing behind"
}

features_print() { # NAMESPACE DEVICE
	in_namespace "$prefix-$1" ethtool -k "$2" |
		awk '/^(tcp-segmentation-offload|generic-receive-offload):/ { print $2 }' | xargs
}

options_test() {
	local role device
	net_up --no-rule --mtu 9000 --tso off --gro on
	while read -r role device; do
		is "--tso off --gro on act on $role's $device" "$(features_print "$role" "$device")" "off on"
	done <<-END
		client eth0
		router to-client
		router to-server
		server eth0
	END
	is "status tells mtu, tso and gro" "${net[mtu]} ${net[tso]} ${net[gro]}" "9000 off on"
	ok "--mtu 9000: 9000 bytes pass in one piece" ping_server 4 -c 1 -M "do" -s 8972
	ok "--mtu 9000: one byte more does not" not ping_server 4 -c 1 -M "do" -s 8973
	net_up --no-rule --tso on --gro off
	is "--tso on --gro off act too" "$(features_print router to-client)" "on off"
}

usage_test() {
	local arguments output status
	machine_remember
	while read -ra arguments; do
		status=0
		output=$("$netns" "${arguments[@]}" 2>&1) || status=$?
		is "wrong usage '${arguments[*]}': status 2 and one line" "$status $(wc -l <<<"$output")" "2 1"
	done <<-END

		sideways
		up --frobnicate
		up -x
		up --topology ring
		up --hook input
		up --topology pair --hook forward
		up --queue 65535 --queues 2
		up --queues 0
		up --fanout cpu
		up --fanout addresses --queues 2
		up --gso-max 20000
		up --topology pair --gso-max 65535
		up --topology pair --gso-max 524281
		up --rps 9999
		up --rps 0,1
		up --topology lo --rps 0
		up --topology lo --hook input
		up --topology pair --conntrack nat
		up --topology bridge --tunnel wireguard
		up --tunnel wireguard --mtu 1359
		up --prefix ../x
		up --prefix Upper
		up --mtu 1279
		up --mtu
		up extra
		down --mtu 1500
		exec nobody true
		exec client
	END
	is_as_before "wrong usage makes nothing"
}

# By link-sizes, in whose place a program of the test stands: it is asked where ip cannot.
sizes_test() {
	local status=0 output
	machine_remember
	mkdir "$tmp/old"
	cat >"$tmp/old/ip" <<-END
		#!/bin/sh
		case "\$*" in *gso_ipv4_max_size*) exit 1 ;; esac
		exec $(type -P ip) "\$@"
	END
	# shellcheck disable=SC2016
	printf '#!/bin/sh\nshift\necho "link-sizes: cannot: $*" >&2\nexit "${code:-0}"\n' >"$tmp/old/python3"
	chmod +x "$tmp/old/ip" "$tmp/old/python3"
	output=$(PATH=$tmp/old:$PATH code=4 "$netns" up --quiet --prefix "$prefix" --gso-max 196608 2>&1) || status=$?
	is "a kernel without BIG TCP over IPv4: status 4 and one line" "$status $output" "4 link-sizes: cannot: eth0 196608"
	is_as_before "a kernel without BIG TCP over IPv4: nothing is made"
	PATH=$tmp/old:$PATH net_up --no-rule --gso-max 196608 2>/dev/null
	is "status tells the size that a router's links have for IPv4" "${net[gso_max]}" 196608
	is "and for IPv6 they keep what they had" "$(ipv6_sizes_print router)" "65536 65536"
	PATH=$tmp/old:$PATH net_up --topology pair --no-rule --gso-max 196608 2>/dev/null
	is "a pair's links have it for IPv6, too" "$(ipv6_sizes_print client)" "196608 196608"
	"$netns" down --quiet --prefix "$prefix"
}

# Of the first link: for aggregates that are made and for those that are taken.
ipv6_sizes_print() { # ROLE
	in_namespace "$prefix-$1" ip -d link show type veth | grep -Eo '(gso|gro)_max_size [0-9]+' | cut -d ' ' -f 2 |
		head -n 2 | xargs
}

exec_test() {
	local status=0
	net_up --no-rule
	like "exec enters the namespace that was named" \
		"$("$netns" exec --prefix "$prefix" server ip -brief address show eth0)" "10.0.2.1/24"
	"$netns" exec --prefix "$prefix" client bash -c 'exit 7' || status=$?
	is "exec gives the command's status" "$status" 7
	"$netns" down --quiet --prefix "$prefix"
	like "exec without up says what to do" \
		"$("$netns" exec --prefix "$prefix" client true 2>&1 || true)" "netns.sh up"
}

processes_test() {
	local polite stubborn status
	machine_remember
	net_up --no-rule
	nsenter --net="/run/netns/$prefix-client" -- sleep 1000 &
	polite=$!
	nsenter --net="/run/netns/$prefix-server" -- bash -c 'trap "" TERM; exec sleep 1000' &
	stubborn=$!
	disown "$stubborn" # bash would print that it was killed
	wait_until 5 signal_is_ignored "$stubborn" || bail "SIGTERM is not ignored"
	ok "down with processes inside" "$netns" down --quiet --prefix "$prefix"
	ok "down ends them, also one that ignores SIGTERM" not kill -0 "$polite" "$stubborn"
	kill -KILL "$polite" "$stubborn" 2>/dev/null || true
	status=0 && wait "$polite" 2>/dev/null || status=$?
	is "a process inside was asked to end" "$status" $((128 + 15))
	is_as_before "processes inside leave nothing behind"
}

signal_is_ignored() { # PID
	((0x$(awk '/^SigIgn:/ { print $2 }' "/proc/$1/status") & 1 << 14))
}

# Kills netns.sh, not the command that it runs at that moment, when it has shown that many commands.
up_kill() { # COMMANDS
	local pid steps line
	coproc UP { exec "$netns" up --prefix "$prefix" 2>&1; }
	pid=$UP_PID steps=${UP[0]}
	for ((count = 0; count < $1; count++)); do
		read -r line <&"$steps" || bail "netns.sh up shows only $count commands"
	done
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	diag "killed at: $line"
}

kill_test() {
	local commands
	machine_remember
	for commands in 2 5 11 13 20 39 40; do
		up_kill "$commands"
		"$netns" down --quiet --prefix "$prefix"
		is_as_before "down after kill -9 at command $commands leaves nothing behind"
	done
	for commands in 3 14 38; do
		up_kill "$commands"
		net_up --no-rule
		ok "up after kill -9 at command $commands works" ping_server 6 -c 1
	done
	"$netns" down --quiet --prefix "$prefix"
	: >/run/netns/"$prefix-client" # as `ip netns add` leaves it, if killed before it mounts
	net_up --no-rule
	ok "up on a name without a namespace works" ping_server 4 -c 1
	"$netns" down --quiet --prefix "$prefix"
	is_as_before "kill -9 and up leave nothing behind"
}

# A command that outlives netns.sh must not make anything behind the back of the next netns.sh.
orphan_test() {
	local pid
	machine_remember
	mkdir "$tmp/slow" && mkfifo "$tmp/release"
	cat >"$tmp/slow/ip" <<-END
		#!/bin/sh
		if [ "\$1 \$2" = "netns add" ]; then : >$tmp/adding; read -r line <$tmp/release; fi
		exec $(type -P ip) "\$@"
	END
	chmod +x "$tmp/slow/ip"
	PATH=$tmp/slow:$PATH "$netns" up --quiet --prefix "$prefix" &
	pid=$!
	wait_until 5 test -e "$tmp/adding" || bail "netns.sh up does not add a namespace"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	"$netns" down --quiet --prefix "$prefix" &
	pid=$!
	wait_until 5 lock_is_awaited || true
	echo >"$tmp/release"
	wait "$pid"
	is_as_before "down waits for a command that outlived kill -9, and removes what it made"
}

# What waits for a lock stands behind an arrow.
lock_is_awaited() {
	grep -q -e '-> FLOCK' /proc/locks
}

failure_test() {
	local status=0 output
	machine_remember
	mkdir "$tmp/bin" && printf '#!/bin/sh\nexit 1\n' >"$tmp/bin/ethtool" && chmod +x "$tmp/bin/ethtool"
	output=$(PATH=$tmp/bin:$PATH "$netns" up --quiet --prefix "$prefix" --tso off 2>&1) || status=$?
	is "a command that fails: status 1" "$status" 1
	like "a command that fails is named" "$output" "this failed: .*ethtool -K eth0 tso off"
	is_as_before "what fails half-way leaves nothing behind"
}

permission_test() {
	local status=0 output
	output=$(setpriv --bounding-set -all "$netns" up --prefix "$prefix" 2>&1) || status=$?
	is "no capabilities: status 4 and one line" "$status $(wc -l <<<"$output")" "4 1"
	like "no capabilities: they are named" "$output" "CAP_SYS_ADMIN"
	root_is_real || { skip "no root: told what to do" "cannot become another user here" && return; }
	status=0
	output=$(setpriv --reuid 65534 --clear-groups "$netns" up --prefix "$prefix" 2>&1) || status=$?
	like "no root: status 4, told what to do" "$status $output" "^4 netns.sh: .*unshare -Urnm"
}

# Namespaces made there must not show in the /run outside, not even if root made the user namespace.
user_namespace_test() {
	machine_remember
	# shellcheck disable=SC2016
	ok "it works inside unshare -Urnm" unshare -Urnm bash -euc '
		"$1" up --quiet --no-rule
		"$1" exec client ping -c 1 -W 1 10.0.2.1
		"$1" down --quiet' - "$netns"
	is_as_before "unshare -Urnm leaves nothing behind"
}

first_ping_test 2 --topology router
first_ping_test 1 --topology pair
first_ping_test 1 --topology pair --hook input
first_ping_test 2 --topology lo
status_test
"$netns" down --quiet --prefix "$prefix"
idempotence_test
options_test
"$netns" down --quiet --prefix "$prefix"
usage_test
sizes_test
exec_test
processes_test
kill_test
orphan_test
failure_test
permission_test
user_namespace_test
done_testing
