# SPDX-License-Identifier: GPL-2.0-or-later
"""A scenario: what is compared, and how. Read from TOML, in which unknown keys are refused."""

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from . import paths
from .document import Node
from .errors import Refused, UsageError

T = TypeVar("T")

TOPOLOGIES = ("router", "pair")
FAMILIES = (4, 6)
FANOUTS = ("", "hash", "cpu")
SCHED = re.compile(r"inherit|other|(rr|fifo):([1-9]|[1-9][0-9])")
RPS = re.compile(r"\d+|(client|router|server)=\d+(,(client|router|server)=\d+)*")
NOOP_RESERVED = re.compile(r"(-q|--(queue|json|sched|check)\b)")
PIN = re.compile(r"|((client|server|daemon)=[0-9,-]+,?)+")
PING = re.compile(r"(\d+)@(\d+)")
LABEL_LENGTH = 24  # so that the table stays narrow
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")
BLOCKS = 5

AGAIN, CONTROL = "again", "control"
CONTROL_DELAY_US = 100


@dataclass(frozen=True)
class Mode:
    """A row of the table. What is None is as the scenario says."""

    name: str
    label: str
    queue: bool  # a rule queues, a processor answers
    gso: bool | None  # what is claimed about aggregates; None = nothing
    noop: str = ""  # more options for nfq-noop
    processor: str = ""  # a command with {queue}, in which {work} is where `prepare` ran; empty = nfq-noop
    may_drop: bool = False  # the program is known to lose packets: they are told, and no reason
    queues: int = 1
    fanout: str = ""  # how packets are spread over the queues; empty = hash
    rps: str = ""  # the CPU that works on all packets that links receive: CPU, or ROLE=CPU,...
    busy: str = ""  # CPUs that another, ordinary process keeps busy
    sched: str | None = None
    pin: str | None = None
    iperf_args: str | None = None
    baseline: str | None = None
    line: str = ""  # of the plot "latency against load", to which the row belongs
    role: str = ""  # why the row is there, if the scenario does not ask for it: AGAIN or CONTROL


NO_QUEUE = Mode(name="none", label="no nfq", queue=False, gso=None)


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
    family: int = 4
    gso_max: int = 0  # bytes of the greatest aggregate; 0 = the kernel's default
    blocks: int = BLOCKS
    pin: str = ""
    together: bool = False  # ping runs while iperf3 does
    prepare: tuple[str, ...] = ()  # commands that run before the first cell
    compare: tuple[tuple[str, str], ...] = ()  # modes between which ratios are of interest, too

    @property
    def directions(self) -> int:
        """How often a ping and its reply together pass the queue."""
        return 2 if self.topology == "router" else 1

    def mode(self, name: str) -> Mode:
        return next(mode for mode in self.modes if mode.name == name)

    def baseline_of(self, mode: Mode) -> str:
        return self.baseline if mode.baseline is None else mode.baseline

    def sched_of(self, mode: Mode) -> str:
        return self.sched if mode.sched is None else mode.sched

    def pin_of(self, mode: Mode) -> str:
        return self.pin if mode.pin is None else mode.pin

    def iperf_seconds_of(self, mode: Mode) -> int:
        return 0 if mode.role == CONTROL else self.iperf_seconds

    def iperf_args_of(self, mode: Mode) -> str:
        return self.iperf_args if mode.iperf_args is None else mode.iperf_args


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


def scenario_find(name: str) -> Scenario:
    if name.endswith(".toml") or "/" in name:
        return scenario_load(Path(name))
    path = paths.SCENARIOS / f"{name}.toml"
    if not path.exists():
        raise UsageError(f"no scenario \"{name}\"; there are: {', '.join(scenario_names())}")
    return scenario_load(path)


def scenario_names() -> list[str]:
    return sorted(path.stem for path in paths.SCENARIOS.glob("*.toml"))


def _scenario_parse(root: Node) -> Scenario:
    root.only("name", "question", "topology", "family", "gso_max", "baseline", "blocks", "sched", "pin", "cc",
              "together", "prepare", "compare", "ping", "iperf", "mode")  # fmt: skip
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
        family=_optional(root, "family", Node.count, 4),
        gso_max=_optional(root, "gso_max", Node.count, 0),
        blocks=_optional(root, "blocks", Node.count, BLOCKS),
        pin=_optional(root, "pin", Node.text, ""),
        together=_optional(root, "together", Node.boolean, False),
        prepare=_optional(root, "prepare", _texts, ()),
        compare=_optional(root, "compare", _pairs, ()),
    )
    scenario_check(scenario, root.source)
    return scenario


