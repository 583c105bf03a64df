# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tap.sh: how the test scripts tell their results, in TAP. To be sourced.

tap_count=0
tap_failed=0

diag() { # TEXT...
	printf '%s\n' "$*" | sed 's/^/# /'
}

pass() { # NAME
	echo "ok $((++tap_count)) - $1"
}

fail() { # NAME EXPLANATION...
	echo "not ok $((++tap_count)) - $1"
	tap_failed=1
	diag "${@:2}"
}

# The command may be a function, which then fails with the first command in it that fails: as a condition it would run on.
ok() { # NAME COMMAND...
	local output status
	set +e
	output=$(set -e && "${@:2}" 2>&1)
	status=$?
	set -e
	if ((status == 0)); then
		pass "$1"
	else
		fail "$1" "exit status $status of: ${*:2}"$'\n'"$output"
	fi
}

is() { # NAME GOT EXPECTED
	if [[ $2 == "$3" ]]; then
		pass "$1"
	else
		fail "$1" "got:      $2"$'\n'"expected: $3"
	fi
}

like() { # NAME GOT REGULAR-EXPRESSION
	if [[ $2 =~ $3 ]]; then
		pass "$1"
	else
		fail "$1" "got:           $2"$'\n'"does not match $3"
	fi
}

skip() { # NAME REASON
	echo "ok $((++tap_count)) - $1 # SKIP $2"
}

skip_all() { # REASON
	echo "1..0 # SKIP $1"
	exit 0
}

# The last line of a script, whose exit status it is.
done_testing() {
	echo "1..$tap_count"
	return "$tap_failed"
}
