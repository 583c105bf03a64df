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
#   pair:
#     PREFIX-client                                                       PREFIX-server
#     +---------------------+                                              +----------+
#     | OUTPUT/INPUT   eth0 |----------------------------------------------| eth0     |
#     +------v--------------+                                              +----------+
#         NFQUEUE, what goes to (or comes from) the server
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

readonly usage="usage: netns.sh up [--prefix P] [--topology router|pair] [--hook forward|output|input]
                   [--queue FIRST] [--queues N] [--fanout hash|cpu] [--bypass] [--no-rule] [--mtu BYTES]
                   [--tso on|off] [--gro on|off] [--gso-max BYTES] [--rps [ROLE=]CPU,...] [-q]
       netns.sh down [--prefix P] [-q]
       netns.sh status [--prefix P]
       netns.sh exec [--prefix P] client|router|server COMMAND...

  --fanout hash   several queues: all packets between two hosts go to one queue; in IPv4 to one for each protocol
  --fanout cpu    several queues: the CPU that works on a packet chooses, FIRST plus its number modulo N
  --gso-max       TCP over IPv6 may use packets up to BYTES, beyond 64 KiB (BIG TCP); pair only
  --rps CPU       all packets that a link receives are worked on by this CPU, as if they came from a network card that
                  interrupts it; ROLE=CPU,... for the links of client, router or server only"

readonly client4=10.0.1.1 client6=2001:db8:0:1::1 client_mac=02:00:00:00:01:01
readonly server4=10.0.2.1 server6=2001:db8:0:2::1 server_mac=02:00:00:00:02:01
readonly to_client4=10.0.1.254 to_client6=2001:db8:0:1::fe to_client_mac=02:00:00:00:01:fe
readonly to_server4=10.0.2.254 to_server6=2001:db8:0:2::fe to_server_mac=02:00:00:00:02:fe

# Options with a value: a variable for each, and the form of the value.
prefix=nfq topology=router hook='' queue=0 queues=1 fanout=hash mtu=1500 tso='' gro='' gso_max='' rps=''
readonly -A forms=(
	[prefix]='[a-z0-9][a-z0-9-]{0,31}'
	[topology]='router|pair'
	[hook]='forward|output|input'
	[queue]='0|[1-9][0-9]{0,4}'
	[queues]='[1-9][0-9]{0,4}'
	[fanout]='hash|cpu'
	[mtu]='[1-9][0-9]{3,4}'
	[tso]='on|off'
	[gro]='on|off'
	[gso_max]='[1-9][0-9]{4,5}'
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
	router: | router:forward) hook=forward queue_role=router ;;
	pair: | pair:output) hook=output queue_role=client ;;
	pair:input) queue_role=client ;;
	*) die 2 "--hook $hook: a router queues in forward, a pair in output or input" ;;
	esac
	((queue + queues <= 65536)) || die 2 "--queue $queue --queues $queues: beyond queue 65535"
	[[ $fanout == hash ]] || ((queues > 1)) || die 2 "--fanout cpu: needs several queues (--queues 2 or more)"
	((mtu >= 1280 && mtu <= 65535)) || die 2 "--mtu $mtu: IPv6 needs 1280, veth takes 65535 at most"
	[[ ! $gso_max ]] || gso_max_check
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
		[[ $topology:$word != pair:router=* ]] || die 2 "--rps $rps: a pair has no router"
	done
}

gso_max_check() {
	((gso_max >= 65536 && gso_max <= 524280)) || die 2 "--gso-max $gso_max: 65536 to 524280 bytes"
	[[ $topology == pair ]] ||
		die 2 "--gso-max: the kernel cannot forward IPv6 packets over 64 KiB at equal MTU (the jumbo header makes" \
			"their segments 8 bytes too long): use --topology pair"
}

# ---- what the machine permits ----

machine_check() {
	unshare --net true 2>/dev/null ||
		die 4 "may not make network namespaces: needs CAP_SYS_ADMIN (in a container too) and CONFIG_NET_NS"
	unshare --net ip link add type veth 2>/dev/null ||
		die 4 "cannot make veth links: needs CAP_NET_ADMIN and CONFIG_VETH (module veth)"
	[[ -d /proc/sys/net/ipv6 ]] || die 4 "no IPv6 in this kernel: needs CONFIG_IPV6, and not ipv6.disable=1"
	[[ ! $gso_max ]] || big_tcp_check
	[[ ! $rps || -e $rps_file ]] ||
		die 4 "--rps: there is no $rps_file: needs CONFIG_RPS, Linux 6.4 or newer"
}

