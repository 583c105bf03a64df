# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the network of a cell was the one that its row is about, and whether aggregates came to the hook."""

from collections.abc import Iterator

from .evidence import Evidence
from .kernel import Link
from .ledger import ETHERNET_BYTES, LATE_PACKETS, ledger_make, way_of
from .scenario import Mode, Scenario


def settings_judge(scenario: Scenario, mode: Mode, evidence: Evidence) -> Iterator[str]:
    """That the network is the one which the row is about, as netns.sh and the kernel tell. Older runs do not."""
    network = scenario.network_of(mode)
    if evidence.topology is None:
        return
    told = {"topology": (network.topology, evidence.topology), "hook": (network.hook_used, evidence.hook),
            "family": (network.family, evidence.family), "conntrack": (network.conntrack, evidence.conntrack or "off"),
            "mtu": (network.mtu, evidence.mtu), "tunnel": (network.tunnel, evidence.tunnel or "")}  # fmt: skip
    yield from (f"network: {key} is {found}, not {asked}" for key, (asked, found) in told.items() if asked != found)
    for key, found in (("tso", evidence.tso), ("gro", evidence.gro)):
        asked = getattr(network, key)
        if asked and found is not (asked == "on"):
            yield f"network: {key} is not {asked}"
    entries, translated = evidence.end.conntrack_entries or 0, evidence.end.nat_packets or 0
    if network.conntrack == "off" and entries:
        yield f"conntrack: {entries} connections are tracked, though it is to be off"
    if network.conntrack != "off" and not entries:
        yield "conntrack: no connection is tracked"
    if network.conntrack == "nat" and not translated:
        yield "conntrack: no connection was translated"


def aggregates_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    """Whether packets over the MTU came to the hook: by GRO, if IP counts fewer than the links, or from the sender."""
    if mode.aggregates is None or evidence.traffic is None:
        return
    counts = ledger_make(evidence)["load"]
    came, merged = counts.get("veth_in"), counts.get("ip_in")
    ruled, ruled_bytes = counts.get("rule"), counts.get("rule_bytes")
    greatest, _ = greatest_frames(evidence)
    reasons = []
    if came is not None and merged is not None and came > merged + LATE_PACKETS:
        reasons.append(f"GRO made {merged} packets of {came}")
    if greatest > evidence.mtu:
        reasons.append(f"{greatest:.0f} bytes a packet came on a link")
    if ruled and ruled_bytes and ruled_bytes > ruled * evidence.mtu:
        reasons.append(f"{ruled_bytes / ruled:.0f} bytes a packet at the rule")
    if evidence.daemon and evidence.daemon[-1].gso_packets:
        reasons.append(f"the daemon saw {evidence.daemon[-1].gso_packets} of them")
    if mode.aggregates and not reasons:
        yield "aggregates: none came to the hook"
    if not mode.aggregates and reasons:
        yield f"aggregates: none should come to the hook, but {', '.join(reasons)}"


def offloads_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    for device, features in (evidence.end_offloads or {}).items():
        before = (evidence.offloads or {}).get(device, features)
        for name, on in features.items():
            if on != before.get(name, on):
                yield f"offloads: {name} of {device} was turned {'on' if on else 'off'} while measuring"
    for device, features in (evidence.offloads or {}).items():
        for name, wanted in (("tso", evidence.tso), ("gro", evidence.gro)):
            if name == "gro" and evidence.tunnel and not device.endswith(" wg0"):
                continue
            if wanted is not None and features.get(name) is not wanted:
                yield f"offloads: {name} of {device} is not {'on' if wanted else 'off'}, as was asked for"
    yield from _sender_judge(mode, evidence)


def _sender_judge(mode: Mode, evidence: Evidence) -> Iterator[str]:
    """Who gets aggregates from nowhere: in OUTPUT TCP hands them over, elsewhere only TSO or GRO lets them come."""
    traffic = evidence.traffic
    if mode.gso is not True or mode.aggregates is False or evidence.hook == "output":
        return
    if traffic is None or evidence.offloads is None:
        return
    sender = "server eth0" if traffic.reverse else "client eth0"
    if not any(features.get("gro") for features in evidence.offloads.values()) and not (
        evidence.offloads.get(sender, {}).get("tso")
    ):
        yield f"gso: {sender}, which sends, has no TSO, and there is no GRO either"


def greatest_frames(evidence: Evidence) -> tuple[float, float]:
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
