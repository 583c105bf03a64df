# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel and netns.sh tell about a cell: queues, rules, links, threads, CPU time."""

import re
from dataclasses import dataclass

from .document import document_parse
from .errors import Refused

POLICIES = ("other", "rr", "fifo", "batch", "idle", "deadline")


@dataclass(frozen=True)
class Queue:
    """A line of /proc/net/netfilter/nfnetlink_queue."""

    number: int
    portid: int
    waiting: int
    copy_mode: int
    copy_range: int
    dropped: int
    user_dropped: int
    id_sequence: int


@dataclass(frozen=True)
class Rule:
    """Counters of the queue rules, both directions together."""

    packets: int
    bytes: int


@dataclass(frozen=True)
class Link:
    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int
    faults: int  # errors and drops, both directions

    @property
    def bytes(self) -> int:
        return self.rx_bytes + self.tx_bytes


@dataclass(frozen=True)
class Thread:
    policy: str
    priority: int
    name: str


@dataclass(frozen=True)
class CpuTime:
    """Of all CPUs since boot, in clock ticks."""

    busy: int
    stolen: int
    total: int


def queues_parse(text: str, source: str) -> dict[int, Queue]:
    queues = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != 9 or not all(field.isdecimal() for field in fields):
            raise Refused(f"{source}: not a line of nfnetlink_queue: \"{line}\"")
        queue = Queue(*(int(field) for field in fields[:8]))
        if queue.number in queues:
            raise Refused(f"{source}: queue {queue.number} is there twice")
        queues[queue.number] = queue
    return queues


class Settings(dict[str, str]):
    """key=value lines; asking for a key that is not there is a refusal."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source

    def __missing__(self, key: str) -> str:
        raise Refused(f"{self.source}: has no {key}=")


def settings_parse(text: str, source: str) -> Settings:
    settings = Settings(source)
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if not separator or not key.isidentifier():
            raise Refused(f"{source}: not key=value: \"{line}\"")
        if key in settings:
            raise Refused(f"{source}: {key} is there twice")
        settings[key] = value
    return settings


def rule_parse(status: Settings, family: str) -> Rule:
    packets, size = (
        number_parse(status[key], f"{status.source}: {key}") for key in (f"rule{family}_packets", f"rule{family}_bytes")
    )
    return Rule(packets, size)


def links_parse(text: str, source: str) -> dict[str, Link]:
    """`ip -s -j link`, without lo."""
    links = {}
    for entry in document_parse(text, source):
        name = entry["ifname"].text()
        rx, tx = entry["stats64"]["rx"], entry["stats64"]["tx"]
        if name != "lo":
            links[name] = Link(
                rx["bytes"].count(), rx["packets"].count(), tx["bytes"].count(), tx["packets"].count(),
                sum(side[what].count() for side in (rx, tx) for what in ("errors", "dropped")),
            )  # fmt: skip
    return links


def threads_parse(text: str, source: str) -> tuple[Thread, ...]:
    """sched.txt: TID POLICY PRIORITY COMMAND."""
    threads = []
    for line in text.splitlines():
        fields = line.split(maxsplit=3)
        if len(fields) != 4 or not fields[0].isdecimal() or fields[1] not in POLICIES or not fields[2].isdecimal():
            raise Refused(f"{source}: not TID POLICY PRIORITY COMMAND: \"{line}\"")
        threads.append(Thread(fields[1], int(fields[2]), fields[3]))
    return tuple(threads)


def cpu_parse(text: str, source: str) -> CpuTime:
    """The first line of /proc/stat: user nice system idle iowait irq softirq steal (guest is part of user)."""
    fields = text.split("\n", 1)[0].split()
    if len(fields) < 9 or fields[0] != "cpu" or not all(field.isdecimal() for field in fields[1:]):
        raise Refused(f"{source}: does not begin like /proc/stat")
    user, nice, system, idle, iowait, irq, softirq, steal = (int(field) for field in fields[1:9])
    busy = user + nice + system + irq + softirq
    return CpuTime(busy, steal, busy + idle + iowait + steal)


def process_ticks_parse(text: str, source: str) -> int:
    """User and system time of /proc/PID/stat; the command, in brackets, may contain anything."""
    fields = text.rpartition(")")[2].split()
    if len(fields) < 13 or not fields[11].isdecimal() or not fields[12].isdecimal():
        raise Refused(f"{source}: not /proc/PID/stat")
    return int(fields[11]) + int(fields[12])


def memory_parse(text: str, source: str) -> int:
    """KiB that are resident, of /proc/PID/status."""
    match = re.search(r"^VmRSS:\s*(\d+) kB$", text, re.MULTILINE)
    if not match:
        raise Refused(f"{source}: has no VmRSS")
    return int(match[1])


def number_parse(text: str, source: str) -> int:
    if not text.strip().isdecimal():
        raise Refused(f"{source}: not a number: \"{text.strip()}\"")
    return int(text)