# An old kernel refuses the sizes, an old ip the words.
big_tcp_check() {
	local problem
	# shellcheck disable=SC2016
	problem=$(unshare --net sh -c 'ip link add probe type veth && ip link set dev probe "$@"' - \
		gso_max_size "$gso_max" gro_max_size "$gso_max" 2>&1) ||
		die 4 "--gso-max: needs BIG TCP (Linux 5.19 or newer) and an iproute2 that knows gro_max_size:" \
			"${problem%%$'\n'*}"
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

inside() { # ROLE COMMAND...
	run nsenter --net="/run/netns/$prefix-$1" -- "${@:2}"
}

# Has ip_flush run it: one process for each command would take a third of the time that a cell is set up in.
ip_in() { # ROLE ARGUMENTS-OF-IP...
	log "[+] nsenter --net=/run/netns/$prefix-$1 -- ip ${*:2}"
	ip_commands[$1]+="${*:2}"$'\n'
}

# ip ends with "Command failed -:LINE".
ip_flush() {
	local role problem failed
	for role in "${!ip_commands[@]}"; do
		problem=$(nsenter --net="/run/netns/$prefix-$role" -- ip -batch - <<<"${ip_commands[$role]}" 2>&1) || {
			failed=$(sed -n "${problem##*:}p" <<<"${ip_commands[$role]}")
			die 1 "this failed: ip $failed (in $prefix-$role): ${problem%%$'\n'*}"
		}
	done
	ip_commands=()
}

# Writing all.disable_ipv6 undoes what a distribution may have set as the default; addr_gen_mode 1 is "none".
namespace_make() { # ROLE
	local groups="0 2147483647"
	! user_namespace_is_entered || groups="0 0"
	run ip netns add "$prefix-$1"
	inside "$1" sysctl -qw net.ipv4.ping_group_range="$groups" net.ipv6.conf.all.disable_ipv6=0 \
		net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.addr_gen_mode=1
	[[ ! ${steering[$1]:-} ]] || receive_steer "$1" "${steering[$1]}"
	ip_in "$1" link set lo up
}

receive_steer() { # ROLE CPU
	local mask
	mask=$(cpu_mask_print "$2")
	inside "$1" sysctl -qw net.core.rps_default_mask="$mask"
	[[ $(nsenter --net="/run/netns/$prefix-$1" -- cat "$rps_file") =~ ^[0,]*$mask$ ]] ||
		die 1 "--rps $rps: the kernel does not steer packets to CPU $2"
}

# In hexadecimal, commas between groups of 32 CPUs.
cpu_mask_print() { # CPU
	local group
	printf %x $((1 << $1 % 32))
	for ((group = 0; group < $1 / 32; group++)); do
		printf ,00000000
	done
}

link_make() { # ROLE DEVICE MAC ROLE DEVICE MAC
	run ip link add "$2" address "$3" mtu "$mtu" netns "$prefix-$1" type veth \
		peer name "$5" address "$6" mtu "$mtu" netns "$prefix-$4"
	offloads_set "$1" "$2"
	offloads_set "$4" "$5"
	sizes_set "$1" "$2"
	sizes_set "$4" "$5"
	ip_in "$1" link set "$2" up
	ip_in "$4" link set "$5" up
}

offloads_set() { # ROLE DEVICE
	local settings=(${tso:+tso "$tso"} ${gro:+gro "$gro"})
	[[ ! ${settings[*]} ]] || inside "$1" ethtool -K "$2" "${settings[@]}"
}

sizes_set() { # ROLE DEVICE
	[[ ! $gso_max ]] || ip_in "$1" link set dev "$2" gso_max_size "$gso_max" gro_max_size "$gso_max"
}

address_add() { # ROLE DEVICE ADDRESS4/LENGTH ADDRESS6/LENGTH
	ip_in "$1" address add "$3" dev "$2"
	ip_in "$1" address add "$4" dev "$2" nodad
}

neighbour_add() { # ROLE DEVICE ADDRESS4 ADDRESS6 MAC
	ip_in "$1" neighbour add "$3" lladdr "$5" dev "$2" nud permanent
	ip_in "$1" neighbour add "$4" lladdr "$5" dev "$2" nud permanent
}

route_add() { # ROLE GATEWAY4 GATEWAY6
	ip_in "$1" route add default via "$2"
	ip_in "$1" route add default via "$3"
}

router_make() {
	namespace_make client
	namespace_make router
	namespace_make server
	inside router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	link_make client eth0 "$client_mac" router to-client "$to_client_mac"
	link_make router to-server "$to_server_mac" server eth0 "$server_mac"

	address_add client eth0 "$client4/24" "$client6/64"
	address_add router to-client "$to_client4/24" "$to_client6/64"
	address_add router to-server "$to_server4/24" "$to_server6/64"
	address_add server eth0 "$server4/24" "$server6/64"

	neighbour_add client eth0 "$to_client4" "$to_client6" "$to_client_mac"
	neighbour_add router to-client "$client4" "$client6" "$client_mac"
	neighbour_add router to-server "$server4" "$server6" "$server_mac"
	neighbour_add server eth0 "$to_server4" "$to_server6" "$to_server_mac"

	route_add client "$to_client4" "$to_client6"
	route_add server "$to_server4" "$to_server6"
}

pair_make() {
	namespace_make client
	namespace_make server
	link_make client eth0 "$client_mac" server eth0 "$server_mac"
	address_add client eth0 "$client4/16" "$client6/48"
	address_add server eth0 "$server4/16" "$server6/48"
	neighbour_add client eth0 "$server4" "$server6" "$server_mac"
	neighbour_add server eth0 "$client4" "$client6" "$client_mac"
}

# Until the kernel has noticed the carrier, a link drops what is sent.
links_are_up() {
	local name
	for name in $(namespaces_list); do
		[[ ! $(nsenter --net="/run/netns/$name" -- ip -brief link show type veth | sed '/ UP /d') ]] || return 1
	done
}

up() {
	lock_take
	machine_check
	[[ $rule == no ]] || backend_select
	namespaces_remove
	trap namespaces_remove EXIT
	"${topology}_make"
	ip_flush
	if [[ $rule == yes ]]; then
		rule_add "$backend" 4 inside "$queue_role"
		rule_add "$backend" 6 inside "$queue_role"
	fi
	wait_until 5 links_are_up || die 1 "the links have no carrier after 5 s"
	inside client ip link set eth0 alias "$(description_print)"
	trap - EXIT
}

# What status cannot read elsewhere.
description_print() {
	local range=
	[[ $rule == no ]] || range=$queue:$((queue + queues - 1))
	echo "topology=$topology hook=$hook backend=$backend queue_ns=$prefix-$queue_role queues=$range" \
		"fanout=$fanout bypass=$bypass rps=$rps"
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
	local link features word rule4 rule6 router_ns=
	local -A is
	link=$(nsenter --net="/run/netns/$prefix-client" -- ip -d link show dev eth0 2>/dev/null) || true
	[[ $link == *" alias topology="* ]] || die 1 "$prefix is not up"
	for word in ${link##* alias }; do
		is[${word%%=*}]=${word#*=}
	done
	features=$(nsenter --net="/run/netns/$prefix-client" -- ethtool -k eth0)
	rule4=$(rule_counters_read "${is[queue_ns]}" "${is[backend]}" "${is[hook]}" 4)
	rule6=$(rule_counters_read "${is[queue_ns]}" "${is[backend]}" "${is[hook]}" 6)
	[[ ${is[topology]} == pair ]] || router_ns=$prefix-router
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
		server_ns=$prefix-server
		server_addr4=$server4
		server_addr6=$server6
		client_addr4=$client4
		client_addr6=$client6
		mtu=$(word_after " mtu " "$link")
		tso=$(word_after "tcp-segmentation-offload: " "$features")
		gro=$(word_after "generic-receive-offload: " "$features")
		gso_max=$(word_after " gso_max_size " "$link")
		rps=${is[rps]}
		rule4_packets=${rule4% *}
		rule4_bytes=${rule4#* }
		rule6_packets=${rule6% *}
		rule6_bytes=${rule6#* }
	END
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
