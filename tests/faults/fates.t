#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What may befall a program that packets wait for: it is frozen, its queue is short, its buffer tiny, links go down, rules
# and namespaces go away, a disk is full, another real-time thread has the CPU. Each time it goes on, or ends in order and
# says why; it neither hangs nor spins; and its account of every packet balances.
#
# shellcheck disable=SC2317 # functions are called by their names
# shellcheck source-path=SCRIPTDIR source=load.sh
source "$(dirname "$0")/load.sh"

# Once nothing comes any more it must not be busy: in half a second it may take a twentieth.
is_idle() { # NAME
	local before after
	before=$(noop_ticks)
	sleep 0.5
	after=$(noop_ticks)
	holds "$1: afterwards it does not spin" "($after - $before) * 1000 / $(getconf CLK_TCK) <= 25"
}

# User and system time of the process, in clock ticks.
noop_ticks() {
	sed 's/.*) //' "/proc/$noop_pid/stat" | awk '{ print $12 + $13 }'
}

# Pings pass, nothing waits a second after the load, and it ends in order with an account that balances.
goes_on() { # NAME
	queue_await_rest 0
	is "$1: pings pass" "$(pings_count 4 5)" 5
	is_idle "$1"
	noop_stop
	is "$1: it ends in order, nothing waits, the account balances" \
		"$noop_status $(json_value waiting) $(json_value residue)" "0 0 0"
}

# What the kernel counts and what the program says of it.
losses_agree() { # NAME
	is "$1: what the kernel has dropped is what the program tells" \
		"$(json_value kernel_dropped) $(json_value kernel_user_dropped)" "$kernel_dropped $kernel_user_dropped"
}

losses_remember() {
	queue_await_rest 0
	kernel_dropped=$(queue_value dropped)
	kernel_user_dropped=$(queue_value user_dropped)
}

frozen_test() { # NAME OPTIONS...
	noop_start "${@:2}"
	load_start 3 udp
	befall_freeze 1
	load_await
	losses_remember
	diag "$1: UDP $udp_lost of $sent lost; full $kernel_dropped, no room $kernel_user_dropped"
	goes_on "$1"
	losses_agree "$1"
}

# Beside datagrams and pings the load has a connection, of which the kernel may drop packets too. They are sent again.
each_is_accounted_for() { # NAME DROPPED
	holds "$1: each lost packet is accounted for" \
		"$((udp_lost + pings_lost)) <= $2 && $2 <= $((udp_lost + pings_lost)) + 20"
}

frozen_tests() {
	local copy
	frozen_test "frozen for a second, tiny buffer" --rcvbuf 20000 --maxlen 1024
	holds "frozen, tiny buffer: that was a loss" "$udp_lost > 1000"
	holds "frozen, tiny buffer: it was the buffer's" "$kernel_user_dropped > $kernel_dropped"
	each_is_accounted_for "frozen, tiny buffer" $((kernel_dropped + kernel_user_dropped))
	frozen_test "frozen, tiny buffer, fail-open" --rcvbuf 20000 --maxlen 1024 --fail-open
	is "frozen, fail-open: nothing is lost" "$udp_lost $pings_lost" "0 0"
	holds "frozen, fail-open: what passed unseen is counted" "$(json_value passed) > 1000"
	is "frozen, fail-open: and is what no id was seen of" "$(json_value passed)" "$(json_value lost_ids)"
	for copy in headers meta 1500 full; do
		frozen_test "frozen, short queue, copy $copy" --maxlen 100 --copy $copy
		each_is_accounted_for "frozen, short queue, copy $copy" "$kernel_dropped"
		is "frozen, short queue, copy $copy: the buffer holds what the queue does" "$kernel_user_dropped" 0
	done
	like "frozen, short queue: it is told while it happens" "$(<"$tmp/noop.err")" "overload: .* because 100 were waiting"
}

one_at_a_time_test() {
	noop_start --maxlen 1
	load_start 2
	load_await
	losses_remember
	goes_on "maxlen 1"
	losses_agree "maxlen 1"
	noop_start --rcvbuf 1 --copy headers
	load_start 2
	load_await
	losses_remember
	goes_on "the smallest buffer"
	losses_agree "the smallest buffer"
}

link_test() {
	noop_start "${held[@]}"
	load_start 3 udp
	befall_link 0.5
	load_await
	holds "link down: datagrams are lost" "$udp_lost > 0"
	goes_on "link down and up"
	diag "link down: UDP $udp_lost of $sent lost, $(json_value flushed) flushed"
}

rules_test() {
	noop_start --delay 3000 --burst 256 --maxlen 65536
	load_start 2 udp
	befall_rules 5 0.1
	load_await
	queue_await_rest 0
	goes_on "rules go away"
	holds "rules go away: what the kernel flushed is counted" "$(json_value flushed) > 0"
	is "rules go away: each lost packet is accounted for" "$((udp_lost + pings_lost))" "$(json_value flushed)"
}

