#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# cell.sh: measures one cell, which is one ping and one iperf3 run through fresh namespaces and a fresh processor, and
# leaves its raw output in a folder. It judges nothing: nfq-bench does, from these files.
#
# Files in the folder
#
#   cell.conf              what was asked for and what is in force, key=value
#   steps.log              the privileged commands
#   processor.{json,out,err,status}, sched.txt: "TID POLICY PRIORITY COMMAND" of each thread, read while it worked
#   ping.{txt,err,status}  iperf3.{json,err,status}  iperf3-server.txt
#   udp.{json,err,status}  udp-server.txt: with --udp, in the place of iperf3's
#   congestion             ss of the client while iperf3 ran
#   offloads.NAMESPACE.txt as set up, and once more in end/   timing
#   start/ ping/ end/      what the kernel counts before, between and after the two measurements: for each namespace
#                          links, qdiscs and the IP counters; of the processor stat and status (memory); "throttled" is
#                          what slows a machine down, key=value, empty where it cannot be read
#   error                  one line, only if the cell could not be completed
#
# Theory of operation
#
#   Everything that is started runs inside the namespaces, with whatever wraps it (timeout, chrt, taskset), so that
#   `netns.sh down` ends and removes all of it, from the EXIT trap or, if this script is killed, by hand.
#
#   Counters are read while nothing is on its way: after a warm-up, after ping has ended, and after iperf3's server has
#   ended and the queue has come to rest. That makes them exact.
#
#   With --together ping runs while iperf3's data flows and ends before it does; "ping" is then read before both.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$here/lib.sh"
# shellcheck source-path=SCRIPTDIR source=cell-processor.sh
source "$here/cell-processor.sh"
# shellcheck source-path=SCRIPTDIR source=cell-counters.sh
source "$here/cell-counters.sh"
# shellcheck source-path=SCRIPTDIR source=cell-traffic.sh
source "$here/cell-traffic.sh"

readonly netns=$here/netns.sh
readonly port=5201

readonly usage="usage: cell.sh --out DIR [--prefix P] [--topology router|pair|bridge|lo] [--hook H] [--mode queue|none]
               [--queue FIRST] [--queues N] [--fanout hash|cpu] [--family 4|6]
               [--processor 'CMD {queue} {last_queue}'] [--noop-args ARGS] [--sched inherit|other|rr:PRIO|fifo:PRIO]
               [--pin client=CPUS,server=CPUS,daemon=CPUS] [--ping COUNT@MS] [--iperf SECONDS] [--iperf-args ARGS]
               [--cc NAME] [--mtu BYTES] [--tso on|off] [--gro on|off] [--gso-max BYTES]
               [--conntrack off|on|nat] [--tunnel wireguard] [--rps [ROLE=]CPU,...] [--busy CPUS] [--bypass]
               [--udp PPS [--udp-bytes BYTES] [--udp-segments N]] [--together] [--ready SECONDS]

  --processor     bash runs it: words can be quoted and output redirected, as in 'CMD {queue} >/dev/null'; it is
                  ready when every queue from {queue} to {last_queue} is bound and configured
  --udp           nfq-udp in the place of iperf3, for as many SECONDS: PPS datagrams a second, of BYTES, N at a time
  --together      ping while iperf3 runs; COUNT x MS must leave half a second of SECONDS
  --busy          an ordinary process beside the processor's keeps these CPUs busy all the time
  netns.sh --help explains --fanout, --gro, --gso-max, --conntrack, --tunnel and --rps."

