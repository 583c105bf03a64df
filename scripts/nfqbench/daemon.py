# SPDX-License-Identifier: GPL-2.0-or-later
"""nfq-noop's JSON: one object a line, the last one written when it stopped."""

from dataclasses import dataclass

from . import SCHEMA
from .document import Node, documents_parse


@dataclass(frozen=True)
class Daemon:
    """What nfq-noop said at one moment, its queues summed."""

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


def daemon_parse(text: str, source: str) -> tuple[Daemon, ...]:
    return tuple(_object_parse(document) for document in documents_parse(text, source))


def _object_parse(document: Node) -> Daemon:
    if document["schema"].integer() != SCHEMA:
        raise document.refuse(f"schema {document['schema'].integer()} is not understood, only {SCHEMA}")
    queues = list(document["queues"])
    if not queues:
        raise document.refuse("has no queue")
    return Daemon(
        version=document["version"].text(),
        gso=document["gso"].boolean(),
        policy=document["sched"]["policy"].text(),
        priority=document["sched"]["priority"].count(),
        lost=document["lost"].count(),
        packets=_sum(queues, "packets"),
        bytes=_sum_known(queues, "bytes"),
        gso_packets=_sum(queues, "gso_packets"),
        truncated_packets=_sum(queues, "truncated_packets"),
        max_packet_bytes=_max_known(queues, "max_packet_bytes"),
        receive_calls=_sum(queues, "receive_calls"),
        send_calls=_sum(queues, "send_calls"),
        overruns=_sum(queues, "overruns"),
        lost_ids=_sum(queues, "lost_ids"),
        verdict_errors=_sum(queues, "verdict_errors"),
        flushed=_sum(queues, "flushed"),
        cpu_s=sum(queue[which].number() for queue in queues for which in ("user_s", "system_s")),
        voluntary_switches=_sum(queues, "voluntary_switches"),
        involuntary_switches=_sum(queues, "involuntary_switches"),
    )


def _sum(queues: list[Node], key: str) -> int:
    return sum(queue[key].count() for queue in queues)


def _known(queues: list[Node], key: str) -> list[int]:
    """With `--copy meta` the kernel tells no lengths: null."""
    nodes = [queue.get(key) for queue in queues]
    return [node.count() for node in nodes if node]


def _sum_known(queues: list[Node], key: str) -> int | None:
    values = _known(queues, key)
    return sum(values) if len(values) == len(queues) else None


def _max_known(queues: list[Node], key: str) -> int | None:
    values = _known(queues, key)
    return max(values) if len(values) == len(queues) else None
