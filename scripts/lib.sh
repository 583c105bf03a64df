# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# lib.sh: what netns.sh and cell.sh have in common. To be sourced.

export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # not in the PATH of ordinary users everywhere

die() { # STATUS MESSAGE...
	echo "${0##*/}: ${*:2}" >&2
	exit "$1"
}

# Asks the condition every 20 ms until it holds; fails if it does not within that time.
wait_until() { # SECONDS CONDITION...
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS <= deadline)) || return 1
		sleep 0.02
	done
}

tools_check() { # PROGRAM:PACKAGE...
	local tool missing=()
	for tool; do
		type -P "${tool%:*}" >/dev/null || missing+=("${tool%:*} (package ${tool#*:})")
	done
	[[ ! ${missing[*]} ]] || die 4 "not installed: ${missing[*]}"
}

form_check() { # WHAT VALUE FORM
	[[ $2 =~ ^($3)$ ]] || die 2 "$1: '$2' is not of the form $3"
}

# --some-name VALUE sets the variable some_name. The caller's array `forms` has the forms of the values by that name.
option_set() { # OPTION [VALUE]
	local name=${1#--}
	name=${name//-/_}
	[[ $1 == --* && ${name:+${forms[$name]:-}} ]] || die 2 "$1: no such option here (--help lists them)"
	[[ $# == 2 ]] || die 2 "$1: needs a value"
	form_check "$1" "$2" "${forms[$name]}"
	printf -v "$name" %s "$2"
}
