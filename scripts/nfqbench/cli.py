# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: doctor, run, report, compare, verify, list."""

import argparse
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from . import VERSION, paths, vm
from .check import scenario_check
from .controls import controls_add
from .doctor import doctor_examine, findings_render, run_is_possible
from .errors import INVALID_RESULTS, Failure, Interrupted, UsageError
from .machine import machine_describe, machine_label
from .meta import Request
from .privileges import root_become, root_ensure, sched_choose
from .processors import processors_replace
from .reports import FORMATS, compare_show, list_show, report_show, verify_show
from .run import run_perform
from .scenario import BLOCKS, Scenario, everywhere_replace, ping_option, rows_choose
from .scenarios import scenario_find
from .summary import Summary
from .table import text_render
from .vm import kernel_check

DEFAULT_SCENARIO = "gso"
QUICK = {"blocks": 3, "ping_count": 100, "ping_interval_ms": 5, "iperf_seconds": 1}
PRECISION_BLOCKS = 30  # at most, if the user does not say


def main(arguments: Sequence[str]) -> int:
    """`arguments` as in sys.argv."""
    options = _parser().parse_args(_values_join(arguments[1:]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        if sys.stdout is None:
            raise Failure("standard output is closed: there is nowhere to print to")
        status: int = options.function(options, arguments)
        sys.stdout.flush()
        return status
    except Failure as error:
        print(f"nfq-bench: {error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Failure.status
    except OSError as error:
        print(f"nfq-bench: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        return Failure.status


def _values_join(arguments: Sequence[str]) -> list[str]:
    """--iperf-args -R becomes --iperf-args=-R: argparse would take the value for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] == "--iperf-args":
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _interrupt(number: int, _: FrameType | None) -> None:
    """The way out takes a moment and must not be cut short."""
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nfq-bench",
        description="Measures what the trip of packets through NFQUEUE costs: round trip time and throughput.",
        epilog="Exit status: 0 ok, 1 failure, 2 usage, 3 results invalid, 4 cannot run here.",
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"nfq-bench {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("doctor", help="tell everything that is missing here, at once", allow_abbrev=False)
    command.set_defaults(function=_doctor)

    command = commands.add_parser("run", help="measure, store, and print a table", allow_abbrev=False)
    command.set_defaults(function=_run)
    _run_options_add(command)

    command = commands.add_parser("report", help="print tables of stored runs", allow_abbrev=False)
    command.set_defaults(function=report_show)
    command.add_argument("runs", nargs="+", metavar="DIR", type=Path, help="a run directory")
    command.add_argument("--ref", metavar="NAME", help="add percentages of a reference, or of another run directory")
    command.add_argument("--format", choices=FORMATS, default="text", help=f"{', '.join(FORMATS)}; default: text")
    command.add_argument("--write", action="store_true", help="write the files of the run directories anew")

    about = "what differs between two machines, then the rows"
    command = commands.add_parser("compare", help=about, allow_abbrev=False)
    command.set_defaults(function=compare_show)
    command.add_argument("first", metavar="A", type=Path, help="a run directory")
    command.add_argument("second", metavar="B", type=Path, help="another one")

    command = commands.add_parser("verify", help="check again what stored runs claim", allow_abbrev=False)
    command.set_defaults(function=verify_show)
    command.add_argument("runs", nargs="+", metavar="DIR", type=Path, help="a run directory")

    command = commands.add_parser("list", help="list scenarios, references and stored runs", allow_abbrev=False)
    command.set_defaults(function=list_show)
    command.add_argument("--out", metavar="DIR", type=Path, help="where the runs are; default: results/")
    return parser


def _run_options_add(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("scenario", nargs="?", default=DEFAULT_SCENARIO, metavar="SCENARIO", help="a name or a TOML file; default: gso")
    add("--blocks", type=_positive, metavar="N", help=f"every mode once a block; default: the scenario's, or {BLOCKS}")
    add("--precision", type=_percent, metavar="P", help="stop when all ratios are known to P %%; --blocks is the limit")
    add("--quick", action="store_true", help="less of everything: a first look, for gso within a minute")
    add("--seed", type=int, metavar="N", help="of the order in the blocks; default: from the clock")
    add("--rows", metavar="NAMES", help="only these rows of the scenario, separated by commas, and their baselines")
    add("--topology", metavar="T", help="router, pair, bridge or lo")
    add("--sched", metavar="S", help="inherit, other, rr:PRIO or fifo:PRIO; default: the scenario's, if permitted")
    add("--pin", metavar="LIST", help="client=CPUS,server=CPUS,daemon=CPUS")
    add("--ping", metavar="COUNT@MS", help="that many pings, one every MS milliseconds; 0 for none")
    add("--iperf", type=int, metavar="SECONDS", help="how long iperf3 runs; 0 for none")
    add("--iperf-args", metavar="ARGS", help="more arguments for iperf3's client, such as \"-P 2\"")
    add("--processor", action="append", default=[], metavar="CMD",
        help="a program in the place of nfq-noop: \"CMD {queue}\"; several are compared; \"nfq-noop\" is itself")
    add("--vm", metavar="KERNEL", help="in an emulated machine under that kernel: 6.1, 6.1-rt, 6.12, 6.12-rt")
    add("--no-controls", action="store_true", help="measure neither noise floor nor positive control")
    add("--extended", action="store_true", help="store also what identifies this machine: names, addresses, firmware")
    add("--name", metavar="LABEL", help="what the machine is called in the results; default: by its CPU")
    add("--out", metavar="DIR", type=Path, help="where to make the run directory; default: results/")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: should be a number from 1 on")
    return int(text)


def _percent(text: str) -> float:
    try:
        percent = float(text)
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise argparse.ArgumentTypeError(f"{text}: should be a percentage, such as 5")
    return percent / 100


def _doctor(_: argparse.Namespace, arguments: Sequence[str]) -> int:
    root_become(arguments)
    findings = doctor_examine(scenario_find(DEFAULT_SCENARIO))
    possible = run_is_possible(findings)
    print(findings_render(findings), end="")
    print("A run is possible." if possible else "A run is not possible before that is mended.")
    return 0 if possible else 4


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    if options.vm:
        _vm_defaults(options)
    scenario = _scenario_adjust(scenario_find(options.scenario), options)
    root_ensure(arguments)
    scenario, note = _sched_settle(scenario, asked=options.sched is not None)
    request = Request(
        scenario=scenario if options.no_controls else controls_add(scenario),
        sched_note=note,
        seed=int(time.time()) if options.seed is None else options.seed,
        host=_host_name(options.name, options.extended),
        parent=options.out or paths.results_default(),
        precision=options.precision,
        extended=options.extended,
        vm=options.vm,
    )
    cells = scenario.blocks * len(request.scenario.modes)
    most = "at most " if request.precision else ""
    print(f"nfq-bench: {scenario.name}: {most}{cells} cells, seed {request.seed}", file=sys.stderr)
    if note:
        print(f"nfq-bench: {note}", file=sys.stderr)
    run = run_perform(request)
    print(text_render(run), end="")
    return 0 if results_are_valid(run.summary) else INVALID_RESULTS


def _vm_defaults(options: argparse.Namespace) -> None:
    """Little of everything, and no controls, since nothing is concluded from times."""
    kernel_check(options.vm)
    options.no_controls = True
    options.blocks = options.blocks or vm.BLOCKS
    options.ping = options.ping or vm.PING
    options.iperf = vm.IPERF_SECONDS if options.iperf is None else options.iperf


def _sched_settle(scenario: Scenario, asked: bool) -> tuple[Scenario, str | None]:
    """Every policy that a row is to run under becomes the one that it can run under; and a note, if one differs."""
    wanted = sorted({scenario.sched_of(mode) for mode in scenario.modes if mode.queue})
    chosen = {sched: sched_choose(sched, asked=asked) for sched in wanted}
    notes = [note for _, note in chosen.values() if note]
    modes = [replace(mode, sched=chosen[mode.sched][0]) if mode.sched else mode for mode in scenario.modes]
    sched = chosen[scenario.sched][0] if scenario.sched in chosen else scenario.sched
    return replace(scenario, sched=sched, modes=tuple(modes)), " ".join(notes) or None


def results_are_valid(summary: Summary) -> bool:
    """A row whose cells are mostly invalid, or that has no valid one, is no result."""
    return all(row.valid_cells and row.valid_cells >= row.invalid_cells for row in summary.all_rows)


def _scenario_adjust(scenario: Scenario, options: argparse.Namespace) -> Scenario:
    """Puts what the command line says over what the scenario says."""
    changes = _quick_changes(scenario) if options.quick else {}
    changes.update(_given(blocks=PRECISION_BLOCKS if options.precision else None))
    changes.update(_given(blocks=options.blocks, iperf_seconds=options.iperf))
    if options.ping is not None:
        changes.update(ping_option(options.ping))
    scenario = replace(scenario, **changes)
    everywhere = _given(sched=options.sched, pin=options.pin, iperf_args=options.iperf_args)
    if options.topology:
        everywhere.update(topology=options.topology, hook="")
    scenario = everywhere_replace(scenario, everywhere)
    if options.processor:
        scenario = processors_replace(scenario, options.processor)
    if options.rows:
        scenario = rows_choose(scenario, options.rows.split(","))
    scenario_check(scenario, scenario.name)
    return scenario


def _quick_changes(scenario: Scenario) -> dict[str, Any]:
    """What the scenario does not measure is not measured quickly either. Pings that run beside iperf3 have to fit."""
    quick = {**QUICK, "iperf_seconds": 2} if scenario.together else QUICK
    return {key: value for key, value in quick.items() if getattr(scenario, key)}


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _host_name(label: str | None, extended: bool) -> str:
    if label is None:
        own = re.sub(r"[^A-Za-z0-9.-]", "-", platform.node().split(".")[0])[:40] if extended else ""
        return own or machine_label(machine_describe())
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", label):
        raise UsageError(f"--name \"{label}\": letters, digits, '.', '_' and '-', at most 40")
    return label
