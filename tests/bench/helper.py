# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of nfq-bench have in common: the way to its modules, recorded data, cells made from them."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(__file__).resolve().parent / "data"
CELL_TICKS = 10**9  # between recorded cells that make a run
NFQ_BENCH = ROOT / "scripts" / "nfq-bench"

sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))

from nfqbench.document import Node  # noqa: E402
from nfqbench.evidence import evidence_read  # noqa: E402
from nfqbench.judge import judge  # noqa: E402
from nfqbench.plan import PlannedCell, plan_make  # noqa: E402
from nfqbench.record import Json, record_make  # noqa: E402
from nfqbench.render import files_render  # noqa: E402
from nfqbench.scenario import Scenario  # noqa: E402
from nfqbench.scenarios import scenario_load  # noqa: E402
from nfqbench.store import files_replace, json_render, jsonl_render, run_make  # noqa: E402


# What others do to this machine is no fault of a cell. Without root the socket buffer is as small as net.core.rmem_max,
# and a full one is told as what it is.
_MACHINE_S = re.compile(
    "^host: the hypervisor gave" + ("|socket buffer was full|daemon: lost|while ping made|lost" if os.geteuid() else "")
)


def reason_is_the_machine_s(reason: str) -> bool:
    return _MACHINE_S.search(reason) is not None


def data_text(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def scenario_recorded() -> Scenario:
    """The scenario under which data/cells was recorded."""
    scenario = scenario_load(ROOT / "scripts" / "scenarios" / "gso.toml")
    return replace(scenario, ping_count=20, ping_interval_ms=5, iperf_seconds=1)


class FolderTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nfq-bench-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def cell_copy(self, mode: str) -> Path:
        """A recorded valid cell, to be falsified."""
        cell = Path(tempfile.mkdtemp(dir=self.folder)) / mode
        shutil.copytree(DATA / "cells" / mode, cell)
        return cell


def run_recorded(directory: Path, scenario: Scenario | None = None, blocks: int = 2) -> Path:
    """A run directory as nfq-bench stores it, whose cells are the recorded ones, those of a twin included."""
    scenario = replace(scenario or scenario_recorded(), blocks=blocks)
    meta = json.loads(data_text("run/meta.json"))
    meta["scenario"] = json.loads(json.dumps(asdict(scenario)))
    meta.update(blocks=blocks, seed=42, started="2026-01-31T12:00:00Z", finished="2026-01-31T12:10:00Z")
    meta["sched"]["inherited"] = {"policy": "other", "priority": 0}
    plan = plan_make(scenario.modes, blocks, 42)
    records = [_record_recorded(scenario, planned, number) for number, planned in enumerate(plan)]
    run = run_make(Node(meta, "meta.json"), [Node(record, "runs.jsonl") for record in records])
    directory.mkdir()
    files = {"meta.json": json_render(meta), "runs.jsonl": jsonl_render(records), **files_render(run)[0]}
    files_replace(directory, files)
    return directory


def _record_recorded(scenario: Scenario, planned: PlannedCell, number: int) -> Json:
    """As if they had been measured one after the other."""
    evidence = evidence_read(DATA / "cells" / planned.mode.name.removesuffix("-again"))
    moments = {name: getattr(evidence, name) for name in ("start", "pinged", "end")}
    for name, moment in moments.items():
        cpu = replace(moment.cpu, total=moment.cpu.total + number * CELL_TICKS)
        moments[name] = replace(moment, cpu=cpu)
    evidence = replace(evidence, **moments)
    started = f"2026-01-31T12:0{planned.block}:0{planned.position}Z"
    made = record_make(planned, started, evidence, judge(scenario, planned.mode, evidence))
    decoded: Json = json.loads(json.dumps(made))
    return decoded


def text_change(path: Path, old: str, new: str) -> None:
    """Replaces `old`, which must be there, once."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} has no {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def json_change(path: Path, change: Callable[[Any], object]) -> None:
    """Changes a document, or the last one if there is one a line."""
    text = path.read_text(encoding="utf-8").rstrip()
    before, newline, last = ("", "", text) if text.startswith("{\n") else text.rpartition("\n")
    value = json.loads(last)
    change(value)
    path.write_text(f"{before}{newline}{json.dumps(value)}\n", encoding="utf-8")


def nfq_bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(NFQ_BENCH), *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
