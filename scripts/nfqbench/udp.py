# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON of nfq-udp: datagrams at a rate, each of which was received or is missing."""

from .document import Node, document_parse
from .iperf3 import Traffic, TrafficInterval


def udp_parse(text: str, source: str) -> Traffic:
    document = document_parse(text, source)
    if document["schema"].integer() != 1:
        raise document.refuse(f"schema {document['schema'].integer()} is not understood, only 1")
    sent, received, lost = (document[key].count() for key in ("sent", "received", "lost"))
    size, seconds = document["bytes"].count(), document["receive_seconds"].number()
    if sent != received + lost:
        raise document.refuse(f"contradicts itself: {received} received and {lost} lost of {sent} sent")
    if document["strange"].count():
        raise document.refuse(f"{document['strange'].count()} datagrams were not those that were sent")
    if received < 2 or seconds <= 0:
        raise document.refuse("nothing was measured")
    return Traffic(
        protocol="UDP",
        reverse=False,
        streams=1,
        seconds=seconds,
        sent_bytes=sent * size,
        received_bytes=received * size,
        gbps=8e-9 * received * size / seconds,
        retransmits=None,
        sender_congestion=None,
        receiver_congestion=None,
        packets=sent,
        lost_packets=lost,
        local_cpu_percent=0.0,
        remote_cpu_percent=0.0,
        intervals=_intervals_parse(document, received, size, seconds),
        asked_pps=document["asked_pps"].count(),
        segments=document["segments"].count(),
        duplicates=document["duplicates"].count(),
        reordered=document["reordered"].count(),
    )


def _intervals_parse(document: Node, received: int, size: int, seconds: float) -> tuple[TrafficInterval, ...]:
    """A second each, but for the last one."""
    intervals, total = [], 0
    for node in document["intervals"]:
        start_s, end_s, count = node["start_s"].number(), min(node["end_s"].number(), seconds), node["received"].count()
        if not start_s < end_s:
            raise node.refuse("does not take any time")
        intervals.append(TrafficInterval(start_s, end_s, 8e-9 * count * size / (end_s - start_s)))
        total += count
    if total != received:
        raise document.refuse(f"contradicts itself: {received} received, {total} in its intervals")
    return tuple(intervals)
