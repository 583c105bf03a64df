# SPDX-License-Identifier: GPL-2.0-or-later
"""nfq-noop's JSON: one object a line, the last one written when it stopped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import SCHEMA
from .document import Node, documents_parse


@dataclass(frozen=True)
class Percentiles:
    p50: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True)
class Latency:
    """Of several queues the worst."""

    receive_to_verdict: Percentiles
    verdict_call: Percentiles


@dataclass(frozen=True)
class Daemon:
    """What nfq-noop said at one moment, its queues summed. What it did not tell is None."""

    version: str
    gso: bool
    policy: str
    priority: int
    lost: int
    packets: int
    bytes: int | None
    gso_packets: int
    truncated_packets: int
    max_packet_bytes: int | None
    receive_calls: int
    send_calls: int
    overruns: int
    lost_ids: int
    verdict_errors: int
    flushed: int
    cpu_s: float
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int | None
    spin_us: float | None
    spin_receives: int | None
    memory_locked: bool | None
    maxlen: int | None  # the least of the queues
    rcvbuf_bytes: int | None  # the least of the queues
    latency_us: Latency | None


def daemon_parse(text: str, source: str) -> tuple[Daemon, ...]:
    return tuple(_object_parse(document) for document in documents_parse(text, source))


def _object_parse(document: Node) -> Daemon:
    if document["schema"].integer() != SCHEMA:
        raise document.refuse(f"schema {document['schema'].integer()} is not understood, only {SCHEMA}")
    queues = list(document["queues"])
    if not queues:
        raise document.refuse("has no queue")
    spin_us, memory_locked = document.get("spin_us"), document.get("memory_locked")
    return Daemon(
        version=document["version"].text(),
        gso=document["gso"].boolean(),
        policy=document["sched"]["policy"].text(),
        priority=document["sched"]["priority"].count(),
        lost=document["lost"].count(),
        packets=_sum(queues, "packets"),
        bytes=_known(queues, "bytes", sum),
        gso_packets=_sum(queues, "gso_packets"),
        truncated_packets=_sum(queues, "truncated_packets"),
        max_packet_bytes=_known(queues, "max_packet_bytes", max),
        receive_calls=_sum(queues, "receive_calls"),
        send_calls=_sum(queues, "send_calls"),
        overruns=_sum(queues, "overruns"),
        lost_ids=_sum(queues, "lost_ids"),
        verdict_errors=_sum(queues, "verdict_errors"),
        flushed=_sum(queues, "flushed"),
        cpu_s=sum(queue[which].number() for queue in queues for which in ("user_s", "system_s")),
        voluntary_switches=_sum(queues, "voluntary_switches"),
        involuntary_switches=_sum(queues, "involuntary_switches"),
        minor_faults=_known(queues, "minor_faults", sum),
        spin_us=spin_us.number() if spin_us else None,
        spin_receives=_known(queues, "spin_receives", sum),
        memory_locked=memory_locked.boolean() if memory_locked else None,
        maxlen=_known(queues, "maxlen", min),
        rcvbuf_bytes=_known(queues, "rcvbuf_bytes", min),
        latency_us=_latency_parse(queues),
    )


def _sum(queues: list[Node], key: str) -> int:
    return sum(queue[key].count() for queue in queues)


def _known(queues: list[Node], key: str, combine: Callable[[Sequence[int]], int]) -> int | None:
    """None unless all tell it: with `--copy meta` the kernel tells no lengths."""
    nodes = [queue.get(key) for queue in queues]
    values = [node.count() for node in nodes if node]
    return combine(values) if len(values) == len(queues) else None


def _latency_parse(queues: list[Node]) -> Latency | None:
    nodes = [queue.get("latency_us") for queue in queues]
    told = [node for node in nodes if node]
    if not told:
        return None
    return Latency(*(_worst([node[which] for node in told]) for which in ("receive_to_verdict", "verdict_call")))


def _worst(nodes: list[Node]) -> Percentiles:
    return Percentiles(*(max(node[key].number() for node in nodes) for key in ("p50", "p99", "p999", "max")))