no_rules_test() {
	noop_start
	in_queue iptables -F
	is "no rule any more: pings pass beside the queue" "$(pings_count 4 5)" 5
	is_idle "no rule any more"
	noop_stop
	is "no rule any more: it ends in order" "$noop_status $(json_value residue)" "0 0"
	net_up --bypass
}

# A process keeps its namespace; who waits in it for packets that cannot come any more does nothing.
namespace_test() {
	noop_start
	"$netns" down --quiet --prefix "$prefix" 2>/dev/null || true
	if noop_is_gone; then
		noop_await_end
		is "the namespace is taken down: whoever does that ends it in order" "$noop_status" 0
	else
		is_idle "the namespace is gone"
		noop_stop
		is "the namespace is gone: it ends in order" "$noop_status $(json_value residue)" "0 0"
	fi
	net_up --bypass
	noop_start
	ip netns delete "${net[queue_ns]}"
	is_idle "the namespace is deleted"
	kill -TERM "$noop_pid"
	noop_await_end
	is "the namespace is deleted: it ends in order" "$noop_status $(json_value residue)" "0 0"
	"$netns" down --quiet --prefix "$prefix" 2>/dev/null || true
	net_up --bypass
}

second_instance_test() {
	noop_start
	load_start 1 udp
	noop_fail --queue 0
	like "a second instance is refused while packets come" "$noop_status $noop_error" "^1 .*queue 0: owned by"
	load_await
	is "a second instance: the first loses nothing" "$udp_lost $pings_lost" "0 0"
	goes_on "a second instance"
}

outputs_test() {
	mount -t tmpfs -o size=4k tmpfs /mnt
	head -c 4096 /dev/zero >/mnt/full
	noop_start --json=/mnt/out
	kill -USR1 "$noop_pid"
	ok "full disk: an error" wait_until 5 grep -q "json: cannot be written: No space left" "$tmp/noop.err"
	is "full disk: packets go on" "$(pings_count 4 5)" 5
	noop_stop
	is "full disk: the end says so by its status" "$noop_status" 1
	umount /mnt
	noop_status=0
	in_queue timeout 10 "$NFQ_NOOP" --json >&- 2>"$tmp/noop.err" || noop_status=$?
	like "closed stdout: refused before anything is bound" "$noop_status $(<"$tmp/noop.err")" \
		"^1 nfq-noop: --json: standard output is closed"
	# shellcheck disable=SC2016
	noop_before=(bash -c 'exec "$@" >&- 2>"$0"' "$tmp/trace.err")
	nsenter --net="/run/netns/${net[queue_ns]}" -- "${noop_before[@]}" "$NFQ_NOOP" --trace &
	noop_pid=$!
	noop_before=()
	wait_until 5 grep -qs ^ready "$tmp/trace.err" || fail "closed stdout: it starts"
	is "closed stdout: --trace lets packets go on" "$(pings_count 4 5)" 5
	noop_stop
	is "closed stdout: --trace ends in order" "$noop_status" 0
}

signals_test() {
	noop_start --delay 10000000
	in_client ping -n -q -c 1 -W 1 "${net[server_addr4]}" >/dev/null 2>&1 &
	wait_until 5 packets_wait 1 || fail "a packet waits"
	kill -TERM "$noop_pid"
	sleep 0.6
	ok "a processor that takes long: the first SIGTERM waits for it" kill -0 "$noop_pid"
	kill -TERM "$noop_pid"
	ok "the second ends at once" wait_until 1 noop_is_gone
	wait "$noop_pid" || true
}

# On one CPU: a real-time processor that spins, packets without end, and somebody ordinary who wants to live.
realtime_test() {
	if ! realtime_is_permitted; then
		skip "a real-time thread does not take the machine" "real-time scheduling is not permitted here"
		return
	fi
	noop_before=(taskset -c 0 chrt -rr 99)
	noop_start --spin 1000000
	like "real time: so long a spin is lowered, with a warning" "$(<"$tmp/noop.err")" "spin 1000000: lowered to 5000"
	load_start 3 udp
	ok "real time: an ordinary process on that CPU gets some of it" \
		timeout 3 taskset -c 0 bash -c 'for ((i = 0; i < 20000; i++)); do :; done'
	load_await
	goes_on "real time"
	noop_start
	load_start 3 udp
	timeout 2 taskset -c 0 chrt -rr 99 bash -c 'while :; do :; done' || true
	load_await
	queue_await_rest 0
	ok "real time: another such thread on its CPU is noticed" wait_until 5 grep -q "was kept from its CPU for" "$tmp/noop.err"
	noop_before=()
	goes_on "real time, another thread"
}

net_up --bypass
frozen_tests
one_at_a_time_test
link_test
rules_test
no_rules_test
namespace_test
second_instance_test
outputs_test
signals_test
realtime_test
done_testing
