# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger of a cell: how many packets each station on their way counted, while ping ran and while iperf3 ran.

    veth_in     received by the links before the hook; also bytes, with 14 of Ethernet a packet
    ip_in       by IP before the hook
    rule        by the queue rule
    queue       by the kernel's queues: ids given out, and drops for want of room, which have none
    given       of these, not lost and not waiting any longer
    daemon      that nfq-noop saw                               verdicts   that it answered with success
    ip_out      by IP behind the hook
    veth_out    sent by the links behind the hook
    delivered   to programs and TCP at the ends

What must be equal (seen on Linux 6.18, both versions of IP, router and pair, TCP and UDP):

    veth_in = ip_in      if GRO is off; it makes fewer packets of them otherwise
    ip_in = rule         always; bytes as at veth_in but for Ethernet's, if GRO is off
    rule = queue         with NFQA_CFG_F_GSO, or while no aggregates come; without, the kernel segments in between,
                         which makes more
    given = daemon = verdicts = ip_out   always; another program may send packets of its own
    ip_out = veth_out    if the links have TSO, or without NFQA_CFG_F_GSO; aggregates are segmented here otherwise
    veth_out = delivered if GRO is off

IP does not see what a bridge forwards: veth_in = rule there, if GRO is off, and given = veth_out if links have TSO. The
packets of a tunnel are IP's, too, when they have been encrypted: those of the link that carries them are left out.

A station that a row, a topology or an older kernel does not have is None.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import Refused
from .evidence import Evidence, Passage, Snapshot
from .kernel import Ip
from .scenario import Mode

Ledger = dict[str, dict[str, int | None]]  # "ping" and "load": station: packets

# Counters are read one after the other, TCP may still be saying goodbye in between, and IPv6 reports its groups.
LATE_PACKETS = 8
ETHERNET_BYTES = 14

NAMES = {
    "veth_in": "veth before the hook",
    "ip_in": "IP before the hook",
    "rule": "the rule",
    "queue": "the queue",
    "given": "the queue's way out",
    "daemon": "the daemon",
    "verdicts": "the daemon's verdicts",
    "ip_out": "IP behind the hook",
    "veth_out": "veth behind the hook",
    "delivered": "the ends",
}
BESIDE = ("queue_lost", "waiting", "veth_in_bytes", "rule_bytes", "veth_out_bytes")
PHASES = {"ping": "ping", "load": "iperf3"}


@dataclass(frozen=True)
class Way:
    """What stands before and behind a hook."""

    role: str  # whose namespace has it
    links_in: tuple[str, ...]
    links_out: tuple[str, ...]
    ends: tuple[str, ...]
    outer: str = ""  # a link that carries a tunnel's packets, which IP counts once more
    routed: bool = True  # by IP, which counts what it forwards


ROUTER_LINKS = ("router to-client", "router to-server")
TUNNEL_LINKS = ("router to-client", "router wg0")
ENDS = ("client", "server")
WAYS = {
    "forward": Way("router", ROUTER_LINKS, ROUTER_LINKS, ENDS),
    "output": Way("client", (), ("client eth0",), ("server",)),
    "input": Way("client", ("client eth0",), (), ()),
}
OTHER_WAYS = {
    "tunnel": Way("router", TUNNEL_LINKS, TUNNEL_LINKS, (), outer="router to-server"),
    "bridge": Way("router", ROUTER_LINKS, ROUTER_LINKS, ENDS, routed=False),
    "lo": Way("client", (), (), ("client",)),
}


def way_of(evidence: Evidence) -> Way | None:
    """None in older runs."""
    way = OTHER_WAYS.get("tunnel" if evidence.tunnel else evidence.topology or "") or WAYS.get(evidence.hook)
    if way is None:
        return None
    links, roles = {*way.links_in, *way.links_out, *filter(None, [way.outer])}, {way.role, *way.ends}
    for snapshot in (evidence.start, evidence.pinged, evidence.end):
        if not links <= snapshot.links.keys() or not (snapshot.ip is None or roles <= snapshot.ip.keys()):
            raise Refused(f"hook {evidence.hook}: not the links and namespaces that it stands between")
    return way


