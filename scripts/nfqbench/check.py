# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether what a scenario says makes sense together."""

import re
from collections.abc import Iterator

from .errors import UsageError
from .network import MTU_LEAST, network_check
from .scenario import LABEL_LENGTH, NO_QUEUE, Mode, Scenario

FANOUTS = ("", "hash", "cpu")
SCHED = re.compile(r"inherit|other|(rr|fifo):([1-9]|[1-9][0-9])")
RPS = re.compile(r"\d+|(client|router|server)=\d+(,(client|router|server)=\d+)*")
NOOP_RESERVED = re.compile(r"(-q|--(queue|json|sched|check)\b)")
PIN = re.compile(r"|((client|server|daemon)=[0-9,-]+,?)+")
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")
UDP_PAYLOAD_LEAST = 32  # room for what nfq-udp writes
UDP_SEGMENTS_MOST = 64  # that a kernel before Linux 6.9 takes at once


def scenario_check(scenario: Scenario, source: str) -> None:
    """Whether the fields make sense together; after options have replaced some, once more."""
    names = [mode.name for mode in scenario.modes]
    problems = {
        f"name \"{scenario.name}\": use a-z, 0-9, - and .": not NAME.fullmatch(scenario.name),
        "blocks 0: at least 1": scenario.blocks < 1,
        f"sched \"{scenario.sched}\": inherit, other, rr:1-99 or fifo:1-99": not SCHED.fullmatch(scenario.sched),
        f"pin \"{scenario.pin}\": client=CPUS,server=CPUS,daemon=CPUS": not PIN.fullmatch(scenario.pin),
        f"cc \"{scenario.cc}\": not the name of a congestion control": not re.fullmatch(r"[a-z0-9_]+", scenario.cc),
        f"ping count {scenario.ping_count}: at most 65535": scenario.ping_count > 65535,
        f"iperf seconds {scenario.iperf_seconds}: 0 or more": scenario.iperf_seconds < 0,
        "ping interval 0: at least 1 ms": scenario.ping_interval_ms < 1,
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
        network = scenario.network_of(mode)
        for problem in (*_mode_check(mode), *_baseline_check(scenario, mode), *network_check(network),
                        *_udp_check(scenario, mode)):  # fmt: skip
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


def _udp_check(scenario: Scenario, mode: Mode) -> Iterator[str]:
    if not scenario.udp_bytes:
        if scenario.udp_pps_of(mode):
            yield "udp_pps means nothing without [udp]"
        return
    if not 1 <= scenario.udp_segments <= UDP_SEGMENTS_MOST:
        yield f"udp segments {scenario.udp_segments}: 1 to {UDP_SEGMENTS_MOST}"
    if not UDP_PAYLOAD_LEAST <= scenario.udp_bytes <= MTU_LEAST - 48:
        yield f"udp bytes {scenario.udp_bytes}: {UDP_PAYLOAD_LEAST} to {MTU_LEAST - 48}"
    if not scenario.udp_pps_of(mode):
        yield "udp pps 0: at least 1"
