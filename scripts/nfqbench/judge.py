# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a cell is proven to be what its label says. Every contradiction is a reason; without any the cell is valid.

Witnesses that do not know of each other must agree: ping and iperf3 (what arrived), veth (what passed each link), the
rule (what was queued), the queue (the ids that it gave out, what it dropped), the daemon (what it saw and answered),
IP (what came to the hook and what left it) and the scheduler (under which policy its threads ran). Who counted how many
packets where is ledger.py's affair.
"""

import os
from collections.abc import Iterator

from .evidence import Evidence, Passage, Snapshot
from .kernel import Link
from .ledger import ETHERNET_BYTES, LATE_PACKETS, ledger_judge, way_of
from .scenario import Mode, Scenario

THROTTLES = {
    "thermal": "a CPU was slowed down because it was hot",
    "cgroup": "our control group was kept from running, by its CPU quota",
    "realtime": "real-time tasks were kept from running (RT throttling activated)",
}
STOLEN_MOST = 0.05
STOLEN_TICKS = 2  # a clock that ticks every 10 ms cannot tell less in a short phase

POLICIES = {
    os.SCHED_OTHER: "other", os.SCHED_FIFO: "fifo", os.SCHED_RR: "rr", os.SCHED_BATCH: "batch", os.SCHED_IDLE: "idle",
}  # fmt: skip


def judge(
    scenario: Scenario, mode: Mode, evidence: Evidence, inherited: tuple[str, int] | None = None
) -> tuple[str, ...]:
    """`inherited` is the policy and priority that "inherit" meant when it was measured; None: ours."""
    return (
        *_ping_judge(scenario, mode, evidence),
        *_traffic_judge(scenario, mode, evidence),
        *_links_judge(mode, evidence),
        *(_queue_judge(scenario, mode, evidence) if mode.queue else _no_queue_judge(evidence)),
        *ledger_judge(mode, evidence),
        *_daemon_judge(mode, evidence),
        *(_sched_judge(scenario.sched_of(mode), evidence, inherited) if mode.queue else ()),
        *_offloads_judge(mode, evidence),
        *_host_judge(evidence),
    )


def sched_expected(sched: str, inherited: tuple[str, int] | None = None) -> tuple[str, int]:
    """The policy and priority that `sched` means."""
    if sched == "inherit" and inherited:
        return inherited
    if sched == "inherit":
        policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
        return POLICIES.get(policy, "unknown"), os.sched_getparam(0).sched_priority
    name, _, priority = sched.partition(":")
    return name, int(priority or 0)


def _ping_judge(scenario: Scenario, mode: Mode, evidence: Evidence) -> Iterator[str]:
    ping = evidence.ping
    if ping is None:
        if scenario.ping_count:
            yield "ping: was not measured"
        return
    if evidence.together != scenario.together:
        yield f"ping: ran {'while' if evidence.together else 'before'} iperf3 did"
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
    if not mode.may_drop or not passages:
        return 0
    return passages[2 if evidence.together else 1].lost - passages[0].lost


def _traffic_judge(scenario: Scenario, mode: Mode, evidence: Evidence) -> Iterator[str]:
    traffic = evidence.traffic
    if traffic is None:
        if scenario.iperf_seconds_of(mode):
            yield "iperf3: was not measured"
        return
    if evidence.iperf3_status != 0:
        yield f"iperf3: exit status {evidence.iperf3_status}"
    if traffic.seconds < 0.9 * scenario.iperf_seconds:
        yield f"iperf3: ended after {traffic.seconds:.1f} of {scenario.iperf_seconds} s"
    for end, congestion in (("sender", traffic.sender_congestion), ("receiver", traffic.receiver_congestion)):
        if congestion is not None and congestion != scenario.cc:
            yield f"iperf3: the {end} used {congestion}, not {scenario.cc}"


def _links_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    yield from _drops_judge(mode, evidence)
    start, pinged, end = evidence.start, evidence.pinged, evidence.end
    for name in start.links:
        faults = end.links[name].faults - start.links[name].faults
        if faults:
            yield f"veth: {faults} errors or drops at {name}"
        if evidence.ping and not evidence.ping.lost and not evidence.together:
            for side in ("rx_packets", "tx_packets"):
                packets = getattr(pinged.links[name], side) - getattr(start.links[name], side)
                if abs(packets - evidence.ping.transmitted) > LATE_PACKETS:
                    yield f"veth: {packets} {side} at {name} while ping sent {evidence.ping.transmitted}"
        if evidence.traffic:
            passed = end.links[name].bytes - pinged.links[name].bytes
            if passed < evidence.traffic.received_bytes:
                yield f"veth: {passed} bytes at {name}, but iperf3 received {evidence.traffic.received_bytes}"


def _drops_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    """Elsewhere than in the queue. IP counts what a queue in OUTPUT drops, too. Of the version of IP that is measured:
    the other has nothing to do here, but IPv6 reports its groups without being asked."""
    start, end = evidence.start, evidence.end
    for device, drops in (end.qdisc_drops or {}).items():
        dropped = drops - (start.qdisc_drops or {}).get(device, drops)
        if dropped:
            yield f"qdisc: {dropped} packets dropped at {device}"
    if start.softnet_drops is not None and end.softnet_drops is not None and start.softnet_drops != end.softnet_drops:
        yield f"softnet: {end.softnet_drops - start.softnet_drops} packets dropped, because a CPU's backlog was full"
    for role, ip in (end.ip or {}).items():
        before = (start.ip or {}).get(role, ip).discards
        for name, count in ip.discards.items():
            grown = count - before.get(name, count)
            if grown and not mode.may_drop:
                yield f"ip: {name} of {role} grew by {grown}"


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
    for moment, passage in (("after ping", pinged), ("at the end", end)):
        if passage.waiting and not mode.may_drop:
            yield f"queue: {passage.waiting} packets still waited {moment}"
    if evidence.ping and not evidence.ping.lost and not evidence.together:
        queued, passes = pinged.arrived - start.arrived, evidence.ping.transmitted * scenario.directions
        if abs(queued - passes) > LATE_PACKETS:
            yield f"queue: {queued} packets queued while ping made {passes} passes"
    if evidence.traffic:
        yield from _segmentation_judge(mode, evidence, pinged, end)


def _segmentation_judge(mode: Mode, evidence: Evidence, pinged: Passage, end: Passage) -> Iterator[str]:
    """The rule counts before the kernel segments, the queue behind it: comparing them proves what happened."""
    queued = end.arrived - pinged.arrived
    ruled = end.rule.packets - pinged.rule.packets
    ruled_bytes = end.rule.bytes - pinged.rule.bytes
    before, behind = _greatest_frames(evidence)
    aggregated = ruled_bytes > ruled * evidence.mtu or before > evidence.mtu
    if mode.gso is True and abs(queued - ruled) > LATE_PACKETS:
        yield f"gso: {queued} packets queued of {ruled} that the rule counted: the kernel segmented"
    if mode.gso is True and not aggregated:
        yield f"gso: {ruled_bytes / max(ruled, 1):.0f} bytes a packet at the rule: no aggregates reached it"
    if mode.gso is False and aggregated and queued <= ruled:
        yield f"gso: {queued} packets queued of {ruled} that the rule counted: the kernel did not segment"
    if mode.gso is False and behind > evidence.mtu:
        yield f"gso: {behind:.0f} bytes a packet on a link behind the queue, over the MTU of {evidence.mtu}"


def _greatest_frames(evidence: Evidence) -> tuple[float, float]:
    """Mean length of IP packets on the link that has the greatest, before the hook and behind it. A link has one
    direction of the traffic, so that its mean is not diluted by acknowledgements."""
    way = way_of(evidence)
    if way is None:
        return 0, 0
    before, after = evidence.pinged.links, evidence.end.links
    return (
        max((_mean_length(before[name], after[name], "rx") for name in way.links_in), default=0),
        max((_mean_length(before[name], after[name], "tx") for name in way.links_out), default=0),
    )


def _mean_length(before: Link, after: Link, side: str) -> float:
    packets, size = after.minus(before, side)
    return size / packets - ETHERNET_BYTES if packets else 0


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


def _sched_judge(sched: str, evidence: Evidence, inherited: tuple[str, int] | None) -> Iterator[str]:
    expected = sched_expected(sched, inherited)
    if not evidence.threads:
        yield "sched: no thread of the processor was seen"
    for thread in evidence.threads:
        if (thread.policy, thread.priority) != expected:
            yield f"sched: thread {thread.name} ran under {thread.policy} {thread.priority}, not {sched}"
    if evidence.daemon and (evidence.daemon[-1].policy, evidence.daemon[-1].priority) != expected:
        last = evidence.daemon[-1]
        yield f"sched: the daemon says {last.policy} {last.priority}, not {sched}"


def _offloads_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    for device, features in (evidence.end_offloads or {}).items():
        before = (evidence.offloads or {}).get(device, features)
        for name, on in features.items():
            if on != before.get(name, on):
                yield f"offloads: {name} of {device} was turned {'on' if on else 'off'} while measuring"
    for device, features in (evidence.offloads or {}).items():
        for name, wanted in (("tso", evidence.tso), ("gro", evidence.gro)):
            if wanted is not None and features.get(name) is not wanted:
                yield f"offloads: {name} of {device} is not {'on' if wanted else 'off'}, as was asked for"
    yield from _sender_judge(mode, evidence)


def _sender_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    """Who gets aggregates from nowhere: in OUTPUT TCP hands them over, elsewhere only TSO or GRO lets them come."""
    traffic = evidence.traffic
    if mode.gso is not True or traffic is None or evidence.offloads is None or evidence.hook == "output":
        return
    sender = "server eth0" if traffic.reverse else "client eth0"
    if not any(features.get("gro") for features in evidence.offloads.values()) and not (
        evidence.offloads.get(sender, {}).get("tso")
    ):
        yield f"gso: {sender}, which sends, has no TSO, and there is no GRO either"


def _host_judge(evidence: Evidence) -> Iterator[str]:
    if evidence.start.tainted != evidence.end.tainted:
        yield f"host: the kernel's taint went from {evidence.start.tainted} to {evidence.end.tainted}"
    for before, after, what in (
        (evidence.start, evidence.pinged, "before iperf3"), (evidence.pinged, evidence.end, "while iperf3 ran"),
    ):  # fmt: skip
        stolen, total = after.cpu.stolen - before.cpu.stolen, after.cpu.total - before.cpu.total
        if stolen > max(STOLEN_MOST * total, STOLEN_TICKS):
            yield f"host: the hypervisor gave {100 * stolen / total:.0f} % of the CPU time to others {what}"
    yield from _throttled_judge(evidence.start, evidence.end)


def _throttled_judge(start: Snapshot, end: Snapshot) -> Iterator[str]:
    if start.throttled is None or end.throttled is None:
        return
    for key, what in THROTTLES.items():
        before, after = getattr(start.throttled, key), getattr(end.throttled, key)
        if before is not None and after is not None and after > before:
            yield f"host: {what}"