def ledger_make(evidence: Evidence) -> Ledger:
    """A phase without measurement is empty. What ping and iperf3 say of the same phase stands beside the stations."""
    ledger: Ledger = {phase: {} for phase in PHASES}
    ping, traffic = evidence.ping, evidence.traffic
    if ping and not evidence.together:
        ledger["ping"] = {
            "ping_sent": ping.transmitted, "ping_received": ping.received,
            **_stations_count(evidence, evidence.start, evidence.pinged, _daemon_counts(evidence, 0)),
        }  # fmt: skip
    if traffic:
        ledger["load"] = {
            "iperf3_sent_bytes": traffic.sent_bytes, "iperf3_received_bytes": traffic.received_bytes,
            **_stations_count(evidence, evidence.pinged, evidence.end, _daemon_counts(evidence, 1)),
        }  # fmt: skip
    return ledger


def _daemon_counts(evidence: Evidence, phase: int) -> tuple[int | None, int | None]:
    """Packets and verdicts of a phase. The first report comes after ping: what was before it, the queue tells."""
    passage = evidence.start.passage
    if len(evidence.daemon) <= phase or passage is None:
        return None, None
    last = evidence.daemon[phase]
    refused = last.flushed + last.verdict_errors
    if phase == 0:
        return last.packets - passage.given, last.packets - refused - passage.given
    first = evidence.daemon[phase - 1]
    packets = last.packets - first.packets
    return packets, packets - refused + first.flushed + first.verdict_errors


def _stations_count(
    evidence: Evidence, before: Snapshot, after: Snapshot, daemon: tuple[int | None, int | None]
) -> dict[str, int | None]:
    way = way_of(evidence)
    if way is None:
        return {}
    counts: dict[str, int | None] = dict.fromkeys((*NAMES, *BESIDE))
    if way.links_in:
        counts["veth_in"], counts["veth_in_bytes"] = _links_count(before, after, way.links_in, "rx")
    if way.links_out:
        counts["veth_out"], counts["veth_out_bytes"] = _links_count(before, after, way.links_out, "tx")
    if before.ip and after.ip:
        if way.routed:
            old, new = _ip_around(way, before.ip[way.role]), _ip_around(way, after.ip[way.role])
            outer = _outer_count(way, before, after)
            counts["ip_in"], counts["ip_out"] = (_difference(*pair) for pair in zip(old, new, outer))
        if way.ends:
            counts["delivered"] = sum(after.ip[end].delivered - before.ip[end].delivered for end in way.ends)
    if before.passage and after.passage:
        counts.update(_passage_count(before.passage, after.passage))
        counts["daemon"], counts["verdicts"] = daemon
    return counts


def _links_count(before: Snapshot, after: Snapshot, names: tuple[str, ...], side: str) -> tuple[int, int]:
    passed = [after.links[name].minus(before.links[name], side) for name in names]
    return sum(packets for packets, _ in passed), sum(size for _, size in passed)


def _ip_around(way: Way, ip: Ip) -> tuple[int | None, int | None]:
    """Before and behind the hook. ForwDatagrams is not asked: it counts before FORWARD, but in older kernels behind."""
    if way.role == "router":
        return ip.received, ip.transmitted
    if way.links_in:
        return ip.received, ip.delivered
    return (None, None) if ip.transmitted is None else (ip.sent, ip.transmitted)


def _outer_count(way: Way, before: Snapshot, after: Snapshot) -> tuple[int, int]:
    """Encrypted packets that came in, and that went out."""
    if not way.outer:
        return 0, 0
    received, sent = (after.links[way.outer].minus(before.links[way.outer], side)[0] for side in ("rx", "tx"))
    return received, sent


def _difference(before: int | None, after: int | None, outer: int) -> int | None:
    return None if before is None or after is None else after - before - outer


