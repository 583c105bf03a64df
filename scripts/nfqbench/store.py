# SPDX-License-Identifier: GPL-2.0-or-later
"""Run directories: written to a hidden directory that is renamed when complete, never over another one.

meta.json and runs.jsonl are the run; all other files follow from these two, by render.py.
"""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import SCHEMA
from .check import scenario_check
from .document import Node, document_parse, documents_parse, file_parse, value_read
from .errors import Failure, Refused, UsageError
from .record import Cell, Json, cell_parse
from .scenario import AGAIN, CONTROL, Scenario
from .summary import Summary, summary_make, summary_mute


@dataclass(frozen=True)
class Run:
    """A stored run; the summary is made anew from its cells."""

    meta: Node
    scenario: Scenario
    records: tuple[Node, ...]  # the lines of runs.jsonl
    cells: tuple[Cell, ...]
    summary: Summary


def run_make(meta: Node, records: Sequence[Node]) -> Run:
    if meta["schema"].integer() != SCHEMA:
        raise meta.refuse(f"schema {meta['schema'].integer()} is not understood, only {SCHEMA}")
    scenario: Scenario = value_read(meta["scenario"], Scenario)
    _scenario_check(meta["scenario"], scenario)
    cells = tuple(cell_parse(record) for record in records)
    strange = {cell.mode for cell in cells} - {mode.name for mode in scenario.modes}
    if strange:
        raise meta.refuse(f"does not tell of the rows {', '.join(sorted(strange))}")
    summary = summary_make(scenario, cells)
    return Run(meta, scenario, tuple(records), cells, summary_mute(summary) if _is_emulated(meta) else summary)


def _is_emulated(meta: Node) -> bool:
    emulated = meta.get("emulated")
    return emulated is not None and emulated.boolean()


def _scenario_check(node: Node, scenario: Scenario) -> None:
    try:
        scenario_check(scenario, node.source)
    except UsageError as error:
        raise Refused(str(error)) from None
    roles = {mode.name: mode.role for mode in scenario.modes if mode.role}
    known = {f"{mode.name}-{role}": role for mode in scenario.modes for role in (AGAIN, CONTROL)}
    if not roles.items() <= known.items() or len(set(roles.values())) < len(roles):
        raise node.refuse("has controls that are no twins of its rows")


def run_load(directory: Path) -> Run:
    if not directory.is_dir():
        raise Failure(f"{directory}: no such run directory; `nfq-bench list` shows those that there are")
    try:
        meta = file_parse(directory, "meta.json", document_parse)
        run = run_make(meta, file_parse(directory, "runs.jsonl", documents_parse))
        _cells_check(run)
        return run
    except Refused as error:
        raise Refused(f"{directory}: not a run that can be read: {error}") from None


def _cells_check(run: Run) -> None:
    """Each block holds every mode once: a line too many or too few would change the statistics unseen."""
    blocks = run.meta["blocks"].count()
    expected = [(block, mode.name) for block in range(1, blocks + 1) for mode in run.scenario.modes]
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


def files_replace(directory: Path, files: Mapping[str, str]) -> None:
    """Each file whole or not at all."""
    for name, text in files.items():
        new = directory / f".{name}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(directory / name)


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
