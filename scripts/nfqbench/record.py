# SPDX-License-Identifier: GPL-2.0-or-later
"""A line of runs.jsonl: what was seen in one cell, and whether it counts. Written here, and read back for reports.

Figures of an invalid cell are kept for whoever wants to know why; `cell_parse` does not hand them on.
"""

import os
from dataclasses import asdict, dataclass

from . import SCHEMA
from .document import Node
from .evidence import Evidence, Snapshot
from .plan import PlannedCell

Json = dict[str, object]


@dataclass(frozen=True)
class Rtt:
    mean: float
    min: float
    max: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Cell:
    """What statistics are made of. An invalid cell has reasons and no figures."""

    block: int
    mode: str
    reasons: tuple[str, ...]
    rtt_us: Rtt | None = None
    gbps: float | None = None
    daemon_cpu_s_per_gb: float | None = None
    bytes_per_message: float | None = None

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
    for part in ("ping", "tcp", "udp", "queue", "daemon", "host"):
        record[part] = None
    if evidence:
        record["ping"] = _ping_part(evidence)
        if evidence.traffic:
            record[evidence.traffic.protocol.lower()] = asdict(evidence.traffic)
        if planned.mode.queue:
            record["queue"] = _queue_part(evidence)
            record["daemon"] = _daemon_part(evidence)
        record["host"] = _host_part(evidence)
    return record


def _ping_part(evidence: Evidence) -> Json | None:
    ping = evidence.ping
    if ping is None:
        return None
    part: Json = {
        key: getattr(ping, key) for key in ("transmitted", "received", "duplicates", "errors", "reordered")
    }
    figures = {"mean": ping.mean_us, "min": ping.min_us, "max": ping.max_us}
    figures.update(p50=ping.percentile_us(0.5), p99=ping.percentile_us(0.99))
    part.update({f"{key}_us": None if value is None else round(value, 3) for key, value in figures.items()})
    return part


def _queue_part(evidence: Evidence) -> Json | None:
    passages = evidence.passages()
    if passages is None:
        return None
    start, pinged, end = passages
    packets = end.queue.id_sequence - pinged.queue.id_sequence
    size = end.rule.bytes - pinged.rule.bytes
    return {
        "copy_mode": end.queue.copy_mode,
        "copy_range": end.queue.copy_range,
        "dropped": end.queue.dropped,
        "user_dropped": end.queue.user_dropped,
        "ping_packets": pinged.queue.id_sequence - start.queue.id_sequence,
        "load_packets": packets,
        "load_rule_packets": end.rule.packets - pinged.rule.packets,
        "load_bytes": size,
        "bytes_per_message": size / packets if packets and evidence.traffic else None,
    }


def _daemon_part(evidence: Evidence) -> Json:
    part: Json = {"exit_status": evidence.processor_status}
    part["threads"] = [asdict(thread) for thread in evidence.threads]
    if evidence.daemon:
        part.update(asdict(evidence.daemon[-1]))
    part["load_cpu_s"] = cpu_s = _load_cpu(evidence)
    passages = evidence.passages()
    size = passages[2].rule.bytes - passages[1].rule.bytes if passages else 0
    part["cpu_s_per_gb"] = cpu_s / size * 1e9 if cpu_s is not None and size else None
    return part


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
    block, mode = node["block"].count(), node["mode"].text()
    reasons = tuple(reason.text() for reason in node["reasons"])
    if node["valid"].boolean() == bool(reasons):
        raise node.refuse("is valid with reasons, or invalid without")
    if reasons:
        return Cell(block, mode, reasons)
    ping, queue, daemon = (node.get(key) for key in ("ping", "queue", "daemon"))
    traffic = node.get("tcp") or node.get("udp")
    cpu_s = daemon.get("cpu_s_per_gb") if daemon else None
    message = queue.get("bytes_per_message") if queue else None
    return Cell(
        block, mode, reasons,
        rtt_us=Rtt(*(ping[f"{key}_us"].number() for key in ("mean", "min", "max", "p50", "p99"))) if ping else None,
        gbps=traffic["gbps"].number() if traffic else None,
        daemon_cpu_s_per_gb=cpu_s.number() if cpu_s else None,
        bytes_per_message=message.number() if message else None,
    )  # fmt: skip
