# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON of `iperf3 -J`, one direction at a time, TCP or UDP.

iperf3 may exit with status 0 and an "error" key, may leave sums out, and has told of more received than was sent:
a figure is taken only if the whole document is there and its sums agree. The throughput is what arrived.
"""

from dataclasses import dataclass

from .document import Node, document_parse

# bits_per_second is bytes over seconds, which iperf3 rounds; the receiver's clock is read by another process.
RATE_TOLERANCE = 0.02
INTERVAL_TOLERANCE_S = 0.001


@dataclass(frozen=True)
class TrafficInterval:
    """Of all streams together, as the client counts them."""

    start_s: float
    end_s: float
    gbps: float


@dataclass(frozen=True)
class Traffic:
    protocol: str  # TCP or UDP
    reverse: bool  # the server sends
    streams: int
    seconds: float
    sent_bytes: int
    received_bytes: int
    gbps: float
    retransmits: int | None  # TCP
    sender_congestion: str | None  # TCP
    receiver_congestion: str | None  # TCP
    packets: int | None  # UDP
    lost_packets: int | None  # UDP
    local_cpu_percent: float
    remote_cpu_percent: float
    intervals: tuple[TrafficInterval, ...] = ()
    asked_pps: int | None = None  # of nfq-udp, as the rest
    segments: int | None = None
    duplicates: int | None = None
    reordered: int | None = None


def iperf3_parse(text: str, source: str) -> Traffic:
    document = document_parse(text, source)
    error = document.get("error")
    if error:
        raise document.refuse(f"iperf3 says: {error.text()}")
    start, end = document["start"]["test_start"], document["end"]
    protocol = start["protocol"].text()
    if protocol not in ("TCP", "UDP"):
        raise document.refuse(f"protocol {protocol}: only TCP and UDP are understood")
    if end.get("sum_sent_bidir_reverse"):
        raise document.refuse("--bidir is not understood: measure one direction at a time")
    intervals = _intervals_parse(document["intervals"], start["duration"].number())
    sent, received = end["sum_sent"], end["sum_received"]
    _sums_check(sent, received, omitted=start["omit"].number() > 0)
    cpu = end["cpu_utilization_percent"]
    tcp = protocol == "TCP"
    return Traffic(
        protocol=protocol,
        reverse=start["reverse"].integer() != 0,
        streams=start["num_streams"].count(),
        seconds=received["seconds"].number(),
        sent_bytes=sent["bytes"].count(),
        received_bytes=received["bytes"].count(),
        gbps=received["bits_per_second"].number() / 1e9,
        retransmits=sent["retransmits"].count() if tcp else None,
        sender_congestion=end["sender_tcp_congestion"].text() if tcp else None,
        receiver_congestion=end["receiver_tcp_congestion"].text() if tcp else None,
        packets=None if tcp else received["packets"].count(),
        lost_packets=None if tcp else _losses_check(received),
        local_cpu_percent=cpu["host_total"].number(),
        remote_cpu_percent=cpu["remote_total"].number(),
        intervals=intervals,
    )


def _intervals_parse(node: Node, duration: float) -> tuple[TrafficInterval, ...]:
    """Those that --omit leaves out are no part of the sums either; time begins anew after them."""
    sums = [interval["sum"] for interval in node]
    counted = [each for each in sums if not each["omitted"].boolean()]
    intervals = tuple(_interval_parse(each) for each in counted)
    for before, after, each in zip(intervals, intervals[1:], counted[1:]):
        if after.start_s < before.end_s - INTERVAL_TOLERANCE_S:
            raise each.refuse(f"begins at {after.start_s:g} s, before the last one ends")
    last = intervals[-1].end_s if intervals else 0.0
    if last < 0.9 * duration:
        raise node.refuse(f"end after {last:g} s of {duration:g} s")
    return intervals


def _interval_parse(sums: Node) -> TrafficInterval:
    start, end, bits = (sums[key].number() for key in ("start", "end", "bits_per_second"))
    interval = TrafficInterval(start, end, bits / 1e9)
    if not 0 <= interval.start_s <= interval.end_s or interval.gbps < 0:
        raise sums.refuse("runs backwards")
    return interval


def _sums_check(sent: Node, received: Node, omitted: bool) -> None:
    """After --omit each end begins to count by itself, so that what was on its way counts for the receiver only."""
    for sums in (sent, received):
        bits, seconds = 8 * sums["bytes"].count(), sums["seconds"].number()
        if bits == 0 or seconds <= 0:
            raise sums.refuse("is zero: nothing was measured")
        if abs(sums["bits_per_second"].number() * seconds / bits - 1) > RATE_TOLERANCE:
            raise sums.refuse("contradicts itself: bits_per_second is not bytes over seconds")
    if received["bytes"].integer() > sent["bytes"].integer() * (1.01 if omitted else 1):
        raise received.refuse("says more bytes than were sent")


def _losses_check(received: Node) -> int:
    lost = received["lost_packets"].count()
    if lost > received["packets"].count():
        raise received.refuse("says more packets lost than sent")
    return lost
