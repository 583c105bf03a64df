# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# lib.sh: what the tests of this directory have in common. To be sourced first.
#
# Theory of operation
#
#   A test runs in a network, mount and process namespace of its own, and if it is not root in a user namespace too. It
#   can neither meet another test nor leave anything behind, and what it sees is the whole machine: each process, link,
#   mount and network namespace there is belongs to the test, and so shows if a script forgot it.
#
#   Files go to $tmp, which lies in that mount namespace and goes with it.
set -euo pipefail
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export NFQ_NOOP=${NFQ_NOOP:-$top/nfq-noop}
readonly top prefix=test tmp=/run/test
# shellcheck disable=SC2034 # for the tests
readonly netns=$top/scripts/netns.sh cell=$top/scripts/cell.sh

# shellcheck source-path=SCRIPTDIR source=../tap.sh
source "$top/tests/tap.sh"

not() { # COMMAND...
	! "$@"
}

# Arithmetic on numbers; anything else fails too.
holds() { # NAME EXPRESSION
	if [[ ! $2 =~ [[:alpha:]] ]] && (($2)); then
		pass "$1"
	else
		fail "$1" "false: $2"
	fi
}

# For what the rest of the test needs.
bail() { # REASON
	fail "the test can go on" "$*"
	exit 1
}

# ---- the machine ----

# The outer bash is the first process of the process namespace, so that the test is an ordinary one.
machine_enter() { # ARGUMENTS-OF-THE-TEST...
	local isolate=(unshare --mount --net --pid --fork --kill-child --mount-proc)
	[[ $(id -u) == 0 ]] || isolate+=(--user --map-root-user)
	if [[ ! ${NFQ_TEST_ISOLATED:-} ]]; then
		"${isolate[@]}" true 2>/dev/null ||
			skip_all "no namespaces: needs root, or a kernel and a container that permit user namespaces"
		NFQ_TEST_ISOLATED=yes exec "${isolate[@]}" bash -c '"$@"; exit $?' - "$0" "$@"
	fi
	unset NFQ_TEST_ISOLATED
	mount -t tmpfs tmpfs /run
	mkdir "$tmp"
	ip link set lo up
	[[ -x $NFQ_NOOP ]] || bail "$NFQ_NOOP is not there: build it with make"
}

root_is_real() {
	[[ $(</proc/self/uid_map) =~ ^\ *0\ +0\ +4294967295$ ]]
}

realtime_is_permitted() {
	chrt -r 1 true 2>/dev/null
}

wait_until() { # SECONDS CONDITION...
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS <= deadline)) || return 1
		sleep 0.02
	done
}

# All that could be left behind: names of network namespaces, links, mounts, rules, files in /run, processes.
machine_print() {
	local process command
	find /run -mindepth 1 -not -path "$tmp*" -not -path /run/netns -printf '%p\n' | sort
	# Under our /run lies that of the machine, where others come and go; ours show among the files.
	awk '$5 !~ "^/run/netns" { print "mount", $5 }' /proc/self/mountinfo
	ip -oneline link | awk '{ print "link", $2 }'
	nft list ruleset 2>/dev/null || true
	for process in /proc/[0-9]*; do
		command=$(tr '\0' ' ' 2>/dev/null <"$process/cmdline") || continue
		[[ ! $command || $command == *"$0"* ]] || echo "process $command"
	done
}

machine_is_as_before() {
	[[ $(machine_print) == "$machine_before" ]]
}

machine_remember() {
	machine_before=$(machine_print)
}

# Processes that were killed take a moment to vanish.
is_as_before() { # NAME
	if wait_until 3 machine_is_as_before; then
		pass "$1"
	else
		fail "$1" "$(diff <(echo "$machine_before") <(machine_print) | sed -n 's/^</gone:/p; s/^>/left:/p')"
	fi
}

# ---- the topology ----

net_up() { # OPTIONS-OF-NETNS...
	"$netns" up --quiet --prefix "$prefix" "$@" || bail "netns.sh up $* failed"
	net_read
}

net_read() {
	local key value
	declare -gA net=()
	while IFS='=' read -r key value; do
		net[$key]=$value
	done < <("$netns" status --prefix "$prefix")
}

net_value() { # KEY
	net_read
	echo "${net[$1]:-}"
}

# in_namespace "${net[queue_ns]}" ...: for what is put into the background, whose pid must be the program's.
in_namespace() { # NAMESPACE COMMAND...
	nsenter --net="/run/netns/$1" -- "${@:2}"
}

in_client() { # COMMAND...
	in_namespace "$prefix-client" "$@"
}

in_server() { # COMMAND...
	in_namespace "$prefix-server" "$@"
}

