# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a cell is proven to be what its label says. Every contradiction is a reason; without any the cell is valid.

Witnesses that do not know of each other must agree: ping and iperf3 (what arrived), veth (what passed each link), the
rule (what was queued), the queue (the ids that it gave out, what it dropped), the daemon (what it saw and answered),
IP (what came to the hook and what left it) and the scheduler (under which policy its threads ran). Who counted how many
packets where is ledger.py's affair.
"""

import os
from collections.abc import Iterator

from .daemon import Daemon
from .evidence import Evidence, Passage, Snapshot
from .iperf3 import Traffic
from .ledger import LATE_PACKETS, ledger_judge, load_is_datagrams, losses_of
from .network_judge import aggregates_judge, greatest_frames, offloads_judge, settings_judge
from .scenario import Mode, Scenario

THROTTLES = {
    "thermal": "a CPU was slowed down because it was hot",
    "cgroup": "our control group was kept from running, by its CPU quota",
    "realtime": "real-time tasks were kept from running (RT throttling activated)",
}
BRIDGE = "router br0"  # counts only what is meant for itself
NOT_GIANT = 65535
# Pings that are sent whatever happens come late all the same if ping has to wait for a CPU: at most so many times.
LATE_SPAN, LATE_SPAN_S = 2.0, 0.1
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
        *settings_judge(scenario, mode, evidence),
        *aggregates_judge(mode, evidence),
        *_links_judge(mode, evidence),
        *(_queue_judge(scenario, mode, evidence) if mode.queue else _no_queue_judge(evidence)),
        *ledger_judge(mode, evidence),
        *_daemon_judge(scenario, mode, evidence),
        *(_sched_judge(scenario.sched_of(mode), evidence, inherited) if mode.queue else ()),
        *offloads_judge(mode, evidence),
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
    span_s, planned_s = max(ping.replied_at_s, default=0), ping.transmitted * scenario.ping_interval_ms / 1000
    planned_s += (ping.max_us or 0) / 1e6
    if evidence.together and span_s > LATE_SPAN * planned_s + LATE_SPAN_S and not load_is_datagrams(evidence):
        yield f"ping: took {span_s:.1f} s for what is to be sent in {planned_s:.1f} s: ping was held up"
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
    if load_is_datagrams(evidence):
        return sum(losses_of(evidence))
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
    if load_is_datagrams(evidence):
        yield from _datagrams_judge(scenario, mode, evidence, traffic)
    for end, congestion in (("sender", traffic.sender_congestion), ("receiver", traffic.receiver_congestion)):
        if congestion is not None and congestion != scenario.cc:
            yield f"iperf3: the {end} used {congestion}, not {scenario.cc}"


def _datagrams_judge(scenario: Scenario, mode: Mode, evidence: Evidence, traffic: Traffic) -> Iterator[str]:
    """Each that is missing must have been counted where it was dropped. What is dropped before it is segmented counts
    once for all its datagrams. A queue that the kernel segments for counts one drop when it is full, and the segments
    behind it in the same aggregate are dropped uncounted."""
    if traffic.asked_pps != scenario.udp_pps_of(mode):
        yield f"udp: {traffic.asked_pps} datagrams a second were asked for, not {scenario.udp_pps_of(mode)}"
    missing, each = traffic.lost_packets or 0, traffic.segments or 1
    queued, socket, elsewhere = losses_of(evidence)
    pings = evidence.ping.lost if evidence.ping and evidence.together else 0
    in_queue, in_elsewhere = (queued - pings, elsewhere) if queued >= pings else (0, elsewhere + queued - pings)
    least = in_queue * (each if mode.gso else 1) + in_elsewhere + socket
    most = (in_queue + in_elsewhere) * each + socket
    if not least <= missing <= most:
        told = f"{queued} in the queue, {socket} at the socket and {elsewhere} elsewhere"
        yield f"udp: {missing} datagrams and {pings} pings are missing, but {told} were counted as dropped"


def _links_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    yield from _drops_judge(mode, evidence)
    start, pinged, end = evidence.start, evidence.pinged, evidence.end
    for name in start.links:
        faults = end.links[name].faults - start.links[name].faults
        if faults and not load_is_datagrams(evidence):
            yield f"veth: {faults} errors or drops at {name}"
        if evidence.ping and not evidence.ping.lost and not evidence.together and name != BRIDGE:
            for side in ("rx_packets", "tx_packets"):
                packets = getattr(pinged.links[name], side) - getattr(start.links[name], side)
                if abs(packets - evidence.ping.transmitted) > LATE_PACKETS:
                    yield f"veth: {packets} {side} at {name} while ping sent {evidence.ping.transmitted}"
        if evidence.traffic and name != BRIDGE and not load_is_datagrams(evidence):
            passed = end.links[name].bytes - pinged.links[name].bytes
            if passed < evidence.traffic.received_bytes:
                yield f"veth: {passed} bytes at {name}, but iperf3 received {evidence.traffic.received_bytes}"


def _drops_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    """Elsewhere than in the queue. IP counts what a queue in OUTPUT drops, too. Of the version of IP that is measured:
    the other has nothing to do here, but IPv6 reports its groups without being asked."""
    start, end = evidence.start, evidence.end
    if load_is_datagrams(evidence):
        return
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
    lossy = mode.may_drop or load_is_datagrams(evidence)
    if end.dropped and not lossy:
        yield f"queue: the kernel dropped {end.dropped} packets, because the queue was full"
    if end.user_dropped and not lossy:
        yield f"queue: the kernel dropped {end.user_dropped} packets, because the socket buffer was full"
    for moment, passage in (("after ping", pinged), ("at the end", end)):
        if passage.waiting and not mode.may_drop:
            yield f"queue: {passage.waiting} packets still waited {moment}"
    if evidence.ping and not evidence.ping.lost and not evidence.together:
        queued = pinged.arrived - start.arrived
        passes = evidence.ping.transmitted * scenario.network_of(mode).directions
        if abs(queued - passes) > LATE_PACKETS:
            yield f"queue: {queued} packets queued while ping made {passes} passes"
    if evidence.traffic:
        yield from _segmentation_judge(mode, evidence, pinged, end)


def _segmentation_judge(mode: Mode, evidence: Evidence, pinged: Passage, end: Passage) -> Iterator[str]:
    """The rule counts before the kernel segments, the queue behind it: comparing them proves what happened."""
    queued = end.arrived - pinged.arrived
    ruled = end.rule.packets - pinged.rule.packets
    ruled_bytes = end.rule.bytes - pinged.rule.bytes
    before, behind = greatest_frames(evidence)
    seen = bool(evidence.daemon) and evidence.daemon[-1].gso_packets > 0
    aggregated = ruled_bytes > ruled * evidence.mtu or before > evidence.mtu
    # A few aggregates among small packets do not show in the mean.
    aggregated = aggregated or (seen and (load_is_datagrams(evidence) or mode.aggregates is True))
    if mode.gso is True and abs(queued - ruled) > LATE_PACKETS:
        yield f"gso: {queued} packets queued of {ruled} that the rule counted: the kernel segmented"
    if mode.gso is True and mode.aggregates is not False and not aggregated:
        yield f"gso: {ruled_bytes / max(ruled, 1):.0f} bytes a packet at the rule: no aggregates reached it"
    if mode.gso is False and aggregated and queued <= ruled:
        yield f"gso: {queued} packets queued of {ruled} that the rule counted: the kernel did not segment"
    if mode.gso is False and behind > evidence.mtu:
        yield f"gso: {behind:.0f} bytes a packet on a link behind the queue, over the MTU of {evidence.mtu}"


def _daemon_judge(scenario: Scenario, mode: Mode, evidence: Evidence) -> Iterator[str]:
    if not evidence.daemon:
        return
    last = evidence.daemon[-1]
    if evidence.processor_status != 0:
        yield f"daemon: exit status {evidence.processor_status}"
    allowed = ("lost", "lost_ids") if load_is_datagrams(evidence) else ()
    for what in ("lost", "lost_ids", "verdict_errors", "flushed"):
        if getattr(last, what) and what not in allowed:
            yield f"daemon: {what} is {getattr(last, what)}"
    end = evidence.end.passage
    if end and not 0 <= last.packets - end.ids <= LATE_PACKETS:
        yield f"daemon: saw {last.packets} packets, the queue gave out {end.ids} ids"
    if mode.gso is not None and last.gso != mode.gso:
        yield f"gso: the daemon ran {'with' if last.gso else 'without'} it"
    if evidence.traffic:
        yield from _daemon_gso_judge(mode, evidence)
        yield from _giants_judge(scenario, mode, last)


def _giants_judge(scenario: Scenario, mode: Mode, last: Daemon) -> Iterator[str]:
    """BIG TCP: a packet over 64 KiB must have come."""
    greatest = last.max_packet_bytes
    if mode.gso and scenario.network_of(mode).gso_max > NOT_GIANT and greatest is not None and greatest <= NOT_GIANT:
        yield f"gso: the daemon's greatest packet has {greatest} bytes, not over {NOT_GIANT}"


def _daemon_gso_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    last, mtu = evidence.daemon[-1], evidence.mtu
    greatest = last.max_packet_bytes
    wanted = mode.gso is True and mode.aggregates is not False
    if wanted and not last.gso_packets:
        yield "gso: the daemon saw no aggregate"
    if wanted and greatest is not None and greatest <= mtu:
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
