# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# cell-processor.sh: the processor of cell.sh, nfq-noop or any other program: started, watched, asked, ended. To be
# sourced.

# shellcheck disable=SC2154 # options of cell.sh, and what netns.sh tells it

# Prints a command line for the shell, which `exec`s it.
processor_command() {
	local noop
	if [[ $processor ]]; then
		foreign_command
		return
	fi
	noop=$(program_find NFQ_NOOP nfq-noop) ||
		cell_fail "no nfq-noop in NFQ_NOOP, in $(dirname "$here") or in PATH: build it with make"
	printf '%q --queue %s --json=%q %s\n' "$noop" "$(queue_range)" "$out/processor.json" "$noop_args"
}

# By a variable of the environment, beside the scripts, or in PATH.
program_find() { # VARIABLE NAME
	type -P "${!1:-$here/../$2}" || type -P "$2"
}

foreign_command() {
	local command=${processor//\{queue\}/$queue}
	echo "${command//\{last_queue\}/$last_queue}"
}

queue_range() {
	((queues == 1)) && echo "$queue" || echo "$queue:$last_queue"
}

processor_start() {
	local command schedule=()
	command=$(processor_command)
	case $sched in
	other) schedule=(chrt -o 0) ;;
	rr:*) schedule=(chrt -r "${sched#rr:}") ;;
	fifo:*) schedule=(chrt -f "${sched#fifo:}") ;;
	esac
	enter_set "${net[queue_ns]}" daemon
	"${enter[@]}" "${schedule[@]}" bash -c "exec $command" \
		>"$out/processor.out" 2>"$out/processor.err" </dev/null &
	processor_pid=$!
	wait_until "$ready" processor_is_ready_or_gone ||
		cell_fail "the processor has not bound queue $(queue_range) after $ready s"
	processor_is_alive || processor_fail "before it was ready"
}

processor_is_alive() {
	kill -0 "$processor_pid" 2>/dev/null
}

processor_is_ready_or_gone() {
	processor_is_alive || return 0
	if [[ $processor ]]; then
		queues_read | awk -v queues="$queues" '$4 > 0 { ready++ } END { exit ready != queues }'
	else
		grep -qs '^ready' "$out/processor.err"
	fi
}

processor_fail() { # WHEN
	processor_status_write
	cell_fail "the processor ended with status $(<"$out/processor.status") $1: $(tail -n 1 "$out/processor.err")"
}

processor_status_write() {
	local code=0
	wait "$processor_pid" || code=$?
	echo "$code" >"$out/processor.status"
}

processor_stop() {
	kill -TERM "$processor_pid" 2>/dev/null || true
	wait_until 5 processor_is_gone || kill -KILL "$processor_pid"
	processor_status_write
}

processor_is_gone() {
	! processor_is_alive
}

# Has nfq-noop append a line of its counters.
processor_report() {
	local lines
	[[ $processor_pid && ! $processor ]] || return 0
	lines=$(wc -l 2>/dev/null <"$out/processor.json" || echo 0)
	kill -USR1 "$processor_pid"
	wait_until 5 processor_has_reported "$lines" || cell_fail "nfq-noop wrote no line of JSON within 5 s of SIGUSR1"
}

processor_has_reported() { # LINES-BEFORE
	[[ -e $out/processor.json ]] && (($(wc -l <"$out/processor.json") > $1))
}

# Fields 40 and 41 of the stat file, counted after the command, which may hold spaces and parentheses.
processor_sched_write() {
	local stat line fields policies=(other fifo rr batch iso idle deadline ext)
	[[ $processor_pid ]] || return 0
	for stat in /proc/"$processor_pid"/task/*/stat; do
		read -r line 2>/dev/null <"$stat" || continue # it has just ended
		read -ra fields <<<"${line##*) }"
		line=${line#*(}
		echo "$(basename "$(dirname "$stat")") ${policies[fields[38]]} ${fields[37]} ${line%)*}"
	done >"$out/sched.txt"
}
