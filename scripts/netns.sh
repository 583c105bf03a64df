#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# netns.sh: makes network namespaces whose packets pass through an NFQUEUE, and removes them.
#
#   router:
#     PREFIX-client                     PREFIX-router                     PREFIX-server
#     +----------+            +-------------------------------+            +----------+
#     |     eth0 |------------| to-client  FORWARD  to-server |------------| eth0     |
#     +----------+            +----------------v--------------+            +----------+
#       10.0.1.1          10.0.1.254        NFQUEUE      10.0.2.254          10.0.2.1
#       2001:db8:0:1::1                  both directions              2001:db8:0:2::1
#
#     With --tunnel wireguard the addresses on the right are those of wg0 at both ends; the link carries 10.0.3.254 and
#     10.0.3.1.
#
#   bridge: as a router, but the namespace in the middle has a bridge of its two links, br0, whose IP packets pass
#     FORWARD all the same (br_netfilter). Client and server have the addresses and prefixes of a pair.
#
#   pair:
#     PREFIX-client                                                       PREFIX-server
#     +---------------------+                                              +----------+
#     | OUTPUT/INPUT   eth0 |----------------------------------------------| eth0     |
#     +------v--------------+                                              +----------+
#         NFQUEUE, what goes to (or comes from) the server
#
#   lo: the client alone, with both addresses on lo. What goes to the server's address comes from there, too, so that
#     both directions pass its OUTPUT.
#
# Theory of operation
#
#   All that is made lies inside the namespaces, so deleting these three names undoes everything, whatever was made of
#   it and however it was interrupted. Nothing is kept in files: what `status` cannot see otherwise stands in the alias
#   of the client's eth0, which is written last and so also says that everything is there.
#
#   up and down hold a lock that the commands they run inherit. If the script is killed, the next one therefore waits
#   until the last command of the old one has ended.
#
#   The links carry the user's packets only: neighbours are permanent, IPv6 has neither duplicate address detection
#   nor link-local addresses. Counters are exact, and the first packet passes.
#
#   A link has the receive steering that its namespace had when it was made, so --rps goes before the links. A verdict
#   moves a packet to the daemon's CPU: without --rps, what follows on the packet's way is done there too.
#
#   Namespaces are entered by nsenter. `ip netns exec` mounts /sys anew, which fails where a container runtime or a
#   user namespace forbids it ("mount of /sys failed"); only /sys/class/net shows another namespace this way.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$here/lib.sh"
# shellcheck source-path=SCRIPTDIR source=netns-rule.sh
source "$here/netns-rule.sh"
# shellcheck source-path=SCRIPTDIR source=netns-build.sh
source "$here/netns-build.sh"

readonly usage="usage: netns.sh up [--prefix P] [--topology router|pair|bridge|lo] [--hook forward|output|input]
                   [--queue FIRST] [--queues N] [--fanout hash|cpu] [--bypass] [--no-rule] [--mtu BYTES]
                   [--tso on|off] [--gro on|off] [--gso-max BYTES] [--rps [ROLE=]CPU,...]
                   [--conntrack off|on|nat] [--tunnel wireguard] [-q]
       netns.sh down [--prefix P] [-q]
       netns.sh status [--prefix P]
       netns.sh exec [--prefix P] client|router|server COMMAND...

  --fanout hash   several queues: all packets between two hosts go to one queue; in IPv4 to one for each protocol
  --fanout cpu    several queues: the CPU that works on a packet chooses, FIRST plus its number modulo N
  --gro           of all links, or, if there is a tunnel, of the tunnel at both ends
  --gso-max       TCP may use packets up to BYTES, beyond 64 KiB (BIG TCP); where packets are forwarded over IPv4 only
  --rps CPU       all packets that a link receives are worked on by this CPU, as if they came from a network card that
                  interrupts it; ROLE=CPU,... for the links of client, router or server only
  --conntrack     on: the namespace with the queue tracks connections; nat: the router also hides the client's address
  --tunnel        between server and router; packets pass the queue outside of it"

readonly client4=10.0.1.1 client6=2001:db8:0:1::1 client_mac=02:00:00:00:01:01
readonly server4=10.0.2.1 server6=2001:db8:0:2::1 server_mac=02:00:00:00:02:01
readonly to_client4=10.0.1.254 to_client6=2001:db8:0:1::fe to_client_mac=02:00:00:00:01:fe
readonly to_server4=10.0.2.254 to_server6=2001:db8:0:2::fe to_server_mac=02:00:00:00:02:fe
readonly outer_server4=10.0.3.1 outer_router4=10.0.3.254

