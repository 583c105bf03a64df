# SPDX-License-Identifier: GPL-2.0-or-later
"""The raw folder that cell.sh leaves of one cell, parsed. Anything that is missing or not understood is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from . import kernel
from .daemon import Daemon, daemon_parse
from .document import file_parse
from .errors import Refused
from .iperf3 import Traffic, iperf3_parse
from .ping import Ping, ping_parse
from .udp import udp_parse

T = TypeVar("T")
ROLES = ("client", "router", "server")

Offloads = dict[str, dict[str, bool]]


@dataclass(frozen=True)
class Passage:
    """What went through our queues up to one moment: counted by the rule before them, and by the queues."""

    rule: kernel.Rule
    queues: tuple[kernel.Queue, ...]

    @property
    def ids(self) -> int:
        """Each queue counts its own."""
        return sum(queue.id_sequence for queue in self.queues)

    @property
    def dropped(self) -> int:
        """Because a queue was full: these have no id."""
        return sum(queue.dropped for queue in self.queues)

    @property
    def user_dropped(self) -> int:
        """Because a socket buffer was full: these have an id."""
        return sum(queue.user_dropped for queue in self.queues)

    @property
    def lost(self) -> int:
        return self.dropped + self.user_dropped

    @property
    def arrived(self) -> int:
        return self.ids + self.dropped

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self.queues)

    @property
    def given(self) -> int:
        """Those that a processor got and has answered, if it answers at all."""
        return self.ids - self.user_dropped - self.waiting

    @property
    def owners(self) -> tuple[int, ...]:
        return tuple(queue.portid for queue in self.queues)


@dataclass(frozen=True)
class Snapshot:
    """What the kernel counted up to one moment."""

    passage: Passage | None  # None if there was no rule or nobody had bound one of our queues
    any_queue: bool  # there was a rule, or somebody had bound some queue
    links: dict[str, kernel.Link]  # "router to-server": ...
    cpu: kernel.CpuTime
    processor_ticks: int | None
    processor_rss_kib: int | None
    tainted: int
    # What older runs do not know is None.
    ip: dict[str, kernel.Ip] | None = None  # by role, of the version that is measured
    qdisc_drops: dict[str, int] | None = None  # "router to-server": ...
    softnet_drops: int | None = None
    throttled: kernel.Throttled | None = None
    udp_errors: dict[str, int] | None = None  # by role: datagrams that came and that no program got
    conntrack_entries: int | None = None  # None too where the kernel has no connection tracking
    nat_packets: int | None = None  # connections that were translated


@dataclass(frozen=True)
class Evidence:
    backend: str
    bypass: bool
    mtu: int
    ping: Ping | None
    traffic: Traffic | None
    iperf3_status: int | None
    daemon: tuple[Daemon, ...]  # after ping, at the end; empty for another program
    processor_status: int | None
    threads: tuple[kernel.Thread, ...]
    start: Snapshot
    pinged: Snapshot  # before iperf3
    end: Snapshot
    # What older runs do not know is None or empty.
    hook: str = ""
    together: bool = False  # ping ran while iperf3 did
    tso: bool | None = None  # as cell.sh says that it is everywhere
    gro: bool | None = None
    offloads: Offloads | None = None  # as set up: "client eth0": ...
    end_offloads: Offloads | None = None
    topology: str | None = None
    family: int | None = None
    gso_max: int | None = None
    conntrack: str | None = None
    tunnel: str | None = None

    def passages(self) -> tuple[Passage, Passage, Passage] | None:
        """At start, after ping and at the end, if there were both rule and queues all the time."""
        start, pinged, end = self.start.passage, self.pinged.passage, self.end.passage
        return (start, pinged, end) if start and pinged and end else None


def evidence_read(folder: Path) -> Evidence:
    if (folder / "error").exists():
        raise Refused(file_parse(folder, "error", lambda text, _: text.strip()))
    asked = file_parse(folder, "cell.conf", kernel.settings_parse)
    status = file_parse(folder, "end/netns.status", kernel.settings_parse)
    namespaces = _namespaces(status)
    queued, loaded = asked["mode"] == "queue", asked["iperf_seconds"] != "0"
    foreign = asked["processor"] != "nfq-noop"
    start, pinged, end = (_snapshot_read(folder, moment, asked) for moment in ("start", "ping", "end"))
    if not start.links.keys() == pinged.links.keys() == end.links.keys():
        raise Refused("links came or went while measuring")
    return Evidence(
        backend=status["backend"],
        bypass=status["bypass"] != "no",
        mtu=kernel.number_parse(status["mtu"], "end/netns.status: mtu"),
        ping=_output_read(folder, "ping.txt", ping_parse) if asked["ping_count"] != "0" else None,
        traffic=_traffic_read(folder, asked) if loaded else None,
        iperf3_status=file_parse(folder, f"{_load_tool(asked)}.status", kernel.number_parse) if loaded else None,
        daemon=file_parse(folder, "processor.json", daemon_parse) if queued and not foreign else (),
        processor_status=file_parse(folder, "processor.status", kernel.number_parse) if queued else None,
        threads=file_parse(folder, "sched.txt", kernel.threads_parse) if queued else (),
        start=start,
        pinged=pinged,
        end=end,
        hook=asked["hook"],
        together=asked.get("together") == "yes",
        tso=_switch_parse(asked, "tso"),
        gro=_switch_parse(asked, "gro"),
        offloads=_devices_read(folder, "offloads.{}.txt", namespaces, kernel.offloads_parse),
        end_offloads=_devices_read(folder, "end/offloads.{}.txt", namespaces, kernel.offloads_parse),
        topology=status["topology"],
        family=kernel.number_parse(asked["family"], "cell.conf: family"),
        gso_max=_number_known(asked, "gso_max"),
        conntrack=status.get("conntrack"),
        tunnel=status.get("tunnel"),
    )


def _load_tool(asked: kernel.Settings) -> str:
    return "udp" if asked.get("udp") else "iperf3"


def _traffic_read(folder: Path, asked: kernel.Settings) -> Traffic:
    tool = _load_tool(asked)
    return _output_read(folder, f"{tool}.json", udp_parse if tool == "udp" else iperf3_parse)


def _number_known(settings: kernel.Settings, key: str) -> int | None:
    """None where it is not told."""
    text = settings.get(key, "")
    return kernel.number_parse(text, f"{settings.source}: {key}") if text else None


def _output_read(folder: Path, name: str, parse: Callable[[str, str], T]) -> T:
    """If there is no result, the tool's last words say why."""
    try:
        return file_parse(folder, name, parse)
    except Refused as error:
        words = (folder / name).with_suffix(".err")
        last = words.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] if words.exists() else []
        raise Refused(": ".join([str(error), *last])) from None


