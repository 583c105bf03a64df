# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of any shape, made of round figures, for what shows runs."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from helper import data_text, scenario_recorded
from nfqbench import SCHEMA
from nfqbench.controls import controls_add
from nfqbench.document import Node
from nfqbench.plan import PlannedCell, plan_make
from nfqbench.scenario import AGAIN, CONTROL, Mode, Scenario
from nfqbench.store import Run, run_make

BLOCKS = 3
PINGS = 100
SEED = 1

Record = dict[str, Any]


def scenario_made(**changes: Any) -> Scenario:
    """The rows of gso with their controls."""
    return controls_add(replace(scenario_recorded(), blocks=BLOCKS, **changes))


def scenario_of_lines() -> Scenario:
    """Latency under load: two lines of three rows."""
    rows = [("none", "no nfq", load) for load in (1, 2, 4)] + [("gso", "nfq with GSO", load) for load in (1, 2, 4)]
    modes = [
        Mode(name=f"{name}-{load}", label=f"{line} at {load}", queue=name == "gso", gso=None, line=line)
        for name, line, load in rows
    ]
    return scenario_made(name="load", together=True, baseline="none-1", modes=tuple(modes), compare=())


def run_made(scenario: Scenario, invalid: Mapping[tuple[int, str], str] = {}, **meta: Any) -> Run:
    """`invalid`: (block, mode) to its reason; `meta` replaces what meta.json says."""
    document: Record = {**json.loads(data_text("run/meta.json")), "blocks": scenario.blocks, "seed": SEED, **meta}
    document["scenario"] = asdict(scenario)
    plan = plan_make(scenario.modes, scenario.blocks, SEED)
    records = [_record_make(scenario, cell, invalid.get((cell.block, cell.mode.name))) for cell in plan]
    values = json.loads(json.dumps([document, *records]))
    return run_make(Node(values[0], "meta.json"), [Node(value, "runs.jsonl") for value in values[1:]])


def rtt_us(scenario: Scenario, mode: Mode, block: int) -> list[float]:
    """10, 11, 12 ... of the first row, 20, 21, 22 ... of the second; of a twin as of its row."""
    least = 10 * (_place(scenario, mode) + 1) + (200 if mode.role == CONTROL else 0)
    return [float(least + number) for number in range(PINGS)]


def gbps(scenario: Scenario, mode: Mode, block: int) -> float:
    """12, 6, 4 ... in the first block, a bit more in each further one."""
    return 12 / (_place(scenario, mode) + 1) + (block - 1) / 8


def _place(scenario: Scenario, mode: Mode) -> int:
    twin = mode.name.removesuffix(f"-{mode.role}") if mode.role in (AGAIN, CONTROL) else mode.name
    return [each.name for each in scenario.modes].index(twin)


def _record_make(scenario: Scenario, cell: PlannedCell, reason: str | None) -> Record:
    record: Record = {
        "schema": SCHEMA, "block": cell.block, "position": cell.position, "mode": cell.mode.name,
        "started": "2026-01-02T03:04:05Z", "valid": reason is None, "reasons": [] if reason is None else [reason],
        "ledger": {"ping": {"ping_sent": PINGS, "rule": None}, "load": {"rule": 4321, "iperf3_sent_bytes": 98765}},
    }  # fmt: skip
    if scenario.ping_count:
        rtts = rtt_us(scenario, cell.mode, cell.block)
        figures = {"mean_us": sum(rtts) / PINGS, "min_us": rtts[0], "max_us": rtts[-1], "p50_us": rtts[PINGS // 2],
                   "p99_us": rtts[-2]}  # fmt: skip
        record["ping"] = {**figures, "rtts_us": rtts, "replied_at_s": [number / 100 for number in range(PINGS)]}
    if scenario.iperf_seconds_of(cell.mode):
        rate = gbps(scenario, cell.mode, cell.block)
        intervals = [{"start_s": second, "end_s": second + 1.0, "gbps": rate} for second in (0.0, 1.0)]
        record["tcp"] = {"gbps": rate, "intervals": intervals}
    return record
