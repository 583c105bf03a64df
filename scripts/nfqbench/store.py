# SPDX-License-Identifier: GPL-2.0-or-later
"""Run directories: written to a hidden directory that is renamed when complete, never over another one."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import SCHEMA
from .document import Node, document_parse, documents_parse, file_parse
from .errors import Failure, Refused
from .record import Cell, Json, cell_parse
from .summary import Plan, Summary, summary_make


@dataclass(frozen=True)
class Run:
    """A stored run; the summary is made anew from its cells."""

    meta: Node
    cells: tuple[Cell, ...]
    summary: Summary


def run_make(meta: Node, records: Sequence[Node]) -> Run:
    if meta["schema"].integer() != SCHEMA:
        raise meta.refuse(f"schema {meta['schema'].integer()} is not understood, only {SCHEMA}")
    scenario = meta["scenario"]
    baseline = scenario["baseline"].text()
    plans = [_plan_parse(mode, baseline) for mode in scenario["modes"]]
    compare = [_pair_parse(pair) for pair in scenario.get("compare") or ()]
    _names_check(scenario, plans, compare)
    directions = 2 if scenario["topology"].text() == "router" else 1
    cells = tuple(cell_parse(record) for record in records)
    return Run(meta, cells, summary_make(plans, baseline, compare, directions, cells))


def _plan_parse(mode: Node, baseline: str) -> Plan:
    own = mode.get("baseline")
    return Plan(mode["name"].text(), mode["label"].text(), mode["queue"].boolean(), own.text() if own else baseline)


def _pair_parse(node: Node) -> tuple[str, str]:
    first, second = (name.text() for name in node)
    return first, second


def _names_check(scenario: Node, plans: Sequence[Plan], compare: Sequence[tuple[str, str]]) -> None:
    known = {plan.mode for plan in plans}
    named = {plan.baseline for plan in plans} | {name for pair in compare for name in pair}
    if not named <= known:
        raise scenario.refuse(f"names rows that are not there: {', '.join(sorted(named - known))}")


def run_load(directory: Path) -> Run:
    if not directory.is_dir():
        raise Failure(f"{directory}: no such run directory; `nfq-bench list` shows those that there are")
    try:
        meta = file_parse(directory, "meta.json", document_parse)
        run = run_make(meta, file_parse(directory, "runs.jsonl", documents_parse))
        _cells_check(run)
        return run
    except Refused as error:
        raise Failure(f"{directory}: not a run that can be read: {error}") from None


def _cells_check(run: Run) -> None:
    """Each block holds every mode once: a line too many or too few would change the statistics unseen."""
    modes = [mode["name"].text() for mode in run.meta["scenario"]["modes"]]
    expected = [(block, mode) for block in range(1, run.meta["blocks"].count() + 1) for mode in modes]
    if sorted((cell.block, cell.mode) for cell in run.cells) != sorted(expected):
        raise Refused("runs.jsonl: does not hold each mode once in each of the blocks that meta.json tells")


def run_name(meta: Node) -> str:
    """<UTC>-<host>-<scenario>; 2026-01-31T12:34:56Z becomes 20260131T123456Z."""
    utc = meta["started"].text().replace("-", "").replace(":", "")
    return f"{utc}-{meta['host'].text()}-{meta['scenario']['name'].text()}"


def parent_prepare(parent: Path) -> None:
    """To be called before anything is measured."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        why = f"results cannot be stored there: {error.strerror}; choose another place with --out"
        raise Failure(f"{parent}: {why}") from None


def run_store(parent: Path, name: str, files: Mapping[str, str], raw: Path) -> Path:
    """Writes `files` and copies the raw folder; returns the directory, which is there completely or not at all."""
    hidden = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
    try:
        hidden.chmod(0o755)
        for file, text in files.items():
            (hidden / file).write_text(text, encoding="utf-8")
        shutil.copytree(raw, hidden / "raw")
        (hidden / "raw").chmod(0o755)  # mkdtemp is for its owner only
        return _rename_new(hidden, parent, name)
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise


def _rename_new(hidden: Path, parent: Path, name: str) -> Path:
    """rename(2) replaces nothing but an empty directory, so an existing run makes it fail: the next name is tried."""
    for number in range(1, 1000):
        target = parent / (name if number == 1 else f"{name}-{number}")
        try:
            os.rename(hidden, target)
            return target
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
    raise Failure(f"{parent}/{name}: 999 runs of this name are there already")


def json_render(value: Json) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def jsonl_render(records: Sequence[Json]) -> str:
    return "".join(json.dumps(record, allow_nan=False) + "\n" for record in records)