# Options with a value: a variable for each, and the form of the value.
prefix=nfq topology=router hook='' queue=0 queues=1 fanout=hash mtu=1500 tso='' gro='' gso_max='' rps=''
conntrack=off tunnel=''
readonly -A forms=(
	[prefix]='[a-z0-9][a-z0-9-]{0,31}'
	[topology]='router|pair|bridge|lo'
	[hook]='forward|output|input'
	[queue]='0|[1-9][0-9]{0,4}'
	[queues]='[1-9][0-9]{0,4}'
	[fanout]='hash|cpu'
	[mtu]='[1-9][0-9]{3,4}'
	[tso]='on|off'
	[gro]='on|off'
	[gso_max]='[1-9][0-9]{4,5}'
	[conntrack]='off|on|nat'
	[tunnel]='wireguard'
	[rps]='(0|[1-9][0-9]{0,3})|(client|router|server)=[0-9]{1,4}(,(client|router|server)=[0-9]{1,4}){0,2}'
)
command='' arguments=() bypass=no rule=yes quiet=no
readonly rps_file=/proc/sys/net/core/rps_default_mask
declare -A steering # role to the CPU that works on what its links receive
declare -A ip_commands # role to commands of ip that are still to be run in its namespace, a line each
backend=none # makes the rule: nft, iptables-nft or iptables-legacy
queue_role=  # client or router, whose namespace has the rule

log() {
	[[ $quiet == yes ]] || echo "$*" >&2
}

run() { # COMMAND...
	log "[+] $*"
	"$@" || die 1 "this failed: $*"
}

# ---- command line ----

options_parse() {
	command=${1:-}
	case $command in
	up | down | status | exec) shift ;;
	-h | --help) echo "$usage" && exit 0 ;;
	*) die 2 "'$command' is no command: use up, down, status or exec (--help tells more)" ;;
	esac
	while [[ ${1:-} == -* ]]; do
		case $command:$1 in
		*:-h | *:--help) echo "$usage" && exit 0 ;;
		*:-q | *:--quiet) quiet=yes ;;
		up:--bypass) bypass=yes ;;
		up:--no-rule) rule=no ;;
		up:--* | *:--prefix)
			option_set "${@:1:2}"
			shift
			;;
		*) die 2 "$1: no such option of $command (--help lists them)" ;;
		esac
		shift
	done
	arguments=("$@")
	arguments_check
	options_check
}