# Options with a value: a variable for each, and the form of the value.
out='' prefix=nfq topology=router hook='' mode=queue queue=0 queues=1 fanout=hash family=4
processor='' noop_args='' sched=inherit pin='' ping=200@10 iperf=5 iperf_args='' cc=cubic
mtu=1500 tso='' gro='' gso_max='' conntrack=off tunnel='' udp='' udp_bytes=64 udp_segments=16
rps='' busy='' bypass=no together=no ready=10
readonly -A forms=(
	[out]='[^[:cntrl:]]+'
	[prefix]='[a-z0-9][a-z0-9-]{0,31}'
	[topology]='router|pair|bridge|lo'
	[hook]='|forward|output|input'
	[mode]='queue|none'
	[queue]='0|[1-9][0-9]{0,4}'
	[queues]='[1-9][0-9]{0,4}'
	[fanout]='hash|cpu'
	[family]='4|6'
	[processor]='[^[:cntrl:]]*'
	[noop_args]='[^[:cntrl:]]*'
	[sched]='inherit|other|(rr|fifo):[1-9][0-9]?'
	[pin]='|((client|server|daemon)=[0-9,-]+,?)+'
	[ping]='0|[1-9][0-9]*@[1-9][0-9]*'
	[iperf]='0|[1-9][0-9]*'
	[iperf_args]='[^[:cntrl:]]*'
	[cc]='[a-z0-9_]*'
	[mtu]='[1-9][0-9]{3,4}'
	[tso]='|on|off'
	[gro]='|on|off'
	[gso_max]='|[1-9][0-9]{4,5}'
	[conntrack]='off|on|nat'
	[tunnel]='|wireguard'
	[udp]='|[1-9][0-9]{0,8}'
	[udp_bytes]='[1-9][0-9]{1,3}'
	[udp_segments]='[1-9][0-9]?'
	[rps]='[a-z0-9=,]*'
	[busy]='[0-9,-]*'
	[ready]='[1-9][0-9]{0,3}'
)

declare -A net    # what netns.sh status tells
declare -A pinned # CPU list of client, server and daemon
processor_pid=''
namespaces_are_up=no

cell_fail() { # MESSAGE
	echo "$*" >"$out/error"
	die 1 "$*"
}

# ---- command line ----

options_parse() {
	while (($#)); do
		case $1 in
		-h | --help) echo "$usage" && exit 0 ;;
		--bypass) bypass=yes ;;
		--together) together=yes ;;
		*)
			option_set "${@:1:2}"
			shift
			;;
		esac
		shift
	done
	[[ $out ]] || die 2 "--out DIR: say where to put the files"
	last_queue=$((queue + queues - 1))
	[[ $together == no ]] || together_check
	pin_parse
	cpus_check
}

