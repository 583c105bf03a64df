# SPDX-License-Identifier: GPL-2.0-or-later
"""A line of runs.jsonl: what was seen in one cell, and whether it counts. Written here, and read back for reports.

It carries the evidence itself: "ping" and "tcp" or "udp" as the tools told, "evidence" the rest. All other figures
follow from these, so that anybody can judge the cell again and make the same line (verify.py).
Figures of an invalid cell are kept for whoever wants to know why; `cell_parse` does not hand them on.
"""

import os
from dataclasses import asdict, dataclass
from typing import Any

from . import SCHEMA
from .daemon import Latency, Percentiles
from .document import Node, value_read
from .evidence import Evidence, Snapshot
from .iperf3 import TrafficInterval
from .ledger import Ledger, ledger_make
from .plan import PlannedCell

Json = dict[str, object]

TAIL_PINGS = 1000  # from which on one of a thousand can be told

TOLD_APART = ("ping", "traffic")  # parts of the evidence that have a place of their own in the line


@dataclass(frozen=True)
class Rtt:
    mean: float
    min: float
    max: float
    p50: float
    p99: float
    p999: float | None = None  # of at least TAIL_PINGS pings


@dataclass(frozen=True)
class QueueShare:
    queue: int
    packets: int  # while iperf3 ran


@dataclass(frozen=True)
class Cell:
    """What statistics are made of. An invalid cell has reasons and no figures but its ledger."""

    block: int
    position: int
    started: str
    mode: str
    reasons: tuple[str, ...]
    ledger: Ledger | None = None  # None in older runs
    rtts_us: tuple[float, ...] = ()  # of each ping, in order of arrival; empty in older runs
    replied_at_s: tuple[float, ...] = ()
    intervals: tuple[TrafficInterval, ...] = ()
    rtt_us: Rtt | None = None
    gbps: float | None = None
    daemon_cpu_s_per_gb: float | None = None
    bytes_per_message: float | None = None
    calls_per_packet: float | None = None
    lost_packets: int = 0
    queues: tuple[QueueShare, ...] = ()
    latency_us: Latency | None = None
    sent_pps: float | None = None  # datagrams a second, of a load of them; None for any other
    received_pps: float | None = None
    udp_lost: int | None = None

    @property
    def valid(self) -> bool:
        return not self.reasons


def record_make(planned: PlannedCell, started: str, evidence: Evidence | None, reasons: tuple[str, ...]) -> Json:
    record: Json = {
        "schema": SCHEMA,
        "block": planned.block,
        "position": planned.position,
        "mode": planned.mode.name,
        "started": started,
        "raw": f"raw/{planned.folder}",
        "valid": not reasons,
        "reasons": list(reasons),
    }
    for part in ("ping", "tcp", "udp", "queue", "daemon", "host", "ledger", "evidence"):
        record[part] = None
    if evidence:
        record["ping"] = _ping_part(evidence)
        if evidence.traffic:
            record[evidence.traffic.protocol.lower()] = asdict(evidence.traffic)
        if planned.mode.queue:
            record["queue"] = _queue_part(evidence)
            record["daemon"] = _daemon_part(evidence)
        record["host"] = _host_part(evidence)
        record["ledger"] = ledger_make(evidence)
        record["evidence"] = {key: value for key, value in asdict(evidence).items() if key not in TOLD_APART}
    return record


def evidence_restore(record: Node) -> Evidence | None:
    """The evidence that `record_make` was given; None if there was none, or if an older version did not keep it."""
    rest = record.get("evidence")
    if rest is None:
        return None
    ping, traffic = record.get("ping"), record.get("tcp") or record.get("udp")
    told: dict[str, Any] = {key: node.value if node else None for key, node in zip(TOLD_APART, (ping, traffic))}
    evidence: Evidence = value_read(Node({**rest.mapping(), **told}, record.source), Evidence)
    return evidence