def _passage_count(before: Passage, after: Passage) -> dict[str, int | None]:
    return {
        "rule": after.rule.packets - before.rule.packets,
        "rule_bytes": after.rule.bytes - before.rule.bytes,
        "queue": after.arrived - before.arrived,
        "given": after.given - before.given,
        "queue_lost": after.lost - before.lost,
        "waiting": after.waiting,
    }


def ledger_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    for phase, counts in ledger_make(evidence).items():
        exact = counts.get("ip_out") is not None
        for first, second, more, fewer in _relations(mode, evidence, phase == "load", exact):
            left, right = counts.get(first), counts.get(second)
            if left is None or right is None:
                continue
            if (right > left + LATE_PACKETS and not more) or (right < left - LATE_PACKETS and not fewer):
                yield f"ledger: {PHASES[phase]}: {left} packets at {NAMES[first]}, {right} at {NAMES[second]}"
        yield from _bytes_judge(evidence, phase, counts)


def _bytes_judge(evidence: Evidence, phase: str, counts: dict[str, int | None]) -> Iterator[str]:
    """GRO that makes one packet of several saves their headers. Of its packets a tunnel counts the encrypted bytes."""
    packets, size, ruled = (counts.get(key) for key in ("veth_in", "veth_in_bytes", "rule_bytes"))
    if packets is None or size is None or ruled is None:
        return
    size -= ETHERNET_BYTES * packets
    slack = LATE_PACKETS * evidence.mtu
    exact = not evidence.tunnel and (phase == "ping" or evidence.gro is False)
    if ruled > size + slack or (ruled < size - slack and exact):
        yield f"ledger: {PHASES[phase]}: {size} bytes at {NAMES['veth_in']}, {ruled} at {NAMES['rule']}"


def _relations(mode: Mode, evidence: Evidence, loaded: bool, exact: bool) -> Iterator[tuple[str, str, bool, bool]]:
    """Two stations that follow each other, and whether there may be more, or fewer, packets at the second. Whether the
    kernel segments before the queue is a claim of the row, and judged as such. Not `exact`: IP does not tell what left
    the hook, and the links behind it must do."""
    merged = loaded and evidence.gro is not False
    segmented_late = loaded and mode.gso is not False and (evidence.tso is not True or bool(evidence.tunnel))
    lossy = loaded and load_is_datagrams(evidence)
    routed = evidence.topology != "bridge"
    yield "veth_in", "ip_in", False, merged or lossy
    last, foreign = "ip_in" if routed else "veth_in", mode.queue and not evidence.daemon
    if mode.queue:
        yield last, "rule", False, not routed and (merged or lossy)
        yield "rule", "queue", loaded, False
        yield "given", "daemon", False, False
        last = "verdicts" if evidence.daemon else "given"
    if exact:
        yield last, "ip_out", foreign, False
        yield "ip_out", "veth_out", segmented_late, False
    else:
        yield last, "veth_out", foreign or segmented_late, not routed and merged and not mode.queue
    yield "veth_out", "delivered", False, merged or lossy


def load_is_datagrams(evidence: Evidence) -> bool:
    """At a rate of their own: some may be lost, which is what is measured."""
    return evidence.traffic is not None and evidence.traffic.asked_pps is not None


def losses_of(evidence: Evidence) -> tuple[int, int, int]:
    """Packets that were counted as dropped since ping began: in the queue, at the receiver's socket, elsewhere."""
    start, end = evidence.start, evidence.end
    queued = end.passage.lost - start.passage.lost if start.passage and end.passage else 0
    sockets, qdiscs = start.udp_errors or {}, start.qdisc_drops or {}
    socket = sum(errors - sockets.get(role, 0) for role, errors in (end.udp_errors or {}).items())
    elsewhere = sum(end.links[name].faults - start.links[name].faults for name in start.links)
    elsewhere += sum(drops - qdiscs.get(device, 0) for device, drops in (end.qdisc_drops or {}).items())
    return queued, socket, elsewhere + (end.softnet_drops or 0) - (start.softnet_drops or 0)