together_check() {
	[[ $ping != 0 && $iperf != 0 ]] || die 2 "--together: needs both --ping and --iperf"
	((${ping%@*} * ${ping#*@} + 500 <= iperf * 1000)) ||
		die 2 "--together: --ping $ping would outlast --iperf $iperf: leave it half a second"
}

# taskset would find out in the midst of it.
cpus_check() {
	local list
	for list in "${pinned[@]}" $busy; do
		taskset -c "$list" true 2>/dev/null || die 2 "'$list': not a list of CPUs that this machine has for us"
	done
}

# client=0,2,server=1: a word without "=" belongs to the list before it.
pin_parse() {
	local word words role=
	IFS=, read -ra words <<<"$pin"
	for word in "${words[@]}"; do
		if [[ $word == *=* ]]; then
			role=${word%%=*}
			pinned[$role]=${word#*=}
		else
			pinned[$role]+=,$word
		fi
	done
}

out_make() {
	mkdir -p "$out" 2>/dev/null || die 2 "--out $out: cannot make this directory"
	out=$(cd "$out" && pwd)
	[[ ! $(ls -A "$out") ]] || die 2 "--out $out: is not empty"
}

conf_write() {
	cat >"$out/cell.conf" <<-END
		mode=$mode
		topology=$topology
		hook=$hook
		queue=$queue
		queues=$queues
		fanout=$fanout
		family=$family
		processor=${processor:-nfq-noop}
		noop_args=$noop_args
		sched=$sched
		pin=$pin
		ping_count=${ping%@*}
		ping_interval_ms=${ping#*@}
		iperf_seconds=$iperf
		iperf_args=$iperf_args
		cc=$cc
		mtu=$mtu
		tso=$tso
		gro=$gro
		gso_max=$gso_max
		conntrack=$conntrack
		tunnel=$tunnel
		udp=$udp
		udp_bytes=$udp_bytes
		udp_segments=$udp_segments
		rps=$rps
		busy=$busy
		bypass=$bypass
		together=$together
		prefix=$prefix
		backend=${net[backend]:-}
		processor_pid=$processor_pid
	END
}

# ---- namespaces ----

namespaces_up() {
	local options=(--prefix "$prefix" --topology "$topology" --mtu "$mtu") code=0 key value
	options+=(--queue "$queue" --queues "$queues" --fanout "$fanout" ${hook:+--hook "$hook"})
	options+=(${tso:+--tso "$tso"} ${gro:+--gro "$gro"} ${gso_max:+--gso-max "$gso_max"} ${rps:+--rps "$rps"})
	options+=(--conntrack "$conntrack" ${tunnel:+--tunnel "$tunnel"})
	[[ $bypass == no ]] || options+=(--bypass)
	[[ $mode == queue ]] || options+=(--no-rule)
	namespaces_are_up=yes
	"$netns" up "${options[@]}" 2>>"$out/steps.log" || code=$?
	if ((code)); then
		grep -v "^\[+\]" "$out/steps.log" | tail -n 1 | tee "$out/error" >&2
		exit "$code"
	fi
	while IFS='=' read -r key value; do
		net[$key]=$value
	done < <("$netns" status --prefix "$prefix")
	hook=${net[hook]} tso=${net[tso]} gro=${net[gro]} gso_max=${net[gso_max]}
	address=${net[server_addr$family]}
}

namespaces_down() {
	[[ $namespaces_are_up == yes ]] || return 0
	namespaces_are_up=no
	"$netns" down --prefix "$prefix" 2>>"$out/steps.log"
}

# Sets `enter` to the words that start a program in a namespace on its CPUs.
enter_set() { # NAMESPACE client|server|daemon
	enter=(nsenter --net="/run/netns/$1" --)
	[[ ! ${pinned[$2]:-} ]] || enter+=(taskset -c "${pinned[$2]}")
}

# Each once: of the topology lo there is one.
namespaces_print() {
	local server=${net[server_ns]}
	[[ $server != "${net[client_ns]}" ]] || server=
	echo "${net[client_ns]}" ${net[router_ns]:+"${net[router_ns]}"} ${server:+"$server"}
}

inside() { # NAMESPACE COMMAND...
	nsenter --net="/run/netns/$1" -- "${@:2}"
}

timed() { # NAME FUNCTION
	local start=${EPOCHREALTIME/./} elapsed_us
	"$2"
	elapsed_us=$((${EPOCHREALTIME/./} - start))
	printf '%s_s=%d.%06d\n' "$1" $((elapsed_us / 1000000)) $((elapsed_us % 1000000)) >>"$out/timing"
}

# ---- the cell ----

set_up() {
	namespaces_up
	[[ $mode == none ]] || processor_start
	conf_write
	offloads_write "$out"
	[[ ! $busy ]] || neighbour_start
	warm_up
}

# Another process, an ordinary one, that always wants to run. It ends with its namespace.
neighbour_start() {
	inside "${net[queue_ns]}" taskset -c "$busy" bash -c 'while :; do :; done' >/dev/null 2>&1 </dev/null &
}

tear_down() {
	[[ ! $processor_pid ]] || processor_stop
	namespaces_down
}

clean_up() { # STATUS COMMAND
	trap - EXIT
	(($1 == 0)) || [[ -e $out/error ]] || echo "ended with status $1 in: $2" >"$out/error"
	namespaces_down
	[[ ! $processor_pid || -e $out/processor.status ]] || processor_status_write
	exit "$1"
}

main() {
	options_parse "$@"
	((BASH_VERSINFO[0] >= 5)) || die 4 "needs bash 5"
	tools_check ping:iputils-ping iperf3:iperf3 ip:iproute2 ss:iproute2 chrt:util-linux taskset:util-linux
	out_make
	conf_write
	trap 'clean_up $? "$BASH_COMMAND"' EXIT
	trap 'cell_fail "stopped by a signal"' HUP INT TERM
	timed setup set_up
	snapshot_take start
	timed ping ping_measure
	snapshot_take ping
	processor_report
	timed iperf load_measure
	[[ -e $out/sched.txt ]] || processor_sched_write
	snapshot_take end
	offloads_write "$out/end"
	timed teardown tear_down
}

main "$@"
