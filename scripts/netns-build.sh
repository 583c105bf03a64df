# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# netns-build.sh: the namespaces, links and addresses of netns.sh. To be sourced.

# shellcheck disable=SC2154 # options and addresses of netns.sh

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
	local settings=(${tso:+tso "$tso"})
	[[ ! $gro || $tunnel ]] || settings+=(gro "$gro")
	[[ ! ${settings[*]} ]] || inside "$1" ethtool -K "$2" "${settings[@]}"
}

# Of IPv6: an old kernel refuses the sizes, an old ip the words.
big_tcp_check() {
	local problem
	# shellcheck disable=SC2016
	problem=$(unshare --net sh -c 'ip link add probe type veth && ip link set dev probe "$@"' - \
		gso_max_size "$gso_max" gro_max_size "$gso_max" 2>&1) ||
		die 4 "--gso-max: needs BIG TCP (Linux 5.19 or newer) and an iproute2 that knows gro_max_size:" \
			"${problem%%$'\n'*}"
}

# Greater aggregates. IPv6 marks them by a header that makes their segments 8 bytes too long to be forwarded at equal
# MTU; IPv4 does without. A kernel before Linux 6.3 has them for IPv6 only, and ignores what it is asked for.
sizes_set() { # ROLE DEVICE
	[[ $gso_max ]] || return 0
	if [[ $topology == @(pair|lo) ]]; then
		inside "$1" ip link set dev "$2" gso_max_size "$gso_max" gro_max_size "$gso_max"
	fi
	sizes4_set "$1" "$2" 2>/dev/null && return
	log "[+] nsenter --net=/run/netns/$prefix-$1 -- $here/link-sizes $2 $gso_max"
	nsenter --net="/run/netns/$prefix-$1" -- "$here/link-sizes" "$2" "$gso_max" || exit
}

# Fails with an iproute2 before 6.3, which does not know the words.
sizes4_set() { # ROLE DEVICE
	local enter=(nsenter --net="/run/netns/$prefix-$1" --)
	"${enter[@]}" ip link set dev "$2" gso_ipv4_max_size "$gso_max" gro_ipv4_max_size "$gso_max" &&
		[[ $("${enter[@]}" ip -d link show dev "$2") == *" gro_ipv4_max_size $gso_max "* ]]
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

# What the description stands on.
client_link() {
	[[ $topology == lo ]] && echo lo || echo eth0
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
	if [[ $tunnel ]]; then
		tunnel_make
	else
		address_add router to-server "$to_server4/24" "$to_server6/64"
		address_add server eth0 "$server4/24" "$server6/64"
	fi

	neighbour_add client eth0 "$to_client4" "$to_client6" "$to_client_mac"
	neighbour_add router to-client "$client4" "$client6" "$client_mac"
	route_add client "$to_client4" "$to_client6"
	[[ ! $tunnel ]] || return 0
	neighbour_add router to-server "$server4" "$server6" "$server_mac"
	neighbour_add server eth0 "$to_server4" "$to_server6" "$to_server_mac"
	route_add server "$to_server4" "$to_server6"
}

# ---- tunnel ----

tunnel_check() {
	unshare --net ip link add type wireguard 2>/dev/null ||
		die 4 "--tunnel: cannot run here: this kernel has no WireGuard (CONFIG_WIREGUARD, module wireguard); an emulated" \
			"machine has: nfq-bench run wireguard --vm 6.12"
	type -P wg >/dev/null || die 4 "--tunnel: not installed: wg (package wireguard-tools)"
}

# Keys are for this tunnel only, and never on disk, where an older bash puts a here-string. A tunnel sends from the
# namespace in which it was made.
tunnel_make() {
	local router_key server_key
	router_key=$(wg genkey)
	server_key=$(wg genkey)
	inside router ip link add wg0 mtu "$((mtu - 80))" type wireguard
	inside server ip link add wg0 mtu "$((mtu - 80))" type wireguard
	tunnel_end_set router "$router_key" "$(wg pubkey < <(echo "$server_key"))" "$outer_server4"
	tunnel_end_set server "$server_key" "$(wg pubkey < <(echo "$router_key"))" "$outer_router4"
	ip_in router address add "$outer_router4/24" dev to-server
	ip_in server address add "$outer_server4/24" dev eth0
	ip_in router neighbour add "$outer_server4" lladdr "$server_mac" dev to-server nud permanent
	ip_in server neighbour add "$outer_router4" lladdr "$to_server_mac" dev eth0 nud permanent
	address_add router wg0 "$to_server4/24" "$to_server6/64"
	address_add server wg0 "$server4/24" "$server6/64"
	ip_in router link set wg0 up
	ip_in server link set wg0 up
	ip_in server route add default dev wg0
	ip_in server route add ::/0 dev wg0
}

tunnel_end_set() { # ROLE PRIVATE-KEY PUBLIC-KEY-OF-PEER ADDRESS-OF-PEER
	log "[+] nsenter --net=/run/netns/$prefix-$1 -- wg set wg0 ... endpoint $4:51820"
	nsenter --net="/run/netns/$prefix-$1" -- wg set wg0 listen-port 51820 private-key /dev/stdin peer "$3" \
		allowed-ips 0.0.0.0/0,::/0 endpoint "$4:51820" < <(echo "$2") || die 1 "wg set wg0 failed in $prefix-$1"
	[[ ! $gro ]] || inside "$1" ethtool -K wg0 gro "$gro"
}

# The ends agree on keys with the first packet.
tunnel_open() {
	wait_until 10 tunnel_passes || die 1 "no ping comes through the tunnel within 10 s"
}

tunnel_passes() {
	nsenter --net="/run/netns/$prefix-server" -- ping -q -c 1 -W 1 "$to_server4" >/dev/null
}

# ---- bridge, pair, lo ----

readonly bridge_sysctl=/proc/sys/net/bridge/bridge-nf-call-iptables

bridge_check() {
	unshare --net ip link add type bridge 2>/dev/null || die 4 "cannot make a bridge: needs CONFIG_BRIDGE (module bridge)"
	unshare --net test -e "$bridge_sysctl" ||
		die 4 "bridged packets do not pass the rules of IP: needs CONFIG_BRIDGE_NETFILTER (modprobe br_netfilter)"
}

# The bridge itself says nothing: no address, no IPv6, no queries for groups.
bridge_make() {
	namespace_make client
	namespace_make router
	namespace_make server
	inside router sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
	run ip link add br0 netns "$prefix-router" type bridge stp_state 0 forward_delay 0 mcast_snooping 0
	inside router sysctl -qw net.ipv6.conf.br0.disable_ipv6=1
	ip_in router link set br0 mtu "$mtu" up
	link_make client eth0 "$client_mac" router to-client "$to_client_mac"
	link_make router to-server "$to_server_mac" server eth0 "$server_mac"
	ip_in router link set to-client master br0
	ip_in router link set to-server master br0
	ends_join
}

lo_make() {
	namespace_make client
	ip_in client link set lo mtu "$mtu"
	offloads_set client lo
	sizes_set client lo
	address_add client lo "$client4/32" "$client6/128"
	address_add client lo "$server4/32" "$server6/128"
}

pair_make() {
	namespace_make client
	namespace_make server
	link_make client eth0 "$client_mac" server eth0 "$server_mac"
	ends_join
}

# In one subnet.
ends_join() {
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
