# SPDX-License-Identifier: GPL-2.0-or-later
"""A whole run: plan, measure, judge, store, show."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import progress
from .cell import cell_measure, process_is_alive, stale_namespaces_remove, work_insert
from .document import Node
from .errors import CannotRun, Failure, Refused
from .evidence import evidence_read
from .judge import judge
from .meta import Request, meta_make
from .plan import PlannedCell, plan_make
from .record import Json, cell_parse, record_make
from .render import files_render
from .scenario import Scenario
from .store import Run, json_render, jsonl_render, parent_prepare, run_make, run_name, run_store
from .summary import is_enough
from .vm import block_measure, scenario_check_vm

WORK = "nfq-bench-"
PREPARE_LIMIT_S = 300


def cpus_check(scenario: Scenario) -> None:
    """Before anything is measured: whether all CPUs that rows name are there."""
    ours = os.sched_getaffinity(0)
    for mode in scenario.modes:
        for text in (scenario.pin_of(mode), mode.rps, mode.busy):
            missing = cpus_read(text) - ours
            if missing:
                raise CannotRun(f"row \"{mode.label}\" needs CPU {min(missing)}, which this machine has not for us")


def cpus_read(text: str) -> set[int]:
    """Of "client=0,2-3,server=1", "0-1" or "1"."""
    cpus: set[int] = set()
    for word in re.findall(r"[\d-]+", text):
        first, _, last = word.partition("-")
        if first.isdecimal():
            cpus.update(range(int(first), int(last if last.isdecimal() else first) + 1))
    return cpus


def run_perform(request: Request) -> Run:
    if request.vm:
        scenario_check_vm(request.scenario)
    else:
        cpus_check(request.scenario)
    parent_prepare(request.parent)
    stale_remove()
    work = Path(tempfile.mkdtemp(prefix=f"{WORK}{os.getpid()}-"))
    cells, prepared = work / "cells", work / "prepared"
    try:
        cells.mkdir()
        prepared.mkdir()
        prepare_perform(request.scenario.prepare, prepared)
        started = utc_now()
        records = _blocks_measure(request, cells, prepared)
        blocks = len(records) // len(request.scenario.modes)
        meta = meta_make(request, cells, started, utc_now(), blocks)
        run = run_make(Node(meta, "meta.json"), [Node(record, "runs.jsonl") for record in records])
        directory = _run_store(request.parent, run, meta, records, cells)
        print(f"nfq-bench: stored in {directory}", file=sys.stderr)
        return run
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_store(parent: Path, run: Run, meta: Json, records: list[Json], raw: Path) -> Path:
    rendered, missing = files_render(run)
    if missing:
        print(f"nfq-bench: {missing}", file=sys.stderr)
    files = {"meta.json": json_render(meta), "runs.jsonl": jsonl_render(records), **rendered}
    try:
        return run_store(parent, run_name(run.meta), files, raw)
    except OSError as error:
        why = f"{parent}: cannot be stored: {error.strerror}; what would have been"
        raise Failure(f"{why}:\n\n{rendered['table.txt']}") from None


def prepare_perform(commands: tuple[str, ...], folder: Path) -> None:
    """What the rows need beyond the tools that every run needs, such as a program that is to be compiled."""
    for command in commands:
        try:
            done = subprocess.run(
                ["bash", "-euc", work_insert(command, folder)], cwd=folder, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                timeout=PREPARE_LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise CannotRun(f"cannot run here: prepare: {command}: not done after {PREPARE_LIMIT_S} s") from None
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            raise CannotRun(f"cannot run here: prepare: {command}: {last}")


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def stale_remove() -> None:
    """What runs that were killed have left: namespaces, and raw output in the directory for temporary files."""
    for prefix in stale_namespaces_remove():
        print(f"nfq-bench: removed the namespaces {prefix}-* of a run that was killed", file=sys.stderr)
    for path in Path(tempfile.gettempdir()).glob(f"{WORK}*"):
        owner = re.fullmatch(WORK + r"(\d+)-\w+", path.name)
        if owner and not process_is_alive(int(owner[1])) and path.lstat().st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)


def _blocks_measure(request: Request, cells: Path, prepared: Path) -> list[Json]:
    scenario = request.scenario
    plan = plan_make(scenario.modes, scenario.blocks, request.seed)
    shown = progress.Progress([_guess_s(scenario, planned) for planned in plan])
    records: list[Json] = []
    try:
        for planned in plan:
            shown.begin(planned)
            if request.vm and planned.position == 1:
                block = [cell for cell in plan if cell.block == planned.block]
                block_measure(request.vm, block, scenario, prepared, cells)
            record = _cell_record(request, planned, cells / planned.folder, prepared)
            records.append(record)
            shown.end(planned, cell_parse(Node(record, "runs.jsonl")))
            _hope_check(records, len(scenario.modes))
            if planned.position == len(scenario.modes) and _is_enough(request, planned.block, records):
                break
    finally:
        shown.close()
    return records


def _guess_s(scenario: Scenario, planned: PlannedCell) -> float:
    pings_s = scenario.ping_count * scenario.ping_interval_ms / 1000
    return pings_s + scenario.iperf_seconds_of(planned.mode) + progress.OVERHEAD_S


def _is_enough(request: Request, blocks: int, records: list[Json]) -> bool:
    if request.precision is None:
        return False
    cells = [cell_parse(Node(record, "runs.jsonl")) for record in records]
    return is_enough(request.scenario, cells, blocks, request.precision)


def _cell_record(request: Request, planned: PlannedCell, folder: Path, prepared: Path) -> Json:
    started, scenario = utc_now(), request.scenario
    if not request.vm:
        cell_measure(planned, scenario, prepared, folder)
    try:
        evidence = evidence_read(folder)
    except Refused as error:
        return record_make(planned, started, None, (str(error),))
    return record_make(planned, started, evidence, judge(scenario, planned.mode, evidence))


def _hope_check(records: list[Json], modes: int) -> None:
    """A first block without any evidence will not get better by repetition."""
    if len(records) == modes and all(record["host"] is None for record in records):
        reason = cell_parse(Node(records[0], "runs.jsonl")).reasons[0]
        raise Failure(f"no cell of the first block could be measured: {reason}")
