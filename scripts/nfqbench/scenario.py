# SPDX-License-Identifier: GPL-2.0-or-later
"""A scenario: what is compared, and how. Read from TOML, in which unknown keys are refused."""

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from .document import Node
from .errors import Refused, UsageError

TOPOLOGIES = ("router", "pair")
SCHED = re.compile(r"inherit|other|(rr|fifo):([1-9]|[1-9][0-9])")
PING = re.compile(r"(\d+)@(\d+)")
LABEL_LENGTH = 24  # so that the table stays narrow
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")


@dataclass(frozen=True)
class Mode:
    """A row of the table."""

    name: str
    label: str
    queue: bool  # a rule queues, a processor answers
    gso: bool | None  # what is claimed about aggregates; None = nothing
    noop: str = ""  # more options for nfq-noop


@dataclass(frozen=True)
class Scenario:
    name: str
    question: str
    topology: str
    baseline: str  # the mode that the others are compared with
    sched: str  # of the processor
    cc: str  # TCP congestion control
    ping_count: int
    ping_interval_ms: int
    iperf_seconds: int
    iperf_args: str
    modes: tuple[Mode, ...]

    @property
    def directions(self) -> int:
        """How often a ping and its reply together pass the queue."""
        return 2 if self.topology == "router" else 1

    def mode(self, name: str) -> Mode:
        return next(mode for mode in self.modes if mode.name == name)


def scenario_load(path: Path) -> Scenario:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    try:
        return _scenario_parse(Node(document, str(path)))
    except Refused as error:
        raise UsageError(str(error)) from None


def _scenario_parse(root: Node) -> Scenario:
    root.only("name", "question", "topology", "baseline", "sched", "cc", "ping", "iperf", "mode")
    root["ping"].only("count", "interval_ms")
    root["iperf"].only("seconds", "args")
    scenario = Scenario(
        name=root["name"].text(),
        question=" ".join(root["question"].text().split()),
        topology=root["topology"].text(),
        baseline=root["baseline"].text(),
        sched=root["sched"].text(),
        cc=root["cc"].text(),
        ping_count=root["ping"]["count"].count(),
        ping_interval_ms=root["ping"]["interval_ms"].count(),
        iperf_seconds=root["iperf"]["seconds"].count(),
        iperf_args=root["iperf"]["args"].text(),
        modes=tuple(_mode_parse(node) for node in root["mode"]),
    )
    scenario_check(scenario, root.source)
    return scenario


def _mode_parse(node: Node) -> Mode:
    node.only("name", "label", "queue", "gso", "noop")
    gso, noop = node.get("gso"), node.get("noop")
    return Mode(
        name=node["name"].text(),
        label=node["label"].text(),
        queue=node["queue"].boolean(),
        gso=gso.boolean() if gso else None,
        noop=noop.text() if noop else "",
    )


def scenario_check(scenario: Scenario, source: str) -> None:
    """Whether the fields make sense together; after options have replaced some, once more."""
    names = [mode.name for mode in scenario.modes]
    problems = {
        f"name \"{scenario.name}\": use a-z, 0-9, - and .": not NAME.fullmatch(scenario.name),
        f"topology \"{scenario.topology}\": {' or '.join(TOPOLOGIES)}": scenario.topology not in TOPOLOGIES,
        f"sched \"{scenario.sched}\": inherit, other, rr:1-99 or fifo:1-99": not SCHED.fullmatch(scenario.sched),
        f"cc \"{scenario.cc}\": not the name of a congestion control": not re.fullmatch(r"[a-z0-9_]+", scenario.cc),
        f"ping count {scenario.ping_count}: at most 65535": scenario.ping_count > 65535,
        f"iperf seconds {scenario.iperf_seconds}: 0 or more": scenario.iperf_seconds < 0,
        "ping interval: at least 2 ms, as ping itself asks for": scenario.ping_interval_ms < 2,
        "nothing to measure: neither ping nor iperf": not scenario.ping_count and not scenario.iperf_seconds,
        "no [[mode]]": not names,
        f"two modes of one name: {', '.join(names)}": len(set(names)) < len(names),
        f"baseline \"{scenario.baseline}\" is not one of the modes: {', '.join(names)}": scenario.baseline not in names,
    }
    for problem, found in problems.items():
        if found:
            raise UsageError(f"{source}: {problem}")
    for mode in scenario.modes:
        if not 0 < len(mode.label) <= LABEL_LENGTH:
            raise UsageError(f"{source}: mode \"{mode.name}\": a label has 1 to {LABEL_LENGTH} characters")
        if not NAME.fullmatch(mode.name):
            raise UsageError(f"{source}: mode \"{mode.name}\": use a-z, 0-9, - and .")
        if not mode.queue and (mode.gso is not None or mode.noop):
            raise UsageError(f"{source}: mode \"{mode.name}\": gso and noop mean nothing without queue = true")


def ping_option(text: str) -> dict[str, int]:
    """The fields that COUNT@MS sets."""
    if text == "0":
        return {"ping_count": 0}
    match = PING.fullmatch(text)
    if not match:
        raise UsageError(f"--ping {text}: should be COUNT@MS, such as 200@10, or 0")
    return {"ping_count": int(match[1]), "ping_interval_ms": int(match[2])}


def processor_replace(scenario: Scenario, command: str) -> Scenario:
    """Another program takes the place of nfq-noop. What it does about GSO is its own affair: nothing is claimed."""
    if "{queue}" not in command:
        raise UsageError(f"--processor \"{command}\": has no {{queue}}, which becomes the number of the queue")
    label = Path(command.split()[0]).name[:LABEL_LENGTH]
    modes = [mode for mode in scenario.modes if not mode.queue]
    return replace(scenario, modes=(*modes, Mode(name="processor", label=label, queue=True, gso=None)))