def _ping_part(evidence: Evidence) -> Json | None:
    ping = evidence.ping
    if ping is None:
        return None
    figures = {"mean": ping.mean_us, "p50": ping.percentile_us(0.5), "p99": ping.percentile_us(0.99)}
    if ping.received >= TAIL_PINGS:
        figures["p999"] = ping.percentile_us(0.999)
    rounded = {f"{key}_us": None if value is None else round(value, 3) for key, value in figures.items()}
    return {**asdict(ping), **rounded}


def _queue_part(evidence: Evidence) -> Json | None:
    passages = evidence.passages()
    if passages is None:
        return None
    start, pinged, end = passages
    packets = end.ids - pinged.ids
    size = end.rule.bytes - pinged.rule.bytes
    return {
        "copy_mode": end.queues[0].copy_mode,
        "copy_range": end.queues[0].copy_range,
        "dropped": end.dropped,
        "user_dropped": end.user_dropped,
        "ping_packets": pinged.ids - start.ids,
        "load_packets": packets,
        "load_rule_packets": end.rule.packets - pinged.rule.packets,
        "load_bytes": size,
        "bytes_per_message": size / packets if packets and evidence.traffic else None,
    }


def _daemon_part(evidence: Evidence) -> Json:
    part: Json = {"exit_status": evidence.processor_status}
    part["threads"] = [asdict(thread) for thread in evidence.threads]
    if evidence.daemon:
        part.update(asdict(evidence.daemon[-1]), ping_minor_faults=evidence.daemon[0].minor_faults)
    part.update(_load_counters(evidence))
    part["queues"] = _queue_shares(evidence)
    part["rss_kib"] = evidence.end.processor_rss_kib
    part["load_cpu_s"] = cpu_s = _load_cpu(evidence)
    passages = evidence.passages()
    size = passages[2].rule.bytes - passages[1].rule.bytes if passages else 0
    part["cpu_s_per_gb"] = cpu_s / size * 1e9 if cpu_s is not None and size else None
    return part


def _load_counters(evidence: Evidence) -> Json:
    """What the daemon did while iperf3 ran; of another program nothing is known."""
    keys = ("packets", "receive_calls", "send_calls", "minor_faults")
    counters: Json = {f"load_{key}": None for key in keys}
    if evidence.traffic and len(evidence.daemon) > 1:
        for key in keys:
            before, after = getattr(evidence.daemon[0], key), getattr(evidence.daemon[-1], key)
            counters[f"load_{key}"] = None if before is None or after is None else after - before
    return counters


def _queue_shares(evidence: Evidence) -> list[Json] | None:
    """By the kernel's ids, which are known for every program."""
    passages = evidence.passages()
    if passages is None or not evidence.traffic:
        return None
    _, pinged, end = passages
    return [
        {"queue": after.number, "packets": after.id_sequence - before.id_sequence}
        for before, after in zip(pinged.queues, end.queues)
    ]


def _load_cpu(evidence: Evidence) -> float | None:
    """CPU time of the processor while iperf3 ran: by its own account, to the microsecond, or by the kernel's ticks."""
    if not evidence.traffic:
        return None
    if len(evidence.daemon) > 1:
        return evidence.daemon[-1].cpu_s - evidence.daemon[0].cpu_s
    before, after = evidence.pinged.processor_ticks, evidence.end.processor_ticks
    if before is None or after is None:
        return None
    return (after - before) / os.sysconf("SC_CLK_TCK")


def _host_part(evidence: Evidence) -> Json:
    part: Json = {"tainted": evidence.end.tainted}
    part["ping_busy"], part["ping_stolen"] = _cpu_shares(evidence.start, evidence.pinged)
    part["load_busy"], part["load_stolen"] = _cpu_shares(evidence.pinged, evidence.end)
    return part


def _cpu_shares(before: Snapshot, after: Snapshot) -> tuple[float | None, float | None]:
    """Of all CPUs' time between two snapshots: how much was used, and how much the hypervisor gave to others."""
    total = after.cpu.total - before.cpu.total
    if total <= 0:
        return None, None
    return (after.cpu.busy - before.cpu.busy) / total, (after.cpu.stolen - before.cpu.stolen) / total


