# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells whose load is datagrams at a rate: a loss is no fault if it was counted where it happened. And pings that run
beside a load, which must not wait for replies."""

from dataclasses import replace

from helper import FolderTest, scenario_recorded
from nfqbench.evidence import Evidence, evidence_read
from nfqbench.judge import judge
from nfqbench.scenario import Scenario

SEGMENTS = 8


class Datagrams(FolderTest):
    def evidence(self, lost: int, queue: int = 0, link: int = 0, socket: int = 0) -> Evidence:
        """`lost` by the receiver's account; the rest as the kernel counted drops."""
        evidence = evidence_read(self.cell_copy("nfq-gso"))
        assert evidence.traffic and evidence.end.passage
        traffic = replace(
            evidence.traffic, protocol="UDP", packets=10000, lost_packets=lost, asked_pps=1000, segments=SEGMENTS,
            sender_congestion=None, receiver_congestion=None,
        )  # fmt: skip
        (last,) = evidence.end.passage.queues
        passage = replace(evidence.end.passage, queues=(replace(last, user_dropped=queue),))
        links = evidence.end.links
        links = {**links, "router to-server": replace(links["router to-server"], faults=links["router to-server"].faults + link)}
        start = replace(evidence.start, udp_errors={"server": 3})
        end = replace(evidence.end, passage=passage, links=links, udp_errors={"server": 3 + socket})
        return replace(evidence, traffic=traffic, start=start, end=end)

    def scenario(self, pps: int = 1000) -> Scenario:
        return replace(scenario_recorded(), udp_pps=pps, udp_bytes=64, udp_segments=SEGMENTS)

    def reasons(self, evidence: Evidence, mode: str = "nfq-gso", pps: int = 1000) -> list[str]:
        scenario = self.scenario(pps)
        told = judge(scenario, scenario.mode(mode), evidence)
        return [why for why in told if why.startswith(("udp:", "veth:", "queue: the kernel dropped", "daemon: lost"))]

    def test_losses_that_were_counted(self) -> None:
        for evidence in (
            self.evidence(0), self.evidence(5 * SEGMENTS, queue=5), self.evidence(3, socket=3),
            self.evidence(2 * SEGMENTS + 1, queue=2, socket=1), self.evidence(2, link=2), self.evidence(16, link=2),
        ):  # fmt: skip
            self.assertEqual(self.reasons(evidence), [])

    def test_losses_that_nobody_counted(self) -> None:
        self.assertEqual(self.reasons(self.evidence(7)), [
            "udp: 7 datagrams and 0 pings are missing, but 0 in the queue, 0 at the socket and 0 elsewhere were counted as "
            "dropped"
        ])  # fmt: skip

    def test_drops_of_which_nothing_is_missing(self) -> None:
        for evidence in (self.evidence(0, queue=1), self.evidence(4, socket=5), self.evidence(SEGMENTS - 1, queue=1)):
            self.assertEqual(len(self.reasons(evidence)), 1)

    def test_a_full_queue_without_gso_takes_the_rest_of_an_aggregate_with_it(self) -> None:
        """One drop is counted, and up to all segments of it are gone."""
        for lost, faults in ((5, 0), (5 * SEGMENTS, 0), (4, 1), (5 * SEGMENTS + 1, 1)):
            self.assertEqual(len(self.reasons(self.evidence(lost, queue=5), "nfq")), faults, lost)

    def test_another_rate(self) -> None:
        why = "udp: 1000 datagrams a second were asked for, not 500"
        self.assertEqual(self.reasons(self.evidence(0), pps=500), [why])


class OpenLoop(FolderTest):
    def reasons(self, last_s: float) -> list[str]:
        """Of 20 pings, one every 5 ms, of which the last reply came then."""
        scenario = replace(scenario_recorded(), together=True)
        evidence = evidence_read(self.cell_copy("none"))
        assert evidence.ping
        ping = replace(evidence.ping, replied_at_s=(0.0, last_s))
        told = judge(scenario, scenario.mode("none"), replace(evidence, ping=ping, together=True))
        return [why for why in told if why.startswith("ping: took")]

    def test_pings_that_were_sent_in_time(self) -> None:
        self.assertEqual(self.reasons(0.1), [])
        self.assertEqual(self.reasons(0.29), [])

    def test_pings_that_came_late(self) -> None:
        self.assertEqual(self.reasons(1.0), ["ping: took 1.0 s for what is to be sent in 0.1 s: ping was held up"])
