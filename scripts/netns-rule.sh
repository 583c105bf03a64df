# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# netns-rule.sh: the queue rule of netns.sh, once for IPv4 and once for IPv6, by whichever of nft, iptables-nft and
# iptables-legacy the machine supports. To be sourced.
#
# A rule in OUTPUT or INPUT matches the server's address only; in FORWARD there is nothing else to match.

# shellcheck disable=SC2154 # queue, queues, fanout, hook and bypass are options of netns.sh

# iptables-legacy would create /run/xtables.lock to be alone with rules that in our namespaces nobody else touches.
export XTABLES_LOCKFILE=/dev/null

rule_add() { # BACKEND FAMILY LAUNCHER...
	local server=server$2
	case $1 in
	nft) rule_add_nft "${2#4}" "${!server}" "${@:3}" ;;
	*) rule_add_iptables "${1#iptables-}" "${2#4}" "${!server}" "${@:3}" ;;
	esac
}

rule_add_nft() { # 6-OR-NOTHING SERVER LAUNCHER...
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

rule_add_iptables() { # VARIANT 6-OR-NOTHING SERVER LAUNCHER...
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
	rule_add "$1" 4 unshare --net && rule_add "$1" 6 unshare --net
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