def cell_parse(node: Node) -> Cell:
    if node["schema"].integer() != SCHEMA:
        raise node.refuse(f"schema {node['schema'].integer()} is not understood, only {SCHEMA}")
    place = (node["block"].count(), node["position"].count(), node["started"].text(), node["mode"].text())
    reasons = tuple(reason.text() for reason in node["reasons"])
    if node["valid"].boolean() == bool(reasons):
        raise node.refuse("is valid with reasons, or invalid without")
    ledger = node.get("ledger")
    balance = value_read(ledger, Ledger) if ledger else None
    if reasons:
        return Cell(*place, reasons, balance)
    ping, queue, daemon = (node.get(key) for key in ("ping", "queue", "daemon"))
    traffic = node.get("tcp") or node.get("udp")
    cpu_s = daemon.get("cpu_s_per_gb") if daemon else None
    latency = daemon.get("latency_us") if daemon else None
    shares = daemon.get("queues") if daemon else None
    message = queue.get("bytes_per_message") if queue else None
    return Cell(
        *place, reasons, balance,
        rtts_us=_numbers_parse(ping.get("rtts_us") if ping else None),
        replied_at_s=_numbers_parse(ping.get("replied_at_s") if ping else None),
        intervals=_intervals_parse(traffic),
        rtt_us=_rtt_parse(ping) if ping else None,
        gbps=_figure(traffic["gbps"], 1e6) if traffic else None,
        daemon_cpu_s_per_gb=cpu_s.number() if cpu_s else None,
        bytes_per_message=message.number() if message else None,
        calls_per_packet=_calls_parse(daemon) if daemon else None,
        lost_packets=sum(queue[key].count() for key in ("dropped", "user_dropped")) if queue else 0,
        queues=tuple(QueueShare(share["queue"].count(), share["packets"].count()) for share in shares or ()),
        latency_us=_latency_parse(latency) if latency else None,
        **_datagrams_parse(traffic),
    )  # fmt: skip


def _rtt_parse(ping: Node) -> Rtt:
    mean, least, greatest, p50, p99 = (
        _figure(ping[f"{key}_us"], 1e9) for key in ("mean", "min", "max", "p50", "p99")
    )  # fmt: skip
    tail = ping.get("p999_us")
    return Rtt(mean, least, greatest, p50, p99, _figure(tail, 1e9) if tail else None)


def _figure(node: Node, most: float) -> float:
    if not 0 <= node.number() <= most:
        raise node.refuse(f"is {node.number():g}: that is never measured")
    return node.number()


def _numbers_parse(node: Node | None) -> tuple[float, ...]:
    return tuple(item.number() for item in node or ())


def _intervals_parse(traffic: Node | None) -> tuple[TrafficInterval, ...]:
    node = traffic.get("intervals") if traffic else None
    intervals: tuple[TrafficInterval, ...] = value_read(node, tuple[TrafficInterval, ...]) if node else ()
    return intervals


def _datagrams_parse(traffic: Node | None) -> dict[str, Any]:
    if not traffic or not traffic.get("asked_pps"):
        return {}
    sent, lost, seconds = traffic["packets"].count(), traffic["lost_packets"].count(), traffic["seconds"].number()
    if seconds <= 0 or lost > sent:
        raise traffic.refuse("are no datagrams that were sent")
    return {"sent_pps": sent / seconds, "received_pps": (sent - lost) / seconds, "udp_lost": lost}


def _calls_parse(daemon: Node) -> float | None:
    """System calls for each packet while iperf3 ran."""
    packets, receives, sends = (daemon.get(f"load_{key}") for key in ("packets", "receive_calls", "send_calls"))
    if not packets or not receives or not sends or not packets.count():
        return None
    return (receives.count() + sends.count()) / packets.count()


def _latency_parse(node: Node) -> Latency:
    return Latency(
        *(
            Percentiles(*(node[which][key].number() for key in ("p50", "p99", "p999", "max")))
            for which in ("receive_to_verdict", "verdict_call")
        )
    )