def _mode_parse(node: Node) -> Mode:
    node.only("name", "label", "queue", "gso", "noop", "processor", "may_drop", "queues", "fanout", "rps", "busy",
              "sched", "pin", "iperf_args", "baseline", "line")  # fmt: skip
    return Mode(
        name=node["name"].text(),
        label=node["label"].text(),
        queue=node["queue"].boolean(),
        gso=_optional(node, "gso", Node.boolean, None),
        noop=_optional(node, "noop", Node.text, ""),
        processor=_optional(node, "processor", Node.text, ""),
        may_drop=_optional(node, "may_drop", Node.boolean, False),
        queues=_optional(node, "queues", Node.count, 1),
        fanout=_optional(node, "fanout", Node.text, ""),
        rps=_optional(node, "rps", Node.text, ""),
        busy=_optional(node, "busy", Node.text, ""),
        sched=_optional(node, "sched", Node.text, None),
        pin=_optional(node, "pin", Node.text, None),
        iperf_args=_optional(node, "iperf_args", Node.text, None),
        baseline=_optional(node, "baseline", Node.text, None),
        line=_optional(node, "line", Node.text, ""),
    )


def _optional(node: Node, key: str, read: Callable[[Node], T], default: T) -> T:
    value = node.get(key)
    return read(value) if value else default


def _texts(node: Node) -> tuple[str, ...]:
    return tuple(item.text() for item in node)


def _pairs(node: Node) -> tuple[tuple[str, str], ...]:
    return tuple(_pair(item) for item in node)


def _pair(node: Node) -> tuple[str, str]:
    texts = _texts(node)
    if len(texts) != 2:
        raise node.refuse("should be a pair of modes")
    return texts[0], texts[1]


def scenario_check(scenario: Scenario, source: str) -> None:
    """Whether the fields make sense together; after options have replaced some, once more."""
    names = [mode.name for mode in scenario.modes]
    problems = {
        f"name \"{scenario.name}\": use a-z, 0-9, - and .": not NAME.fullmatch(scenario.name),
        f"topology \"{scenario.topology}\": {' or '.join(TOPOLOGIES)}": scenario.topology not in TOPOLOGIES,
        f"family {scenario.family}: 4 or 6": scenario.family not in FAMILIES,
        "blocks 0: at least 1": scenario.blocks < 1,
        f"sched \"{scenario.sched}\": inherit, other, rr:1-99 or fifo:1-99": not SCHED.fullmatch(scenario.sched),
        f"pin \"{scenario.pin}\": client=CPUS,server=CPUS,daemon=CPUS": not PIN.fullmatch(scenario.pin),
        f"cc \"{scenario.cc}\": not the name of a congestion control": not re.fullmatch(r"[a-z0-9_]+", scenario.cc),
        f"ping count {scenario.ping_count}: at most 65535": scenario.ping_count > 65535,
        f"iperf seconds {scenario.iperf_seconds}: 0 or more": scenario.iperf_seconds < 0,
        "ping interval: at least 2 ms, as ping itself asks for": scenario.ping_interval_ms < 2,
        "nothing to measure: neither ping nor iperf": not scenario.ping_count and not scenario.iperf_seconds,
        "together: needs both ping and iperf": scenario.together and not _measures_both(scenario),
        "together: ping would outlast iperf; leave it half a second": scenario.together and _outlasts(scenario),
        "no [[mode]]": not names,
        f"two modes of one name: {', '.join(names)}": len(set(names)) < len(names),
        f"baseline \"{scenario.baseline}\" is not one of the modes: {', '.join(names)}": scenario.baseline not in names,
    }
    for problem, found in problems.items():
        if found:
            raise UsageError(f"{source}: {problem}")
    for pair in scenario.compare:
        if not set(pair) <= set(names) or pair[0] == pair[1]:
            raise UsageError(f"{source}: compare {list(pair)}: not two of the modes: {', '.join(names)}")
    for mode in scenario.modes:
        for problem in (*_mode_check(mode), *_baseline_check(scenario, mode)):
            raise UsageError(f"{source}: mode \"{mode.name}\": {problem}")


def _measures_both(scenario: Scenario) -> bool:
    return scenario.ping_count > 0 and scenario.iperf_seconds > 0