in_queue() { # COMMAND...
	in_namespace "${net[queue_ns]}" "$@"
}

# Pings the server; quiet, quick and bounded.
ping_server() { # FAMILY OPTIONS...
	in_client timeout 30 ping -"$1" -n -q -W 1 "${@:2}" "${net[server_addr$1]}"
}

# Prints how many of so many pings came back.
pings_count() { # FAMILY COUNT OPTIONS...
	{ ping_server "$1" -c "$2" -i 0.01 -W 0.5 "${@:3}" || true; } | sed -n 's/.* \([0-9]*\) received.*/\1/p'
}

# Prints a field of the kernel's line of the queue; nothing if it is not bound.
queue_value() { # portid|waiting|copy_mode|copy_range|dropped|user_dropped|id_sequence [QUEUE]
	local -A fields=([portid]=1 [waiting]=2 [copy_mode]=3 [copy_range]=4)
	fields+=([dropped]=5 [user_dropped]=6 [id_sequence]=7)
	local line
	while read -ra line; do
		[[ ${line[0]} != "${2:-0}" ]] || echo "${line[fields[$1]]}"
	done < <(in_queue cat /proc/net/netfilter/nfnetlink_queue)
}

queue_is_at_rest() { # QUEUE
	local before=$queue_last
	queue_last=$(queue_value id_sequence "$1")
	[[ $queue_last == "$before" && $(queue_value waiting "$1") == 0 ]]
}

queue_await_rest() { # [QUEUE]
	local queue=${1:-0}
	queue_last=
	wait_until 5 queue_is_at_rest "$queue" ||
		fail "queue $queue comes to rest" "waiting: $(queue_value waiting "$queue")"
}

# ---- the daemon ----

# Starts nfq-noop in the queueing namespace, with words before it if `noop_before` is set, and waits until it is ready. A
# system call that it does not list itself kills it.
noop_before=()
noop_pid=

noop_start() { # OPTIONS...
	rm -f "$tmp"/noop.{json,out,err} # what the one before wrote must not be taken for this one's
	nsenter --net="/run/netns/${net[queue_ns]}" -- "${noop_before[@]}" "$NFQ_NOOP" --json="$tmp/noop.json" \
		--sandbox kill "$@" >"$tmp/noop.out" 2>"$tmp/noop.err" </dev/null &
	noop_pid=$!
	wait_until 10 noop_is_ready || bail "nfq-noop $* is not ready: $(<"$tmp/noop.err")"
}

noop_is_ready() {
	grep -qs '^ready' "$tmp/noop.err"
}

noop_is_gone() {
	! kill -0 "$noop_pid" 2>/dev/null
}

# Has it become itself anew, with the binary that is there by now.
noop_restart() {
	local before
	before=$(noop_ready_lines)
	kill -HUP "$noop_pid"
	wait_until 10 noop_is_ready_again "$before" || fail "SIGHUP: it is ready again" "$(<"$tmp/noop.err")"
}

noop_ready_lines() {
	grep -cs '^ready' "$tmp/noop.err" || true
}

noop_is_ready_again() { # LINES-BEFORE
	(($(noop_ready_lines) > $1))
}

# Whatever a test is about: every packet has to be accounted for.
noop_stop() {
	local residue
	kill -TERM "$noop_pid" 2>/dev/null || true
	noop_await_end
	[[ -s $tmp/noop.json ]] || return 0
	residue=$(json_value residue)
	[[ $residue == 0 || $residue == null || ! $residue ]] ||
		fail "the account of every packet balances" "residue $residue: $(grep queued "$tmp/noop.err")"
}

# Sets noop_status.
# shellcheck disable=SC2034
noop_await_end() {
	noop_status=0
	wait_until 10 noop_is_gone || kill -KILL "$noop_pid"
	wait "$noop_pid" || noop_status=$?
}

# Runs nfq-noop where it is expected to fail; sets noop_status and noop_error.
# shellcheck disable=SC2034
noop_fail() { # OPTIONS...
	noop_status=0
	noop_error=$(in_queue timeout 10 "${noop_before[@]}" "$NFQ_NOOP" "$@" 2>&1 </dev/null) || noop_status=$?
}

# Prints a member of the last JSON object; of a counter its total, which comes last.
json_value() { # KEY
	local line
	line=$(tail -n 1 "$tmp/noop.json")
	[[ $line == *"\"$1\":"* ]] || return 0
	line=${line##*"\"$1\":"}
	line=${line%%[,\}]*}
	echo "${line//\"/}"
}

json_lines() {
	[[ ! -e $tmp/noop.json ]] || wc -l <"$tmp/noop.json"
}

machine_enter "$@"
