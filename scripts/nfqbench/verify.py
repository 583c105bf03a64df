# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a stored run still proves itself: everything that follows from runs.jsonl and meta.json is made once more.

    each line     judged again from the evidence that it carries, and its figures computed again from that
    the order     drawn again from the seed
    the files     summary, tables, pictures and page rendered again

Lines of older versions carry no evidence: they cannot be judged again, which is told.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .document import Node
from .errors import Failure, Refused
from .evidence import Evidence
from .judge import judge
from .plan import PlannedCell, plan_make
from .record import evidence_restore, record_make
from .render import files_render
from .store import Run, run_load

# Pictures are the same only by the same version of what draws them.
DRAWN_BY = re.compile(r"Produced by GNUPLOT [^<]*")


@dataclass(frozen=True)
class Verified:
    cells: int
    judged: int  # cells with evidence
    faults: tuple[str, ...]


def run_verify(directory: Path) -> Verified:
    run = run_load(directory)
    judged = sum(record.get("evidence") is not None for record in run.records)
    faults = (*_order_verify(run), *_records_verify(run), *_files_verify(run, directory))
    return Verified(len(run.cells), judged, faults)


def _order_verify(run: Run) -> Iterator[str]:
    plan = plan_make(run.scenario.modes, run.meta["blocks"].count(), run.meta["seed"].integer())
    planned = [(cell.block, cell.position, cell.mode.name) for cell in plan]
    told = [(cell.block, cell.position, cell.mode) for cell in run.cells]
    if told != planned:
        yield "runs.jsonl: not in the order that the seed gives"
    times = [run.meta["started"].text(), *(cell.started for cell in run.cells), run.meta["finished"].text()]
    if times != sorted(times):
        yield "runs.jsonl: a cell was not measured after the one before it, or not between the run's start and end"


def _records_verify(run: Run) -> Iterator[str]:
    for record in run.records:
        try:
            yield from _record_verify(run, record)
        except Refused as error:
            yield str(error)


def _record_verify(run: Run, record: Node) -> Iterator[str]:
    evidence, inherited = evidence_restore(record), _inherited(run.meta)
    if evidence is None:
        return
    unknown = _unknown_list(evidence)
    if unknown:
        yield f"{record.source}: has evidence without {', '.join(unknown)}, with which nothing can be proven"
    mode = run.scenario.mode(record["mode"].text())
    planned = PlannedCell(record["block"].count(), record["position"].count(), mode)
    reasons = judge(run.scenario, mode, evidence, inherited)
    told = tuple(reason.text() for reason in record["reasons"])
    if reasons != told:
        yield f"{record.source}: judged again: {'; '.join(reasons) or 'valid'}; it says: {'; '.join(told) or 'valid'}"
    made = Node(record_make(planned, record["started"].text(), evidence, told), record.source)
    for key in sorted(made.mapping().keys() | record.mapping().keys()):
        if not _is_same(made.mapping().get(key), record.mapping().get(key)):
            yield f"{record.source}: \"{key}\" does not follow from the evidence"


def _unknown_list(evidence: Evidence) -> list[str]:
    """What every cell has of which evidence is kept: without it the judge would be silent."""
    told: dict[str, object] = {"offloads": evidence.offloads, "end_offloads": evidence.end_offloads}
    for moment, snapshot in (("start", evidence.start), ("pinged", evidence.pinged), ("end", evidence.end)):
        for name in ("ip", "qdisc_drops", "softnet_drops", "throttled"):
            told[f"{moment}.{name}"] = getattr(snapshot, name)
    return [name for name, value in told.items() if value is None]


def _is_same(made: object, told: object) -> bool:
    """A tuple is written as a list; 1 and true are not the same."""
    if isinstance(made, dict) and isinstance(told, dict):
        return made.keys() == told.keys() and all(_is_same(value, told[key]) for key, value in made.items())
    if isinstance(made, (list, tuple)) and isinstance(told, list):
        return len(made) == len(told) and all(map(_is_same, made, told))
    return made == told and isinstance(made, bool) == isinstance(told, bool)


def _inherited(meta: Node) -> tuple[str, int] | None:
    node = meta["sched"].get("inherited")
    return (node["policy"].text(), node["priority"].count()) if node else None


def _files_verify(run: Run, directory: Path) -> Iterator[str]:
    rendered, missing = files_render(run)
    if missing:
        raise Failure(missing)
    version = DRAWN_BY.findall("".join(rendered.values()))[:1]
    for name, text in rendered.items():
        try:
            stored = (directory / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            yield f"{name}: cannot be read: {error}"
            continue
        drawn_otherwise = DRAWN_BY.findall(stored)[:1] not in ([], version)
        if stored != text and not drawn_otherwise:
            yield f"{name}: does not follow from runs.jsonl; `nfq-bench report --write` makes it anew"
