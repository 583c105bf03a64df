# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a cell is proven to be what its label says. Every contradiction is a reason; without any the cell is valid.

Witnesses that do not know of each other must agree: ping and iperf3 (what arrived), veth (what passed each link), the
rule (what was queued), the queue (the ids that it gave out, what it dropped), the daemon (what it saw and answered)
and the scheduler (under which policy its threads ran).
"""

import os
from collections.abc import Iterator

from .evidence import Evidence, Passage
from .scenario import Mode, Scenario

# Counters are read one after the other, TCP may still be saying goodbye in between, and IPv6 reports its groups.
LATE_PACKETS = 8

POLICIES = {
    os.SCHED_OTHER: "other", os.SCHED_FIFO: "fifo", os.SCHED_RR: "rr", os.SCHED_BATCH: "batch", os.SCHED_IDLE: "idle",
}  # fmt: skip


def judge(scenario: Scenario, mode: Mode, evidence: Evidence) -> tuple[str, ...]:
    return (
        *_ping_judge(scenario, mode, evidence),
        *_traffic_judge(scenario, evidence),
        *_links_judge(evidence),
        *(_queue_judge(scenario, mode, evidence) if mode.queue else _no_queue_judge(evidence)),
        *_daemon_judge(mode, evidence),
        *(_sched_judge(scenario.sched_of(mode), evidence) if mode.queue else ()),
        *_host_judge(evidence),
    )


def sched_expected(sched: str) -> tuple[str, int]:
    """The policy and priority that `sched` means; "inherit" means ours."""
    if sched == "inherit":
        policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
        return POLICIES.get(policy, "unknown"), os.sched_getparam(0).sched_priority
    name, _, priority = sched.partition(":")
    return name, int(priority or 0)


def _ping_judge(scenario: Scenario, mode: Mode, evidence: Evidence) -> Iterator[str]:
    ping = evidence.ping
    if ping is None:
        return
    if ping.transmitted != scenario.ping_count:
        yield f"ping: sent {ping.transmitted} of {scenario.ping_count}"
    if ping.lost and (not ping.received or ping.lost > _losses_allowed(mode, evidence)):
        yield f"ping: {ping.lost} of {ping.transmitted} lost"
    if ping.duplicates:
        yield f"ping: {ping.duplicates} duplicates"
    if ping.errors:
        yield f"ping: {ping.errors} errors"


def _losses_allowed(mode: Mode, evidence: Evidence) -> int:
    """Of a program that may lose packets: as many pings as its queues dropped packets meanwhile."""
    passages = evidence.passages()
    return passages[1].lost - passages[0].lost if mode.may_drop and passages else 0


def _traffic_judge(scenario: Scenario, evidence: Evidence) -> Iterator[str]:
    traffic = evidence.traffic
    if traffic is None:
        return
    if evidence.iperf3_status != 0:
        yield f"iperf3: exit status {evidence.iperf3_status}"
    if traffic.seconds < 0.9 * scenario.iperf_seconds:
        yield f"iperf3: ended after {traffic.seconds:.1f} of {scenario.iperf_seconds} s"
    for end, congestion in (("sender", traffic.sender_congestion), ("receiver", traffic.receiver_congestion)):
        if congestion is not None and congestion != scenario.cc:
            yield f"iperf3: the {end} used {congestion}, not {scenario.cc}"


def _links_judge(evidence: Evidence) -> Iterator[str]:
    start, pinged, end = evidence.start, evidence.pinged, evidence.end
    for name in start.links:
        faults = end.links[name].faults - start.links[name].faults
        if faults:
            yield f"veth: {faults} errors or drops at {name}"
        if evidence.ping and not evidence.ping.lost:
            for side in ("rx_packets", "tx_packets"):
                packets = getattr(pinged.links[name], side) - getattr(start.links[name], side)
                if abs(packets - evidence.ping.transmitted) > LATE_PACKETS:
                    yield f"veth: {packets} {side} at {name} while ping sent {evidence.ping.transmitted}"
        if evidence.traffic:
            passed = end.links[name].bytes - pinged.links[name].bytes
            if passed < evidence.traffic.received_bytes:
                yield f"veth: {passed} bytes at {name}, but iperf3 received {evidence.traffic.received_bytes}"


def _no_queue_judge(evidence: Evidence) -> Iterator[str]:
    if any(snapshot.any_queue for snapshot in (evidence.start, evidence.pinged, evidence.end)):
        yield "queue: there is a queue or a rule, though this row is without"


def _queue_judge(scenario: Scenario, mode: Mode, evidence: Evidence) -> Iterator[str]:
    if evidence.bypass:
        yield "queue: bypass is in force: without a processor packets would pass unseen"
    passages = evidence.passages()
    if passages is None:
        yield "queue: it was not bound, or had no rule, all the time"
        return
    start, pinged, end = passages
    if not start.owners == pinged.owners == end.owners:
        yield "queue: it was bound anew while measuring"
    if end.dropped and not mode.may_drop:
        yield f"queue: the kernel dropped {end.dropped} packets, because the queue was full"
    if end.user_dropped and not mode.may_drop:
        yield f"queue: the kernel dropped {end.user_dropped} packets, because the socket buffer was full"
    yield from _pings_judge(scenario, evidence, start, pinged)
    if evidence.traffic:
        yield from _segmentation_judge(mode, evidence.mtu, pinged, end)


def _pings_judge(scenario: Scenario, evidence: Evidence, start: Passage, pinged: Passage) -> Iterator[str]:
    """While nothing but pings runs, every packet is one rule hit and one id, or a drop."""
    queued = pinged.arrived - start.arrived
    ruled = pinged.rule.packets - start.rule.packets
    if evidence.ping and not evidence.ping.lost:
        passes = evidence.ping.transmitted * scenario.directions
        if abs(queued - passes) > LATE_PACKETS:
            yield f"queue: {queued} packets queued while ping made {passes} passes"
    if abs(queued - ruled) > LATE_PACKETS:
        yield f"queue: {queued} packets queued while the rule counted {ruled} and only ping ran"


def _segmentation_judge(mode: Mode, mtu: int, pinged: Passage, end: Passage) -> Iterator[str]:
    """The rule counts before the kernel segments, the queue behind it: comparing them proves what happened."""
    queued = end.arrived - pinged.arrived
    ruled = end.rule.packets - pinged.rule.packets
    ruled_bytes = end.rule.bytes - pinged.rule.bytes
    aggregated = ruled_bytes > ruled * mtu
    if mode.gso is True and abs(queued - ruled) > LATE_PACKETS:
        yield f"gso: {queued} packets queued of {ruled} that the rule counted: the kernel segmented"
    if mode.gso is True and not aggregated:
        yield f"gso: {ruled_bytes / max(ruled, 1):.0f} bytes a packet at the rule: no aggregates reached it"
    if mode.gso is False and aggregated and queued <= ruled:
        yield f"gso: {queued} packets queued of {ruled} that the rule counted: the kernel did not segment"


def _daemon_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    if not evidence.daemon:
        return
    last = evidence.daemon[-1]
    if evidence.processor_status != 0:
        yield f"daemon: exit status {evidence.processor_status}"
    for what in ("lost", "lost_ids", "verdict_errors", "flushed"):
        if getattr(last, what):
            yield f"daemon: {what} is {getattr(last, what)}"
    end = evidence.end.passage
    if end and not 0 <= last.packets - end.ids <= LATE_PACKETS:
        yield f"daemon: saw {last.packets} packets, the queue gave out {end.ids} ids"
    if mode.gso is not None and last.gso != mode.gso:
        yield f"gso: the daemon ran {'with' if last.gso else 'without'} it"
    if evidence.traffic:
        yield from _daemon_gso_judge(mode, evidence)


def _daemon_gso_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    last, mtu = evidence.daemon[-1], evidence.mtu
    greatest = last.max_packet_bytes
    if mode.gso is True and not last.gso_packets:
        yield "gso: the daemon saw no aggregate"
    if mode.gso is True and greatest is not None and greatest <= mtu:
        yield f"gso: the daemon's greatest packet has {greatest} bytes, not over the MTU of {mtu}"
    if mode.gso is False and last.gso_packets:
        yield f"gso: the daemon saw {last.gso_packets} aggregates"
    if mode.gso is False and greatest is not None and greatest > mtu:
        yield f"gso: the daemon's greatest packet has {greatest} bytes, over the MTU of {mtu}"


def _sched_judge(sched: str, evidence: Evidence) -> Iterator[str]:
    expected = sched_expected(sched)
    if not evidence.threads:
        yield "sched: no thread of the processor was seen"
    for thread in evidence.threads:
        if (thread.policy, thread.priority) != expected:
            yield f"sched: thread {thread.name} ran under {thread.policy} {thread.priority}, not {sched}"
    if evidence.daemon and (evidence.daemon[-1].policy, evidence.daemon[-1].priority) != expected:
        last = evidence.daemon[-1]
        yield f"sched: the daemon says {last.policy} {last.priority}, not {sched}"


def _host_judge(evidence: Evidence) -> Iterator[str]:
    if evidence.start.tainted != evidence.end.tainted:
        yield f"host: the kernel's taint went from {evidence.start.tainted} to {evidence.end.tainted}"
