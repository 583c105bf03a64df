# SPDX-License-Identifier: GPL-2.0-or-later
"""A scenario: what is compared, and how."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .errors import UsageError
from .network import KEYS, Network

PING = re.compile(r"(\d+)@(\d+)")
LABEL_LENGTH = 24  # so that the table stays narrow
BLOCKS = 5

AGAIN, CONTROL = "again", "control"
CONTROL_DELAY_US = 100


@dataclass(frozen=True)
class Factor:
    """Something that is turned low or high in all combinations with the other factors."""

    name: str
    levels: tuple[str, str]  # labels: low, high


@dataclass(frozen=True)
class Mode:
    """A row of the table. What is None is as the scenario says."""

    name: str
    label: str
    queue: bool  # a rule queues, a processor answers
    gso: bool | None  # what is claimed about NFQA_CFG_F_GSO; None = nothing
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
    aggregates: bool | None = None  # what is claimed about packets over the MTU before the hook; None = as gso needs
    place: str = ""  # what the row is about apart from the processor, in a few words
    levels: tuple[int, ...] = ()  # 0 or 1 for each factor; () = outside of the design
    udp_pps: int | None = None
    topology: str | None = None
    hook: str | None = None
    family: int | None = None
    mtu: int | None = None
    tso: str | None = None
    gro: str | None = None
    gso_max: int | None = None
    conntrack: str | None = None
    tunnel: str | None = None


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
    iperf_seconds: int  # also of UDP
    iperf_args: str
    modes: tuple[Mode, ...]
    family: int = 4
    gso_max: int = 0
    blocks: int = BLOCKS
    pin: str = ""
    together: bool = False  # ping runs while the load does
    prepare: tuple[str, ...] = ()  # commands that run before the first cell
    compare: tuple[tuple[str, str], ...] = ()  # modes between which ratios are of interest, too
    hook: str = ""
    mtu: int = Network.mtu
    tso: str = ""
    gro: str = ""
    conntrack: str = "off"
    tunnel: str = ""
    udp_pps: int = 0  # datagrams a second, in the place of iperf3; 0 = iperf3
    udp_bytes: int = 0  # of payload in each
    udp_segments: int = 0  # that a system call hands over at once (UDP_SEGMENT)
    factors: tuple[Factor, ...] = ()
    proof: str = ""  # what a valid cell has shown, for the reader
    published: tuple[tuple[str, str, str], ...] = ()  # a reference, and two of its rows whose ratio is of interest

    def mode(self, name: str) -> Mode:
        return next(mode for mode in self.modes if mode.name == name)

    def network_of(self, mode: Mode) -> Network:
        own = {key: getattr(mode, key) for key in KEYS}
        return Network(**{key: getattr(self, key) if value is None else value for key, value in own.items()})

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

    def udp_pps_of(self, mode: Mode) -> int:
        return self.udp_pps if mode.udp_pps is None else mode.udp_pps


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


def rows_choose(scenario: Scenario, names: Sequence[str]) -> Scenario:
    """These rows and the baselines that they need."""
    for name in names:
        if name not in [mode.name for mode in scenario.modes]:
            known = ", ".join(mode.name for mode in scenario.modes)
            raise UsageError(f"--rows {name}: there is no such row in {scenario.name}; there are: {known}")
    chosen = [scenario.mode(name) for name in names]
    wanted = {*names, scenario.baseline, *(scenario.baseline_of(mode) for mode in chosen)}
    modes = tuple(replace(mode, levels=()) for mode in scenario.modes if mode.name in wanted)
    kept = tuple(pair for pair in scenario.compare if set(pair) <= wanted)
    return replace(scenario, modes=modes, compare=kept, factors=())
