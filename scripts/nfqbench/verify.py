# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a stored run still proves itself: everything that follows from runs.jsonl and meta.json is made once more.

    each line     judged again from the evidence that it carries, and its figures computed again from that
    the lines     counters that only grow must grow from cell to cell
    the order     drawn again from the seed, and ended where it should
    the files     summary, tables, pictures and page rendered again

Lines of older versions carry no evidence: they cannot be judged again, which is told. What a run says of itself beside
its evidence, such as labels and the machine's description, has to be believed, as has the evidence.
"""

import json
import math
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
from .summary import is_enough

# What iperf3 tells as a rate is what it tells as bytes over seconds, but for rounding.
RATE_TOLERANCE = 1e-6

# Pictures are the same only by the same version of what draws them.
DRAWN_BY = re.compile(r"Produced by GNUPLOT [^<]*")


@dataclass(frozen=True)
class Verified:
    cells: int
    judged: int  # cells with evidence
    faults: tuple[str, ...]


def run_verify(directory: Path) -> Verified:
    run = run_load(directory)
    judged = sum(map(_is_kept, run.records))
    faults = (*_order_verify(run), *_end_verify(run), *_records_verify(run), *_files_verify(run, directory))
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


def _end_verify(run: Run) -> Iterator[str]:
    """A run ends with its last block, or with the first after which its ratios were known as well as was asked for."""
    blocks, precision = run.meta["blocks"].count(), run.meta.get("precision")
    if run.scenario.sched != run.meta["sched"]["in_force"].text():
        yield "meta.json: sched.in_force is not the policy under which the cells ran"
    if precision is None and blocks != run.scenario.blocks and any(_is_kept(record) for record in run.records):
        yield f"meta.json: {blocks} blocks, though {run.scenario.blocks} were asked for"
    if precision is None or blocks == run.scenario.blocks:
        return
    enough = [is_enough(run.scenario, run.cells, count, precision.number()) for count in range(1, blocks + 1)]
    if any(enough[:-1]) or not enough[-1]:
        yield f"meta.json: {blocks} blocks, which is not where the precision asked for ends the run"


def _is_kept(record: Node) -> bool:
    return record.get("evidence") is not None


def _records_verify(run: Run) -> Iterator[str]:
    some, ticks = any(_is_kept(record) for record in run.records), 0
    for record in run.records:
        try:
            evidence = evidence_restore(record)
            if evidence is not None:
                yield from _record_verify(run, record, evidence)
                if evidence.start.cpu.total < ticks:
                    yield f"{record.source}: its counters are not behind those of the cell before it"
                ticks = evidence.end.cpu.total
            elif some and record.get("host") is not None:
                yield f"{record.source}: has figures without evidence, unlike others of this run"
        except Refused as error:
            yield str(error)


def _record_verify(run: Run, record: Node, evidence: Evidence) -> Iterator[str]:
    inherited, traffic = _inherited(run.meta), evidence.traffic
    rate = 8e-9 * traffic.received_bytes / traffic.seconds if traffic else 0
    if traffic and not math.isclose(traffic.gbps, rate, rel_tol=RATE_TOLERANCE):
        yield f"{record.source}: {traffic.gbps:g} Gbit/s are not its bytes over its seconds"
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
    for difference in _differences(made.value, record.value, ""):
        yield f"{record.source}: {difference}"


def _unknown_list(evidence: Evidence) -> list[str]:
    """What every cell has of which evidence is kept: without it the judge would be silent."""
    told: dict[str, object] = {"offloads": evidence.offloads, "end_offloads": evidence.end_offloads}
    for moment, snapshot in (("start", evidence.start), ("pinged", evidence.pinged), ("end", evidence.end)):
        for name in ("ip", "qdisc_drops", "softnet_drops", "throttled"):
            told[f"{moment}.{name}"] = getattr(snapshot, name)
    return [name for name, value in told.items() if value is None]


def _differences(made: object, told: object, path: str) -> Iterator[str]:
    """A tuple is written as a list; 1 and true are not the same."""
    if isinstance(made, dict) and isinstance(told, dict):
        for key in sorted({*made, *told}):
            name = f"{path}.{key}".lstrip(".")
            if key not in made:
                yield f"{name} is not known"
            else:
                yield from _differences(made[key], told.get(key), name)
    elif isinstance(made, (list, tuple)) and isinstance(told, list) and len(made) == len(told):
        for index, pair in enumerate(zip(made, told)):
            yield from _differences(*pair, f"{path}[{index}]")
    elif made != told or isinstance(made, bool) != isinstance(told, bool):
        yield f"{path} is {_shorten(told)}, and {_shorten(made)} by the evidence"


def _shorten(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


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
