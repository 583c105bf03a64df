# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# load.sh: the load under which programs here are stopped, started, killed and hindered, and its account. To be sourced
# first.
#
# Theory of operation
#
#   Three streams cross the queue at once, both ways: UDP at 200 Mbit/s, each datagram of which is accounted for; one TCP
#   flow that takes what it can get; and a ping every 2 ms. Options of the daemon give each burst a millisecond, so that
#   packets are held whenever something happens to it, and a queue long enough for a machine that is busy with the load.
#
# shellcheck source-path=SCRIPTDIR source=../netns/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../netns/lib.sh"

export NFQ_UDP=${NFQ_UDP:-$top/nfq-udp}
readonly LOAD_PPS=17857 LOAD_BYTES=1400 # 200 Mbit/s
# shellcheck disable=SC2034 # for the tests
readonly held=(--delay 1000 --burst 256 --maxlen 65536 --copy headers)

# Starts it, for so many seconds; without TCP if only losses count that nothing else explains.
load_start() { # SECONDS [udp]
	load_pids=()
	rm -f "$tmp"/load.*
	: >"$tmp/load.tcp"
	in_server timeout $(($1 + 30)) "$NFQ_UDP" -s >"$tmp/load.udp-server" 2>&1 </dev/null &
	load_pids+=("$!")
	if [[ ${2:-} != udp ]]; then
		in_server timeout $(($1 + 30)) iperf3 -s -1 -p 5202 >/dev/null 2>&1 </dev/null &
		load_pids+=("$!")
		wait_until 5 load_listens 5202 || bail "iperf3's server does not listen"
		in_client timeout $(($1 + 30)) iperf3 -c "${net[server_addr4]}" -p 5202 -C cubic -J -t "$1" \
			>"$tmp/load.tcp" 2>&1 </dev/null &
		load_pids+=("$!")
	fi
	wait_until 5 load_listens 5201 || bail "nfq-udp does not listen: $(<"$tmp/load.udp-server")"
	in_client timeout $(($1 + 30)) "$NFQ_UDP" -c "${net[server_addr4]}" -r $LOAD_PPS -l $LOAD_BYTES -t "$1" \
		>"$tmp/load.udp" 2>&1 </dev/null &
	load_udp_pid=$!
	in_client timeout $(($1 + 30)) ping -n -q -f -i 0.002 -W 2 -c $((500 * $1)) "${net[server_addr4]}" \
		>"$tmp/load.ping" 2>&1 </dev/null &
	load_pids+=("$!" "$load_udp_pid")
	sleep 0.3
}

load_listens() { # PORT
	in_server ss -Hltn "sport = :$1" | grep -q .
}

load_goes_on() {
	kill -0 "$load_udp_pid" 2>/dev/null
}

# Waits for its end, and sets sent, udp_lost, pings, pings_lost and tcp_bytes.
# shellcheck disable=SC2034
load_await() {
	wait "${load_pids[@]}" 2>/dev/null || true
	sent=$(load_value sent) udp_lost=$(load_value lost)
	pings=$(sed -n 's/^\([0-9]*\) packets transmitted.*/\1/p' "$tmp/load.ping")
	pings_lost=$((${pings:-0} - $(sed -n 's/.* \([0-9]*\) received.*/\1/p' "$tmp/load.ping")))
	tcp_bytes=$(sed -n '/sum_received/,/}/ s/.*"bytes":[^0-9]*\([0-9]*\).*/\1/p' "$tmp/load.tcp")
	[[ $sent && $pings ]] || bail "the load has no account: $(head -c 500 "$tmp"/load.*)"
}

load_value() { # KEY
	sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$tmp/load.udp"
}

packets_wait() { # NUMBER
	(($(queue_value waiting) == $1))
}

# Deleting a base chain makes the kernel drop what waits, in any queue of the namespace.
befall_rules() { # TIMES PAUSE
	local i
	for ((i = 0; i < $1; i++)); do
		in_queue nft add table ip faults
		in_queue nft add chain ip faults x '{ type filter hook forward priority 5; }'
		in_queue nft delete table ip faults
		sleep "$2"
	done
}

befall_link() { # SECONDS
	in_queue ip link set to-server down
	sleep "$1"
	in_queue ip link set to-server up
}

befall_freeze() { # SECONDS
	kill -STOP "$noop_pid"
	sleep "$1"
	kill -CONT "$noop_pid"
}