def _outlasts(scenario: Scenario) -> bool:
    return scenario.ping_count * scenario.ping_interval_ms + 500 > scenario.iperf_seconds * 1000


def _mode_check(mode: Mode) -> Iterator[str]:
    if not 0 < len(mode.label) <= LABEL_LENGTH or not mode.label.isprintable():
        yield f"a label has 1 to {LABEL_LENGTH} printable characters"
    if not NAME.fullmatch(mode.name):
        yield "use a-z, 0-9, - and ."
    if mode.pin is not None and not PIN.fullmatch(mode.pin):
        yield f"pin \"{mode.pin}\": client=CPUS,server=CPUS,daemon=CPUS"
    if mode.rps and not RPS.fullmatch(mode.rps):
        yield f"rps \"{mode.rps}\": CPU, or client=CPU,router=CPU,server=CPU"
    if len(mode.line) > LABEL_LENGTH or not mode.line.isprintable():
        yield f"a line has at most {LABEL_LENGTH} printable characters"
    if not re.fullmatch(r"[0-9,-]*", mode.busy):
        yield f"busy \"{mode.busy}\": CPUs, such as 0 or 0,2-3"
    yield from _queue_check(mode) if mode.queue else _no_queue_check(mode)


def _no_queue_check(mode: Mode) -> Iterator[str]:
    for key in ("gso", "noop", "processor", "may_drop", "queues", "fanout", "sched"):
        if getattr(mode, key) != getattr(NO_QUEUE, key):
            yield f"{key} means nothing without queue = true"


def _queue_check(mode: Mode) -> Iterator[str]:
    if mode.sched is not None and not SCHED.fullmatch(mode.sched):
        yield f"sched \"{mode.sched}\": inherit, other, rr:1-99 or fifo:1-99"
    if mode.queues < 1:
        yield "queues 0: at least 1"
    if mode.fanout not in FANOUTS:
        yield f"fanout \"{mode.fanout}\": hash or cpu"
    if mode.fanout and mode.queues == 1:
        yield "fanout means nothing with one queue"
    if mode.processor and "{queue}" not in mode.processor:
        yield f"processor \"{mode.processor}\" has no {{queue}}, which becomes the number of the queue"
    if mode.processor and mode.noop:
        yield "noop has options of nfq-noop, in whose place is a processor"
    if any(NOOP_RESERVED.match(word) for word in mode.noop.split()):
        yield f"noop \"{mode.noop}\": queues, JSON and policy are set by nfq-bench"
    if mode.may_drop and not mode.processor:
        yield "may_drop is for a processor in the place of nfq-noop"


def _baseline_check(scenario: Scenario, mode: Mode) -> Iterator[str]:
    if mode.baseline is not None and mode.baseline not in [other.name for other in scenario.modes if not other.queue]:
        yield f"baseline \"{mode.baseline}\" is not a mode without a queue"


def ping_option(text: str) -> dict[str, int]:
    """The fields that COUNT@MS sets."""
    if text == "0":
        return {"ping_count": 0}
    match = PING.fullmatch(text)
    if not match:
        raise UsageError(f"--ping {text}: should be COUNT@MS, such as 200@10, or 0")
    return {"ping_count": int(match[1]), "ping_interval_ms": int(match[2])}


def everywhere_replace(scenario: Scenario, changes: dict[str, Any]) -> Scenario:
    """What is true for all rows, whatever a row says of its own."""
    modes = tuple(replace(mode, **dict.fromkeys(changes)) for mode in scenario.modes)
    return replace(scenario, modes=modes, **changes)


def processor_replace(scenario: Scenario, command: str) -> Scenario:
    """Another program takes the place of all rows with a queue. What it does about GSO is its own affair: nothing is
    claimed."""
    if "{queue}" not in command:
        raise UsageError(f"--processor \"{command}\": has no {{queue}}, which becomes the number of the queue")
    label = Path(command.split()[0]).name[:LABEL_LENGTH]
    modes = [mode for mode in scenario.modes if not mode.queue]
    names = {mode.name for mode in modes}
    return replace(
        scenario,
        modes=(*modes, Mode(name="processor", label=label, queue=True, gso=None, processor=command)),
        prepare=scenario.prepare if "{work}" in command else (),
        compare=tuple(pair for pair in scenario.compare if set(pair) <= names),
    )
