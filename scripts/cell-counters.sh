# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# cell-counters.sh: what the kernel counts, read by cell.sh between its measurements. To be sourced.

# shellcheck disable=SC2154 # options of cell.sh, and what netns.sh tells it

# Prints the kernel's lines of our queues, as the processor sees them, which saves a process.
queues_read() {
	[[ ! -r /proc/$processor_pid/net/netfilter/nfnetlink_queue ]] ||
		awk -v first="$queue" -v last="$last_queue" '$1 >= first && $1 <= last' \
			"/proc/$processor_pid/net/netfilter/nfnetlink_queue"
}

# Nothing waits, and nothing has come since this was asked before; in a queue that nobody has bound nothing can.
queues_are_at_rest() {
	local before=$queue_lines
	queue_lines=$(queues_read)
	[[ $queue_lines == "$before" ]] || return
	[[ ! $queue_lines ]] ||
		awk -v queues="$queues" '$3 == 0 { resting++ } END { exit resting != queues }' <<<"$queue_lines"
}

# For bash inside a namespace, with a directory and the namespace's name.
# shellcheck disable=SC2016
readonly namespace_counters_write='
	ip -s -j link >"$1/links.$2.json"
	cat /proc/net/snmp /proc/net/netstat /proc/net/snmp6 >"$1/snmp.$2"
	tc -s -j qdisc >"$1/qdiscs.$2.json"'

snapshot_take() { # NAME
	local namespace file problem to=$out/$1
	[[ ! $processor_pid ]] || processor_is_alive || processor_fail "before the snapshot '$1'"
	queue_lines=
	[[ ! $processor_pid ]] || wait_until 3 queues_are_at_rest || true
	mkdir "$to"
	problem=$("$netns" status --prefix "$prefix" 2>&1 >"$to/netns.status") || cell_fail "$problem"
	inside "${net[queue_ns]}" cat /proc/net/netfilter/nfnetlink_queue >"$to/queue" 2>/dev/null || true
	for namespace in $(namespaces_print); do
		inside "$namespace" bash -euc "$namespace_counters_write" - "$to" "$namespace"
	done
	file_copy /proc/net/softnet_stat "$to/softnet"
	throttled_print >"$to/throttled"
	file_copy /proc/stat "$to/proc.stat"
	file_copy /proc/uptime "$to/uptime"
	file_copy /proc/sys/kernel/tainted "$to/tainted"
	for file in ${processor_pid:+stat status}; do
		file_copy "/proc/$processor_pid/$file" "$to/proc.processor.$file"
	done
}

# Without a process: a cell has many of these.
file_copy() { # FROM TO
	printf '%s\n' "$(<"$1")" >"$2"
}

# The kernel tells of real-time throttling once a boot only.
throttled_print() {
	echo "thermal=$(sum_print /sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count)"
	echo "cgroup=$(cgroup_throttled_print)"
	echo "realtime=$(dmesg 2>/dev/null | awk '/RT throttling activated/ { count++ } END { if (NR) print count + 0 }')"
}

# Prints nothing if there is nothing to add.
sum_print() { # FILE...
	local file sum=''
	for file; do
		[[ ! -r $file ]] || ((sum += $(<"$file"), 1))
	done
	echo "$sum"
}

# How often our cgroup and each above it were kept from running, in version 2 or 1.
cgroup_throttled_print() {
	local number controllers path root key value sum=''
	while IFS=: read -r number controllers path; do
		case $number:,$controllers, in
		0:*) root=/sys/fs/cgroup ;;
		*:*,cpu,*) root=/sys/fs/cgroup/$controllers ;;
		*) continue ;;
		esac
		while :; do
			while read -r key value; do
				[[ $key != nr_throttled ]] || ((sum += value, 1))
			done 2>/dev/null <"$root$path/cpu.stat" || true
			[[ ${path%/} ]] || break
			path=${path%/*}
		done
	done </proc/self/cgroup
	echo "$sum"
}

# For bash inside a namespace, with its name: of its links, or of lo if it has no other.
# shellcheck disable=SC2016
readonly offloads_print='
	links=$(ip -brief link show type veth && ip -brief link show type wireguard)
	while read -r device _; do
		ethtool -k "${device%@*}" | sed "s/^/$1 ${device%@*}: /"
	done <<<"${links:-lo}"'

offloads_write() { # DIRECTORY
	local namespace
	for namespace in $(namespaces_print); do
		inside "$namespace" bash -euo pipefail -c "$offloads_print" - "$namespace" >"$1/offloads.$namespace.txt"
	done
}
