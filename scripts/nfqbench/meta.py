# SPDX-License-Identifier: GPL-2.0-or-later
"""meta.json: what was asked for, and everything around it that a result depends on."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path

from . import SCHEMA, VERSION, paths
from .cell import Placement
from .document import file_parse
from .kernel import settings_parse
from .machine import machine_describe, tools_describe, version_read
from .privileges import user_namespace_is_ours
from .record import Json
from .scenario import Scenario

OFFLOADS = (
    "rx-checksumming", "tx-checksumming", "tcp-segmentation-offload", "generic-segmentation-offload",
    "generic-receive-offload", "tx-udp-segmentation", "rx-gro-list", "rx-udp-gro-forwarding",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What the user asked for, defaults filled in."""

    scenario: Scenario
    sched_note: str | None  # why it is not the policy that the scenario names
    placement: Placement
    blocks: int
    seed: int
    host: str
    parent: Path  # of the run directory


def meta_make(request: Request, work: Path, started: str, finished: str) -> Json:
    processor = request.placement.processor
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "host": request.host,
        "started": started,
        "finished": finished,
        "blocks": request.blocks,
        "seed": request.seed,
        "scenario": {**asdict(request.scenario), "modes": [asdict(mode) for mode in request.scenario.modes]},
        "processor": _command_describe(processor) if processor else _noop_describe(),
        "pin": request.placement.pin or None,
        "sched": {"in_force": request.scenario.sched, "note": request.sched_note},
        "root": not user_namespace_is_ours(),
        "machine": machine_describe(),
        "tools": tools_describe(),
        **_topology_describe(work),
    }


def _command_describe(command: str) -> str:
    """Without the directory, which may name a person."""
    program, _, arguments = command.partition(" ")
    return f"{Path(program).name} {arguments}".rstrip()


def _noop_describe() -> str:
    return version_read([paths.noop_find() or "nfq-noop", "-V"]) or "nfq-noop"


def _topology_describe(work: Path) -> Json:
    """Rules and offloads, as in the first cell that came to have them; they are the same in all."""
    for folder in sorted(work.iterdir()):
        if (folder / "sched.txt").exists():
            return {
                "backend": file_parse(folder, "cell.conf", settings_parse)["backend"],
                "rules": file_parse(folder, "steps.log", _rules_parse),
                "offloads": _offloads_read(folder),
            }
    return {"backend": None, "rules": [], "offloads": {}}


def _rules_parse(text: str, _: str) -> list[str]:
    """The commands, without the way into the namespace."""
    return [line.partition(" -- ")[2] for line in text.splitlines() if re.search(r"-j NFQUEUE|queue num", line)]


def _offloads_read(folder: Path) -> dict[str, dict[str, str]]:
    """ethtool -k, each line with "NAMESPACE DEVICE: " before it."""
    offloads: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("offloads.*.txt")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            match = re.fullmatch(r"\S*-(\w+) (\S+):\s+([\w-]+): (on|off).*", line)
            if match and match[3] in OFFLOADS:
                offloads.setdefault(f"{match[1]} {match[2]}", {})[match[3]] = match[4]
    return offloads