def _snapshot_read(folder: Path, moment: str, asked: kernel.Settings) -> Snapshot:
    status = file_parse(folder, f"{moment}/netns.status", kernel.settings_parse)
    queues = file_parse(folder, f"{moment}/queue", kernel.queues_parse)
    ours = [queues[number] for number in _numbers_asked(asked) if number in queues]
    complete = len(ours) == len(_numbers_asked(asked))
    rule = kernel.rule_parse(status, asked["family"]) if status["queues"] else None
    namespaces = _namespaces(status)
    links = {}
    for role, namespace in namespaces.items():
        for device, link in file_parse(folder, f"{moment}/links.{namespace}.json", kernel.links_parse).items():
            links[f"{role} {device}"] = link
    process, queued = f"{moment}/proc.processor", asked["mode"] == "queue"
    return Snapshot(
        passage=Passage(rule, tuple(ours)) if rule and complete else None,
        any_queue=bool(rule or queues),
        links=links,
        cpu=file_parse(folder, f"{moment}/proc.stat", kernel.cpu_parse),
        processor_ticks=file_parse(folder, f"{process}.stat", kernel.process_ticks_parse) if queued else None,
        processor_rss_kib=file_parse(folder, f"{process}.status", kernel.memory_parse) if queued else None,
        tainted=file_parse(folder, f"{moment}/tainted", kernel.number_parse),
        ip=_ip_read(folder, moment, namespaces, asked["family"]),
        qdisc_drops=_devices_read(folder, f"{moment}/qdiscs.{{}}.json", namespaces, kernel.qdiscs_parse),
        softnet_drops=_known_read(folder, f"{moment}/softnet", kernel.softnet_parse),
        throttled=_known_read(folder, f"{moment}/throttled", kernel.throttled_parse),
        udp_errors=_udp_read(folder, moment, namespaces, asked["family"]) if asked.get("udp") else None,
        conntrack_entries=_number_known(status, "conntrack_entries"),
        nat_packets=_number_known(status, "nat_packets"),
    )


def _namespaces(status: kernel.Settings) -> dict[str, str]:
    return {role: status[f"{role}_ns"] for role in ROLES if status[f"{role}_ns"]}


def _known_read(folder: Path, name: str, parse: Callable[[str, str], T]) -> T | None:
    """Cells of older versions have fewer files."""
    return file_parse(folder, name, parse) if (folder / name).exists() else None


def _devices_read(
    folder: Path, name: str, namespaces: dict[str, str], parse: Callable[[str, str], dict[str, T]]
) -> dict[str, T] | None:
    """A file a namespace, with something of each device: "ROLE DEVICE"."""
    read = {role: _known_read(folder, name.format(namespace), parse) for role, namespace in namespaces.items()}
    if None in read.values():
        return None
    return {f"{role} {device}": value for role, told in read.items() if told for device, value in told.items()}


def _ip_read(folder: Path, moment: str, namespaces: dict[str, str], family: str) -> dict[str, kernel.Ip] | None:
    read = {
        role: _known_read(folder, f"{moment}/snmp.{namespace}", kernel.ip_parse)
        for role, namespace in namespaces.items()
    }
    known = {role: versions[family] for role, versions in read.items() if versions}
    return known if known.keys() == read.keys() else None


def _udp_read(folder: Path, moment: str, namespaces: dict[str, str], family: str) -> dict[str, int] | None:
    read = {
        role: _known_read(folder, f"{moment}/snmp.{namespace}", kernel.udp_parse)
        for role, namespace in namespaces.items()
    }
    return {role: versions[family] for role, versions in read.items() if versions} or None


def _switch_parse(asked: kernel.Settings, key: str) -> bool | None:
    return {"on": True, "off": False}.get(asked[key])


def _numbers_asked(asked: kernel.Settings) -> range:
    first = kernel.number_parse(asked["queue"], "cell.conf: queue")
    return range(first, first + kernel.number_parse(asked["queues"], "cell.conf: queues"))
