# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# cell-traffic.sh: what cell.sh measures: ping, and a load by iperf3 or nfq-udp. To be sourced.

# shellcheck disable=SC2154 # options of cell.sh, and what netns.sh tells it

# The first packets meet cold caches and, with a foreign processor, anything.
warm_up() {
	inside "${net[client_ns]}" ping -"$family" -q -n -c 3 -i 0.01 -W 1 "$address" >/dev/null 2>&1 ||
		cell_fail "no ping comes back from $address: $(processor_summary)"
}

processor_summary() {
	[[ $processor_pid ]] && echo "the processor lets nothing pass" || echo "the namespaces do not forward"
}

# Waits for a measurement, or until the processor ends. `wait -n` does not tell of what a signal ended before.
measurement_wait() { # NAME PID
	local code=0
	if [[ $processor_pid ]]; then
		if kill -0 "$2" 2>/dev/null && processor_is_alive; then
			wait -n "$2" "$processor_pid" || true
		fi
		processor_is_alive || processor_fail "during $1"
	fi
	wait "$2" || code=$?
	echo "$code" >"$out/$1.status"
	((code != 124)) || cell_fail "$1 did not end in time"
}

ping_measure() {
	[[ $ping != 0 && $together == no ]] || return 0
	ping_start
	measurement_wait ping "$ping_pid"
}

ping_start() {
	local count=${ping%@*} interval_ms=${ping#*@} interval linger=2
	# If one is lost ping waits at its end, and has to be done before the load.
	[[ ! $udp ]] || linger=1
	printf -v interval '%d.%03d' $((interval_ms / 1000)) $((interval_ms % 1000))
	enter_set "${net[client_ns]}" client
	"${enter[@]}" timeout $((count * interval_ms / 1000 + 15)) \
		ping -"$family" -D -n -c "$count" -i "$interval" -W "$linger" "$address" \
		>"$out/ping.txt" 2>"$out/ping.err" </dev/null &
	ping_pid=$!
}

# Sees to it that ping met the load all the time.
ping_within() { # LOAD-PID
	data_is_seen || cell_fail "no data of $(load_name) was seen within 5 s"
	ping_start
	measurement_wait ping "$ping_pid"
	kill -0 "$1" 2>/dev/null || cell_fail "$(load_name) ended before ping did"
}

# ---- iperf3, or nfq-udp in its place ----

load_name() {
	[[ $udp ]] && echo udp || echo iperf3
}

load_measure() {
	local client name
	((iperf)) || return 0
	name=$(load_name)
	"${name}_server_start"
	"${name}_client_start"
	client=$!
	wait_until 5 data_is_seen_or_gone "$client" || true
	processor_sched_write
	[[ $together == no ]] || ping_within "$client"
	measurement_wait "$name" "$client"
	wait_until 5 load_server_is_gone || kill "$load_server_pid" 2>/dev/null || true
}

iperf3_server_start() {
	enter_set "${net[server_ns]}" server
	"${enter[@]}" iperf3 -s -1 -p "$port" --forceflush >"$out/iperf3-server.txt" 2>&1 </dev/null &
	load_server_pid=$!
	load_server_wait
}

iperf3_client_start() {
	local arguments
	read -ra arguments <<<"$iperf_args"
	enter_set "${net[client_ns]}" client
	"${enter[@]}" timeout $((iperf + 20)) \
		iperf3 -c "$address" -p "$port" --connect-timeout 5000 -J -t "$iperf" ${cc:+-C "$cc"} \
		"${arguments[@]}" >"$out/iperf3.json" 2>"$out/iperf3.err" </dev/null &
}

udp_server_start() {
	local program
	program=$(program_find NFQ_UDP nfq-udp) ||
		cell_fail "no nfq-udp in NFQ_UDP, in $(dirname "$here") or in PATH: build it with make"
	enter_set "${net[server_ns]}" server
	"${enter[@]}" "$program" -s -B "$address" -p "$port" >"$out/udp-server.txt" 2>&1 </dev/null &
	load_server_pid=$!
	load_server_wait
}

udp_client_start() {
	enter_set "${net[client_ns]}" client
	"${enter[@]}" timeout $((iperf + 20)) \
		"$(program_find NFQ_UDP nfq-udp)" -c "$address" -p "$port" -r "$udp" -l "$udp_bytes" -g "$udp_segments" -t "$iperf" \
		>"$out/udp.json" 2>"$out/udp.err" </dev/null &
}

load_server_wait() {
	wait_until 5 load_server_listens ||
		cell_fail "the server of $(load_name) does not listen: $(tail -n 1 "$out/$(load_name)-server.txt")"
}

load_server_listens() {
	inside "${net[server_ns]}" ss -Hltn "sport = :$port" | grep -q .
}

load_server_is_gone() {
	! kill -0 "$load_server_pid" 2>/dev/null
}

data_is_seen_or_gone() { # CLIENT-PID
	kill -0 "$1" 2>/dev/null || return 0
	data_is_seen
}

# iperf3's control connection is the first, its data connection the second. Datagrams are counted; in the server's
# namespace there have been none before.
data_is_seen() {
	if [[ $udp ]]; then
		inside "${net[server_ns]}" cat /proc/net/snmp /proc/net/snmp6 | awk '
			$1 == "Udp:" && !names++ { next }
			$1 == "Udp:" || $1 == "Udp6InDatagrams" { seen += $2 }
			END { exit !seen }'
	else
		inside "${net[client_ns]}" ss -tiHn state established "dport = :$port" >"$out/congestion"
		(($(grep -c bytes_sent "$out/congestion") >= 2))
	fi
}