arguments_check() {
	if [[ $command == exec ]]; then
		form_check exec "${arguments[0]:-}" 'client|router|server'
		((${#arguments[@]} > 1)) || die 2 "exec: needs a command"
	else
		((${#arguments[@]} == 0)) || die 2 "'${arguments[0]}' is one argument too many"
	fi
}

options_check() {
	case $topology:$hook in
	router: | router:forward | bridge: | bridge:forward) hook=forward queue_role=router ;;
	pair: | pair:output | lo: | lo:output) hook=output queue_role=client ;;
	pair:input) queue_role=client ;;
	*) die 2 "--hook $hook: router and bridge queue in forward, a pair in output or input, lo in output" ;;
	esac
	((queue + queues <= 65536)) || die 2 "--queue $queue --queues $queues: beyond queue 65535"
	[[ $fanout == hash ]] || ((queues > 1)) || die 2 "--fanout cpu: needs several queues (--queues 2 or more)"
	((mtu >= 1280 && mtu <= 65535)) || die 2 "--mtu $mtu: IPv6 needs 1280, veth takes 65535 at most"
	((!gso_max || (gso_max >= 65536 && gso_max <= 524280))) || die 2 "--gso-max $gso_max: 65536 to 524280 bytes"
	[[ $conntrack != nat || $topology == router ]] || die 2 "--conntrack nat: only a router translates addresses"
	[[ ! $tunnel || $topology == router ]] || die 2 "--tunnel: needs a router, which is one of its ends"
	[[ ! $tunnel ]] || ((mtu >= 1360)) || die 2 "--mtu $mtu: a tunnel takes 80 of it, and IPv6 needs 1280"
	[[ $topology != lo || ! $rps ]] || die 2 "--rps: needs links, and topology lo has none"
	steering_read
}

# A CPU alone is meant for all.
steering_read() {
	local words word role
	IFS=, read -ra words <<<"$rps"
	for word in "${words[@]}"; do
		grep -q "^cpu${word#*=} " /proc/stat || die 2 "--rps $rps: this machine has no CPU ${word#*=} online"
		for role in client router server; do
			[[ $word != "$role="* || ! ${steering[$role]:-} ]] || die 2 "--rps $rps: $role is there twice"
			[[ $word == *=* && $word != "$role="* ]] || steering[$role]=${word#*=}
		done
		[[ $topology:$word != pair:router=* ]] ||
			die 2 "--rps $rps: there is no ${word%%=*} in topology $topology"
	done
}

# ---- what the machine permits ----

machine_check() {
	unshare --net true 2>/dev/null ||
		die 4 "may not make network namespaces: needs CAP_SYS_ADMIN (in a container too) and CONFIG_NET_NS"
	unshare --net ip link add type veth 2>/dev/null ||
		die 4 "cannot make veth links: needs CAP_NET_ADMIN and CONFIG_VETH (module veth)"
	[[ -d /proc/sys/net/ipv6 ]] || die 4 "no IPv6 in this kernel: needs CONFIG_IPV6, and not ipv6.disable=1"
	[[ ! $gso_max || $topology != @(pair|lo) ]] || big_tcp_check
	[[ $topology != bridge ]] || bridge_check
	[[ ! $tunnel ]] || tunnel_check
	[[ ! $rps || -e $rps_file ]] ||
		die 4 "--rps: there is no $rps_file: needs CONFIG_RPS, Linux 6.4 or newer"
}

user_namespace_is_entered() {
	local inside outside count
	read -r inside outside count </proc/self/uid_map
	[[ $inside:$outside:$count != 0:0:4294967295 ]]
}

# The names of namespaces are files in /run/netns. In a user namespace /run is usually the machine's: not writable, or
# worse, if root made the user namespace, writable. A container that is a machine of its own keeps its /run.
run_directory_prepare() {
	[[ $(id -u) == 0 ]] || die 4 "needs root; without, run it inside: unshare -Urnm"
	if ! user_namespace_is_entered || grep -q ' /run .* nfq-netns ' /proc/self/mountinfo; then
		return
	fi
	if [[ -w /run && $(readlink /proc/1/ns/mnt) == "$(readlink /proc/self/ns/mnt)" ]]; then
		return
	fi
	mount -n -t tmpfs nfq-netns /run 2>/dev/null ||
		die 4 "cannot mount a /run of our own: needs CAP_SYS_ADMIN in a mount namespace (unshare -Urnm)"
}

# ---- up ----

up() {
	lock_take
	machine_check
	[[ $rule:$conntrack == no:off ]] || backend_select
	namespaces_remove
	trap namespaces_remove EXIT
	"${topology}_make"
	ip_flush
	rules_add "$backend" 4 inside "$queue_role"
	rules_add "$backend" 6 inside "$queue_role"
	wait_until 5 links_are_up || die 1 "the links have no carrier after 5 s"
	[[ ! $tunnel ]] || tunnel_open
	inside client ip link set "$(client_link)" alias "$(description_print)"
	trap - EXIT
}

# What status cannot read elsewhere.
description_print() {
	local range=
	[[ $rule == no ]] || range=$queue:$((queue + queues - 1))
	echo "topology=$topology hook=$hook backend=$backend queue_ns=$prefix-$queue_role queues=$range" \
		"fanout=$fanout bypass=$bypass gso_max=$gso_max rps=$rps conntrack=$conntrack tunnel=$tunnel"
}

# ---- down ----

# The commands started while it is held inherit it. Not a directory of /run: `ip netns` itself locks that.
lock_take() {
	exec {lock}<"${BASH_SOURCE[0]}"
	flock --wait 60 "$lock" || die 1 "another netns.sh has been at work for 60 s: end it and try again"
}

namespaces_list() {
	local role
	for role in client router server; do
		[[ ! -e /run/netns/$prefix-$role ]] || echo "$prefix-$role"
	done
}

processes_list() {
	local name
	for name in $(namespaces_list); do
		ip netns pids "$name"
	done
}

processes_are_gone() {
	[[ ! $(processes_list) ]]
}

# Namespaces live on, with their links, while a process is inside.
processes_end() {
	local signal pids
	for signal in TERM KILL; do
		mapfile -t pids < <(processes_list)
		[[ ${pids[*]} ]] || return 0
		log "[+] kill -$signal ${pids[*]}"
		kill -"$signal" "${pids[@]}" 2>/dev/null || true
		wait_until 2 processes_are_gone && return
	done
	die 1 "processes $(processes_list | xargs) do not end: $prefix cannot be removed"
}

namespaces_remove() {
	local name
	processes_end
	for name in $(namespaces_list); do
		run ip netns delete "$name"
	done
}

down() {
	lock_take
	namespaces_remove
}

# ---- status, exec ----

status() {
	local link features word rule4 rule6 nat router_ns=$prefix-router server_ns=$prefix-server
	local -A is
	link=$(nsenter --net="/run/netns/$prefix-client" -- ip -d link show 2>/dev/null) || true
	[[ $link == *" alias topology="* ]] || die 1 "$prefix is not up"
	for word in ${link##* alias }; do
		is[${word%%=*}]=${word#*=}
	done
	topology=${is[topology]}
	[[ $topology == lo ]] || link=${link#*$'\n'*: eth0@}
	features=$(status_features_print)
	rule4='0 0' rule6='0 0'
	if [[ ${is[queues]} ]]; then
		rule4=$(rule_counters_read "${is[queue_ns]}" "${is[backend]}" "${is[hook]}" 4)
		rule6=$(rule_counters_read "${is[queue_ns]}" "${is[backend]}" "${is[hook]}" 6)
	fi
	nat=$(nat_counter_read "${is[queue_ns]}" "${is[backend]}" "${is[conntrack]}")
	[[ $topology != pair ]] || router_ns=
	[[ $topology != lo ]] || router_ns='' server_ns=$prefix-client
	cat <<-END
		prefix=$prefix
		topology=${is[topology]}
		hook=${is[hook]}
		backend=${is[backend]}
		queue_ns=${is[queue_ns]}
		queues=${is[queues]}
		fanout=${is[fanout]}
		bypass=${is[bypass]}
		client_ns=$prefix-client
		router_ns=$router_ns
		server_ns=$server_ns
		server_addr4=$server4
		server_addr6=$server6
		client_addr4=$client4
		client_addr6=$client6
		mtu=$(word_after " mtu " "$link")
		tso=$(word_after "tcp-segmentation-offload: " "$features")
		gro=$(word_after "${is[tunnel]:+tunnel-}generic-receive-offload: " "$features")
		gso_max=${is[gso_max]:-$(word_after " gso_max_size " "$link")}
		rps=${is[rps]}
		conntrack=${is[conntrack]}
		conntrack_entries=$(conntrack_entries_print "${is[queue_ns]}")
		nat_packets=$nat
		tunnel=${is[tunnel]}
		rule4_packets=${rule4% *}
		rule4_bytes=${rule4#* }
		rule6_packets=${rule6% *}
		rule6_bytes=${rule6#* }
	END
}

# Of the tunnel, if there is one: what --gro is about.
status_features_print() {
	nsenter --net="/run/netns/$prefix-client" -- ethtool -k "$(client_link)"
	[[ ! ${is[tunnel]} ]] || nsenter --net="/run/netns/$prefix-server" -- ethtool -k wg0 |
		sed -n 's/generic-receive-offload/tunnel-&/p'
}

# Nothing where it cannot be read.
conntrack_entries_print() { # NAMESPACE
	nsenter --net="/run/netns/$1" -- cat /proc/sys/net/netfilter/nf_conntrack_count 2>/dev/null || true
}

word_after() { # MARK TEXT
	local rest=${2#*"$1"}
	echo "${rest%%[[:space:]]*}"
}

execute() {
	local namespace=$prefix-${arguments[0]}
	[[ -e /run/netns/$namespace ]] || die 1 "there is no namespace $namespace: netns.sh up makes it"
	exec nsenter --net="/run/netns/$namespace" -- "${arguments[@]:1}"
}

main() {
	options_parse "$@"
	tools_check ip:iproute2 ethtool:ethtool sysctl:procps flock:util-linux nsenter:util-linux unshare:util-linux
	run_directory_prepare
	case $command in
	exec) execute ;;
	*) "$command" ;;
	esac
}

main "$@"
