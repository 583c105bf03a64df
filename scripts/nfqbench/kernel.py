# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel and netns.sh tell about a cell: queues, rules, links, IP counters, threads, CPU time."""

import re
from dataclasses import dataclass

from .document import document_parse
from .errors import Refused

POLICIES = ("other", "rr", "fifo", "batch", "idle", "deadline")
DISCARDS = ("InHdrErrors", "InDiscards", "OutDiscards", "OutNoRoutes")
OFFLOADS = {
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "tx-checksumming": "tx-checksumming",
    "rx-checksumming": "rx-checksumming",
}


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

    def minus(self, before: "Link", side: str) -> tuple[int, int]:
        """Packets and bytes of a side, rx or tx, since then."""
        if side == "rx":
            return self.rx_packets - before.rx_packets, self.rx_bytes - before.rx_bytes
        return self.tx_packets - before.tx_packets, self.tx_bytes - before.tx_bytes


@dataclass(frozen=True)
class Ip:
    """Packets of one version of IP in one namespace. A kernel that counts what is transmitted, behind all hooks, counts
    what is sent before OUTPUT; of an older one it depends on the version of IP."""

    received: int
    delivered: int
    sent: int
    transmitted: int | None  # None: an older kernel
    discards: dict[str, int]


@dataclass(frozen=True)
class Throttled:
    """How often something was slowed down: a hot CPU, our cgroup, a real-time task. None where it cannot be read."""

    thermal: int | None
    cgroup: int | None
    realtime: int | None


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


def qdiscs_parse(text: str, source: str) -> dict[str, int]:
    """`tc -s -j qdisc`: what was dropped at each device."""
    drops: dict[str, int] = {}
    for entry in document_parse(text, source):
        device = entry["dev"].text()
        drops[device] = drops.get(device, 0) + entry["drops"].count()
    return drops


def ip_parse(text: str, source: str) -> dict[str, Ip]:
    """By version, of /proc/net/snmp and snmp6, one behind the other."""
    counters = _counters_parse(text, source)
    return {"4": _ip_make(counters, "Ip:", source), "6": _ip_make(counters, "Ip6", source)}


def _counters_parse(text: str, source: str) -> Settings:
    """Lines of a group's names, then of its values, to GROUP:NAME; and lines of one name and its value."""
    counters, lines = Settings(source), iter(text.splitlines())
    for line in lines:
        words = line.split()
        if words and words[0].endswith(":"):
            group, values = words[0], next(lines, "").split()
            if len(values) != len(words) or values[0] != group:
                raise Refused(f"{source}: not as many values as names: {group}")
            counters.update((group + name, value) for name, value in zip(words[1:], values[1:]))
        elif len(words) == 2:
            counters[words[0]] = words[1]
        else:
            raise Refused(f"{source}: not counters: \"{line}\"")
    return counters


def _ip_make(counters: Settings, prefix: str, source: str) -> Ip:
    def count(name: str) -> int:
        return number_parse(counters[name], f"{source}: {name}")

    transmitted = f"{prefix}OutTransmits"
    return Ip(
        received=count(f"{prefix}InReceives"),
        delivered=count(f"{prefix}InDelivers"),
        sent=count(f"{prefix}OutRequests"),
        transmitted=count(transmitted) if transmitted in counters else None,
        discards={name: count(f"{prefix}{name}") for name in DISCARDS},
    )


def softnet_parse(text: str, source: str) -> int:
    """Dropped because a CPU's backlog was full: the second column of /proc/net/softnet_stat, a line a CPU."""
    lines = [line.split() for line in text.splitlines()]
    if not lines or not all(len(words) > 1 and re.fullmatch(r"[0-9a-f]+", words[1]) for words in lines):
        raise Refused(f"{source}: not /proc/net/softnet_stat")
    return sum(int(words[1], 16) for words in lines)


def throttled_parse(text: str, source: str) -> Throttled:
    told = settings_parse(text, source)
    values = [
        number_parse(told[key], f"{source}: {key}") if told[key] else None for key in ("thermal", "cgroup", "realtime")
    ]
    return Throttled(*values)


def offloads_parse(text: str, source: str) -> dict[str, dict[str, bool]]:
    """ethtool -k by device, "NAMESPACE DEVICE: " before each line."""
    devices: dict[str, dict[str, bool]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\S+ (\S+):\s+([\w-]+): (on|off).*", line)
        if match and match[2] in OFFLOADS:
            devices.setdefault(match[1], {})[OFFLOADS[match[2]]] = match[3] == "on"
    if not devices or any(len(features) != len(OFFLOADS) for features in devices.values()):
        raise Refused(f"{source}: does not tell of {', '.join(OFFLOADS)}")
    return devices


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


def udp_parse(text: str, source: str) -> dict[str, int]:
    """By version of IP: datagrams that came and that no program got, of /proc/net/snmp and snmp6."""
    counters = _counters_parse(text, source)
    return {
        "4": number_parse(counters["Udp:InErrors"], f"{source}: Udp: InErrors"),
        "6": number_parse(counters["Udp6InErrors"], f"{source}: Udp6InErrors"),
    }
