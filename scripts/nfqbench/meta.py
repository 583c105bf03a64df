# SPDX-License-Identifier: GPL-2.0-or-later
"""meta.json: what was asked for, and everything around it that a result depends on."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path

from . import SCHEMA, VERSION, paths
from .document import file_parse
from .judge import sched_expected
from .kernel import settings_parse
from .machine import machine_describe, machine_extended, tools_describe, version_read
from .privileges import user_namespace_is_ours
from .record import Json
from .scenario import Scenario
from .vm import guest_take

OFFLOADS = (
    "rx-checksumming", "tx-checksumming", "tcp-segmentation-offload", "generic-segmentation-offload",
    "generic-receive-offload", "tx-udp-segmentation", "rx-gro-list", "rx-udp-gro-forwarding",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What the user asked for, defaults filled in."""

    scenario: Scenario  # with its controls; of the blocks the most that there may be
    sched_note: str | None  # why it is not the policy that the scenario names
    seed: int
    host: str
    parent: Path  # of the run directory
    precision: float | None = None  # enough for a ratio, as a fraction: fewer blocks will do
    extended: bool = False
    vm: str | None = None  # the kernel of an emulated machine to measure in


def meta_make(request: Request, cells: Path, started: str, finished: str, blocks: int) -> Json:
    """`cells` holds the raw folders; of so many blocks."""
    scenario, machine = request.scenario, machine_describe()
    guest = guest_take(cells) if request.vm else None
    if guest:
        machine["kernel"] = guest
    policy, priority = sched_expected("inherit")
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "host": request.host,
        "started": started,
        "finished": finished,
        "blocks": blocks,
        "precision": request.precision,
        "seed": request.seed,
        "scenario": _scenario_describe(scenario),
        "processor": _processors_describe(scenario),
        "pin": scenario.pin or None,
        "sched": {
            "in_force": scenario.sched,
            "note": request.sched_note,
            "inherited": {"policy": policy, "priority": priority},
        },
        "root": not user_namespace_is_ours(),
        "emulated": request.vm is not None,
        "vm": request.vm,
        "machine": machine,
        "extended": machine_extended() if request.extended else None,
        "tools": tools_describe(),
        **_topology_describe(cells),
    }


def _scenario_describe(scenario: Scenario) -> Json:
    return {
        **asdict(scenario),
        "compare": [list(pair) for pair in scenario.compare],
        "prepare": [_homes_remove(command) for command in scenario.prepare],
        "modes": [{**asdict(mode), "processor": _command_describe(mode.processor)} for mode in scenario.modes],
    }


def _processors_describe(scenario: Scenario) -> str:
    commands = dict.fromkeys(mode.processor for mode in scenario.modes if mode.queue)
    described = [_command_describe(command) if command else _noop_describe() for command in commands]
    return " and ".join(described) or "no processor"


def _command_describe(command: str) -> str:
    """Without the directory, which may name a person."""
    program, _, arguments = command.partition(" ")
    return _homes_remove(f"{Path(program).name} {arguments}".rstrip())


def _homes_remove(command: str) -> str:
    return re.sub(r"/(?:home|root)/\S*/", "", command)


def _noop_describe() -> str:
    return version_read([paths.noop_find() or "nfq-noop", "-V"]) or "nfq-noop"


def _topology_describe(cells: Path) -> Json:
    """Backend and offloads, as in the first cell that came to have them, since they are the same in all; and the rules
    of all rows."""
    queued = [folder for folder in sorted(cells.iterdir()) if (folder / "sched.txt").exists()]
    if not queued:
        return {"backend": None, "rules": [], "offloads": {}}
    rules = [rule for folder in queued for rule in file_parse(folder, "steps.log", _rules_parse)]
    return {
        "backend": file_parse(queued[0], "cell.conf", settings_parse)["backend"],
        "rules": list(dict.fromkeys(rules)),
        "offloads": _offloads_read(queued[0]),
    }


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
