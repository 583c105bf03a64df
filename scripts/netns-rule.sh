# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# netns-rule.sh: the rules of netns.sh: the queue rule, once for IPv4 and once for IPv6, by whichever of nft,
# iptables-nft and iptables-legacy the machine supports. To be sourced.
#
# A rule in OUTPUT or INPUT matches the server's address only; in FORWARD there is nothing else to match.
#
# A rule that asks for the state of a connection, or translates addresses, makes the kernel track connections.

# shellcheck disable=SC2154 # options of netns.sh

# iptables-legacy would create /run/xtables.lock to be alone with rules that in our namespaces nobody else touches.
export XTABLES_LOCKFILE=/dev/null

rules_add() { # BACKEND FAMILY LAUNCHER...
	local server=server$2
	[[ $conntrack == off ]] || conntrack_add "$1" "${2#4}" "${@:3}" || return
	[[ $rule == no ]] || queue_add "$1" "${2#4}" "${!server}" "${@:3}"
}

# Asks for the state of every packet, before it is queued, and does nothing about it.
conntrack_add() { # BACKEND 6-OR-NOTHING LAUNCHER...
	local iptables="ip$2tables-${1#iptables-}" states=invalid,new,established,related
	if [[ $1 == nft ]]; then
		"${@:3}" nft "add table ip$2 nfq; add chain ip$2 nfq states { type filter hook $hook priority -10; };" \
			"add rule ip$2 nfq states ct state $states" || return
	else
		"${@:3}" "$iptables" -w -A "${hook^^}" -m conntrack --ctstate "${states^^}" || return
	fi
	[[ $conntrack == on ]] || nat_add "$@"
}

# Hides the client behind the router. What leaves by the link itself is the tunnel's, if there is one.
nat_add() { # BACKEND 6-OR-NOTHING LAUNCHER...
	local device=to-server
	[[ ! $tunnel ]] || device=wg0
	if [[ $1 == nft ]]; then
		"${@:3}" nft "add table ip$2 nfq; add chain ip$2 nfq nat { type nat hook postrouting priority 100; };" \
			"add rule ip$2 nfq nat oifname $device counter masquerade"
	else
		"${@:3}" "ip$2tables-${1#iptables-}" -w -t nat -A POSTROUTING -o "$device" -j MASQUERADE
	fi
}

queue_add() { # BACKEND 6-OR-NOTHING SERVER LAUNCHER...
	case $1 in
	none) ;;
	nft) queue_add_nft "${@:2}" ;;
	*) queue_add_iptables "${1#iptables-}" "${@:2}" ;;
	esac
}

queue_add_nft() { # 6-OR-NOTHING SERVER LAUNCHER...
	local match='' numbers=$queue flags=
	((queues == 1)) || numbers+=-$((queue + queues - 1))
	[[ $bypass == no ]] || flags=bypass
	[[ $fanout == hash ]] || flags+=${flags:+,}fanout
	case $hook in
	output) match="ip$1 daddr $2 " ;;
	input) match="ip$1 saddr $2 " ;;
	esac
	"${@:3}" nft "add table ip$1 nfq;" \
		"add chain ip$1 nfq packets { type filter hook $hook priority 0; };" \
		"add rule ip$1 nfq packets ${match}counter queue num $numbers${flags:+ $flags}"
}

queue_add_iptables() { # VARIANT 6-OR-NOTHING SERVER LAUNCHER...
	local match=() numbers=(--queue-num "$queue")
	((queues == 1)) || numbers=(--queue-balance "$queue:$((queue + queues - 1))")
	[[ $bypass == no ]] || numbers+=(--queue-bypass)
	[[ $fanout == hash ]] || numbers+=(--queue-cpu-fanout)
	case $hook in
	output) match=(-d "$3") ;;
	input) match=(-s "$3") ;;
	esac
	"${@:4}" "ip$2tables-$1" -w -A "${hook^^}" "${match[@]}" -j NFQUEUE "${numbers[@]}"
}

rule_try() { # BACKEND
	local version
	for version in 4 6; do
		rules_add "$1" "$version" unshare --net || return
	done
}

# Sets backend to the first that tools and kernel support, tried in scratch namespaces.
backend_select() {
	local candidate problem problems=
	for candidate in nft iptables-nft iptables-legacy; do
		if problem=$(rule_try "$candidate" 2>&1); then
			backend=$candidate
			log "netns.sh: rules by $backend${problems:+, because of$problems}"
			return
		fi
		problems+=" $candidate: ${problem%%$'\n'*};"
	done
	die 4 "cannot queue packets: needs nftables and CONFIG_NFT_QUEUE, or iptables and" \
		"CONFIG_NETFILTER_XT_TARGET_NFQUEUE;$problems"
}

# Prints "PACKETS BYTES" of our rule, of both directions together.
rule_counters_read() { # NAMESPACE BACKEND HOOK FAMILY
	local list_rule form
	case $2 in
	none) echo 0 0 && return ;;
	nft)
		list_rule=(nft list chain "ip${4#4}" nfq packets)
		form='counter packets ([0-9]+) bytes ([0-9]+)'
		;;
	*)
		list_rule=("ip${4#4}tables-${2#iptables-}" -w -nvxL "${3^^}")
		form='([0-9]+) +([0-9]+) +NFQUEUE'
		;;
	esac
	[[ $(nsenter --net="/run/netns/$1" -- "${list_rule[@]}") =~ $form ]] ||
		die 1 "$1: the queue rule for IPv$4 is gone"
	echo "${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
}

# Prints how many packets the rules that translate addresses have seen, which is the first of each connection.
nat_counter_read() { # NAMESPACE BACKEND CONNTRACK
	local version text total=0
	[[ $2:$3 == *:nat && $2 != none ]] || { echo 0 && return; }
	for version in '' 6; do
		case $2 in
		nft) text=$(nsenter --net="/run/netns/$1" -- nft list chain "ip$version" nfq nat) ;;
		*) text=$(nsenter --net="/run/netns/$1" -- "ip${version}tables-${2#iptables-}" -w -t nat -nvxL POSTROUTING) ;;
		esac
		[[ $text =~ (counter packets ([0-9]+))|(([0-9]+) +[0-9]+ +MASQUERADE) ]] ||
			die 1 "$1: the rule that translates addresses is gone"
		((total += BASH_REMATCH[2] + BASH_REMATCH[4])) || true
	done
	echo "$total"
}
