# SPDX-License-Identifier: GPL-2.0-or-later
"""One falsified cell a reason: a recorded valid cell in which one fact is changed must become invalid for it."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from helper import FolderTest, json_change, scenario_recorded, text_change
from nfqbench.errors import Refused
from nfqbench.evidence import evidence_read
from nfqbench.judge import judge, sched_expected
from nfqbench.scenario import Scenario, processor_replace

SNAPSHOTS = ("start", "ping", "end")


def reasons(cell: Path, scenario: Scenario | None = None, mode: str | None = None) -> tuple[str, ...]:
    scenario = scenario or scenario_recorded()
    return judge(scenario, scenario.mode(mode or cell.name), evidence_read(cell))


def queue_change(cell: Path, snapshot: str, field: int, value: int) -> None:
    """Fields as in the file, from 0: number portid waiting mode range dropped user_dropped id_sequence."""
    path = cell / snapshot / "queue"
    fields = path.read_text(encoding="ascii").split()
    fields[field] = str(value)
    path.write_text(" ".join(fields) + "\n", encoding="ascii")


def status_change(cell: Path, snapshot: str, key: str, value: str) -> None:
    path = cell / snapshot / "netns.status"
    text, count = re.subn(rf"^{key}=.*$", f"{key}={value}", path.read_text(encoding="ascii"), flags=re.MULTILINE)
    assert count == 1
    path.write_text(text, encoding="ascii")


def daemon_change(cell: Path, **counters: object) -> None:
    json_change(cell / "processor.json", lambda document: document["queues"][0].update(counters))


class JudgeTest(FolderTest):
    def invalid(self, cell: Path, *patterns: str, scenario: Scenario | None = None, mode: str | None = None) -> None:
        """For these reasons and no other."""
        found = reasons(cell, scenario, mode)
        self.assertEqual(len(found), len(patterns), found)
        for reason, pattern in zip(found, patterns):
            self.assertRegex(reason, f"^{pattern}")


class Valid(JudgeTest):
    def test_recorded_cells(self) -> None:
        for mode in ("none", "nfq", "nfq-gso"):
            with self.subTest(mode=mode):
                self.assertEqual(reasons(self.cell_copy(mode)), ())

    def test_another_program_is_judged_by_the_kernel_alone(self) -> None:
        scenario = processor_replace(scenario_recorded(), "other {queue}")
        cell = self.cell_copy("nfq-gso")
        (cell / "processor.json").unlink()
        text_change(cell / "cell.conf", "processor=nfq-noop", "processor=other {queue}")
        (cell / "processor.status").write_text("143\n", encoding="ascii")
        self.assertEqual(reasons(cell, scenario, "processor"), ())
        queue_change(cell, "end", 5, 3)
        self.invalid(cell, "queue: the kernel dropped 3", scenario=scenario, mode="processor")

    def test_without_lengths_the_rule_proves_segmentation(self) -> None:
        cell = self.cell_copy("nfq-gso")
        daemon_change(cell, bytes=None, max_packet_bytes=None)
        self.assertEqual(reasons(cell), ())


class PingAndTraffic(JudgeTest):
    def test_lost_packet(self) -> None:
        cell = self.cell_copy("none")
        text = (cell / "ping.txt").read_text(encoding="ascii")
        text = re.sub(r"\[[^\n]*icmp_seq=7 [^\n]*\n", "", text)
        text = text.replace("20 received, 0%", "19 received, 5%")
        (cell / "ping.txt").write_text(text, encoding="ascii")
        self.invalid(cell, "ping: 1 of 20 lost")

    def test_duplicate(self) -> None:
        cell = self.cell_copy("none")
        text = (cell / "ping.txt").read_text(encoding="ascii")
        line = re.search(r"\[.*icmp_seq=7 .*\n", text)
        assert line
        text = text.replace(line[0], line[0] + line[0].replace(" ms\n", " ms (DUP!)\n"))
        text = text.replace("20 received,", "20 received, +1 duplicates,")
        (cell / "ping.txt").write_text(text, encoding="ascii")
        self.invalid(cell, "ping: 1 duplicates")

    def test_fewer_pings_than_asked_for(self) -> None:
        scenario = replace(scenario_recorded(), ping_count=21)
        self.invalid(self.cell_copy("none"), "ping: sent 20 of 21", scenario=scenario)

    def test_iperf3_failed_though_its_output_looks_complete(self) -> None:
        cell = self.cell_copy("none")
        (cell / "iperf3.status").write_text("1\n", encoding="ascii")
        self.invalid(cell, "iperf3: exit status 1")

    def test_iperf3_ended_early(self) -> None:
        scenario = replace(scenario_recorded(), iperf_seconds=2)
        self.invalid(self.cell_copy("none"), "iperf3: ended after 1.0 of 2 s", scenario=scenario)

    def test_another_congestion_control_at_either_end(self) -> None:
        for end in ("sender", "receiver"):
            cell = self.cell_copy("none")
            json_change(cell / "iperf3.json", lambda document: document["end"].update({f"{end}_tcp_congestion": "bbr"}))
            self.invalid(cell, f"iperf3: the {end} used bbr, not cubic")


class Links(JudgeTest):
    def change(self, cell: Path, snapshot: str, side: str, counter: str, value: int) -> None:
        def counter_set(entries: list[Any]) -> None:
            entry = next(entry for entry in entries if entry["ifname"] == "to-server")
            entry["stats64"][side][counter] = value

        json_change(cell / snapshot / "links.nfqb1-router.json", counter_set)

    def test_a_drop(self) -> None:
        cell = self.cell_copy("none")
        self.change(cell, "end", "rx", "dropped", 2)
        self.invalid(cell, "veth: 2 errors or drops at router to-server")

    def test_pings_that_took_another_way(self) -> None:
        cell = self.cell_copy("none")
        self.change(cell, "start", "tx", "packets", 0)
        self.change(cell, "ping", "tx", "packets", 0)
        self.invalid(cell, "veth: 0 tx_packets at router to-server while ping sent 20")

    def test_traffic_that_took_another_way(self) -> None:
        cell = self.cell_copy("none")
        for snapshot in SNAPSHOTS:
            self.change(cell, snapshot, "tx", "bytes", 1000)
        self.invalid(cell, r"veth: \d+ bytes at router to-server, but iperf3 received")


class NoQueue(JudgeTest):
    def test_a_queue_is_bound(self) -> None:
        cell = self.cell_copy("none")
        (cell / "ping" / "queue").write_text("0 1 0 2 65531 0 0 46 1\n", encoding="ascii")
        self.invalid(cell, "queue: there is a queue or a rule")

    def test_a_rule_is_there(self) -> None:
        cell = self.cell_copy("none")
        status_change(cell, "start", "queues", "0:0")
        self.invalid(cell, "queue: there is a queue or a rule")


class Queue(JudgeTest):
    def test_not_bound(self) -> None:
        for snapshot in SNAPSHOTS:
            with self.subTest(snapshot=snapshot):
                cell = self.cell_copy("nfq-gso")
                (cell / snapshot / "queue").write_text("", encoding="ascii")
                self.invalid(cell, "queue: it was not bound, or had no rule")

    def test_another_queue_is_bound(self) -> None:
        cell = self.cell_copy("nfq-gso")
        queue_change(cell, "end", 0, 1)
        self.invalid(cell, "queue: it was not bound, or had no rule")

    def test_the_rule_is_gone(self) -> None:
        cell = self.cell_copy("nfq-gso")
        status_change(cell, "end", "queues", "")
        self.invalid(cell, "queue: it was not bound, or had no rule")

    def test_bound_anew(self) -> None:
        cell = self.cell_copy("nfq-gso")
        queue_change(cell, "end", 1, 1)
        self.invalid(cell, "queue: it was bound anew")

    def test_dropped_because_full(self) -> None:
        cell = self.cell_copy("nfq-gso")
        queue_change(cell, "end", 5, 1)
        self.invalid(cell, "queue: the kernel dropped 1 packets, because the queue was full")

    def test_dropped_because_the_buffer_was_full(self) -> None:
        cell = self.cell_copy("nfq-gso")
        queue_change(cell, "end", 6, 1)
        self.invalid(cell, "queue: the kernel dropped 1 packets, because the socket buffer was full")

    def test_bypass(self) -> None:
        cell = self.cell_copy("nfq-gso")
        status_change(cell, "end", "bypass", "yes")
        self.invalid(cell, "queue: bypass is in force")

    def test_pings_that_were_not_queued(self) -> None:
        """One direction only, by queue and rule alike."""
        cell = self.cell_copy("nfq-gso")
        queue_change(cell, "start", 7, 26)
        status_change(cell, "start", "rule4_packets", "26")
        self.invalid(cell, "queue: 20 packets queued while ping made 40 passes")

    def test_a_rule_that_counts_otherwise_than_the_queue(self) -> None:
        cell = self.cell_copy("nfq-gso")
        status_change(cell, "start", "rule4_packets", "26")
        self.invalid(cell, "queue: 40 packets queued while the rule counted 20")


class SeveralQueues(JudgeTest):
    """The recorded cell as if a second queue had taken a third of the packets."""

    def two(self) -> Path:
        cell = self.cell_copy("nfq-gso")
        text_change(cell / "cell.conf", "queues=1", "queues=2")
        for snapshot in SNAPSHOTS:
            path = cell / snapshot / "queue"
            fields = path.read_text(encoding="ascii").split()
            third = int(fields[7]) // 3
            queue_change(cell, snapshot, 7, int(fields[7]) - third)
            second = ["1", "4000000000", *fields[2:7], str(third), "1"]
            path.write_text(f"{path.read_text(encoding='ascii')}{' '.join(second)}\n", encoding="ascii")
        return cell

    def second_change(self, cell: Path, snapshot: str, old: str, new: str) -> None:
        text_change(cell / snapshot / "queue", old, new)

    def test_ids_are_summed(self) -> None:
        self.assertEqual(reasons(self.two()), ())

    def test_one_of_them_is_not_bound(self) -> None:
        cell = self.cell_copy("nfq-gso")
        text_change(cell / "cell.conf", "queues=1", "queues=2")
        self.invalid(cell, "queue: it was not bound, or had no rule")

    def test_one_of_them_was_bound_anew(self) -> None:
        cell = self.two()
        self.second_change(cell, "end", "4000000000", "4000000001")
        self.invalid(cell, "queue: it was bound anew")

    def test_drops_are_summed(self) -> None:
        cell = self.two()
        self.second_change(cell, "end", "65531 0 0 9876", "65531 2 3 9876")
        self.invalid(cell, "queue: the kernel dropped 2 .* queue was full", "queue: the kernel dropped 3 .* buffer")

    def test_packets_of_one_that_the_daemon_did_not_see(self) -> None:
        cell = self.two()
        self.second_change(cell, "end", " 9876 1", " 9880 1")
        self.invalid(cell, "daemon: saw 29628 packets, the queue gave out 29632 ids")


class MayDrop(JudgeTest):
    """A program in the place of nfq-noop that is known to lose packets."""

    def foreign(self) -> tuple[Path, Scenario]:
        scenario = processor_replace(scenario_recorded(), "other {queue}")
        modes = tuple(replace(mode, may_drop=mode.queue) for mode in scenario.modes)
        cell = self.cell_copy("nfq-gso")
        text_change(cell / "cell.conf", "processor=nfq-noop", "processor=other {queue}")
        return cell, replace(scenario, modes=modes)

    def pings_lose(self, cell: Path, *lost: int) -> None:
        text = (cell / "ping.txt").read_text(encoding="ascii")
        for sequence in lost:
            text = re.sub(rf"\[[^\n]*icmp_seq={sequence} [^\n]*\n", "", text)
        text = text.replace("20 received, 0%", f"{20 - len(lost)} received, {5 * len(lost)}%")
        if len(lost) == 20:
            text = re.sub(r"rtt min.*\n", "\n", text)
        (cell / "ping.txt").write_text(text, encoding="ascii")

    def test_drops_are_no_reason(self) -> None:
        cell, scenario = self.foreign()
        queue_change(cell, "end", 5, 300)
        queue_change(cell, "end", 6, 300)
        self.assertEqual(reasons(cell, scenario, "processor"), ())

    def test_pings_that_the_queue_dropped_are_no_reason(self) -> None:
        cell, scenario = self.foreign()
        self.pings_lose(cell, 7)
        self.invalid(cell, "ping: 1 of 20 lost", scenario=scenario, mode="processor")
        for snapshot in ("ping", "end"):
            queue_change(cell, snapshot, 6, 1)
        self.assertEqual(reasons(cell, scenario, "processor"), ())

    def test_more_pings_than_the_queue_dropped_are(self) -> None:
        cell, scenario = self.foreign()
        self.pings_lose(cell, 4, 7)
        for snapshot in ("ping", "end"):
            queue_change(cell, snapshot, 6, 1)
        self.invalid(cell, "ping: 2 of 20 lost", scenario=scenario, mode="processor")

    def test_without_a_single_reply_nothing_was_measured(self) -> None:
        cell, scenario = self.foreign()
        self.pings_lose(cell, *range(1, 21))
        for snapshot in ("ping", "end"):
            queue_change(cell, snapshot, 6, 40)
        self.invalid(cell, "ping: 20 of 20 lost", scenario=scenario, mode="processor")

    def test_packets_that_had_no_place_in_the_queue_count_as_queued(self) -> None:
        cell, scenario = self.foreign()
        for snapshot in ("ping", "end"):
            queue_change(cell, snapshot, 5, 20)
        queue_change(cell, "ping", 7, 26)
        self.assertEqual(reasons(cell, scenario, "processor"), ())

    def test_every_other_proof_is_needed(self) -> None:
        cell, scenario = self.foreign()
        queue_change(cell, "end", 1, 1)
        (cell / "iperf3.status").write_text("1\n", encoding="ascii")
        self.invalid(cell, "iperf3: exit", "queue: it was bound anew", scenario=scenario, mode="processor")


class Family(JudgeTest):
    def test_ipv6_is_proven_by_its_own_rule(self) -> None:
        cell = self.cell_copy("nfq-gso")
        text_change(cell / "cell.conf", "family=4", "family=6")
        self.invalid(cell, "queue: 40 packets queued while the rule counted 0", "gso: .* segmented", "gso: 0 bytes")
        for snapshot in SNAPSHOTS:
            status = (cell / snapshot / "netns.status").read_text(encoding="ascii")
            for what in ("packets", "bytes"):
                match = re.search(rf"^rule4_{what}=(\d+)$", status, re.MULTILINE)
                assert match
                status_change(cell, snapshot, f"rule6_{what}", match[1])
                status_change(cell, snapshot, f"rule4_{what}", "0")
        self.assertEqual(reasons(cell), ())


class Daemon(JudgeTest):
    def test_exit_status(self) -> None:
        cell = self.cell_copy("nfq-gso")
        (cell / "processor.status").write_text("1\n", encoding="ascii")
        self.invalid(cell, "daemon: exit status 1")

    def test_every_kind_of_loss(self) -> None:
        for counter in ("lost_ids", "verdict_errors", "flushed"):
            with self.subTest(counter=counter):
                cell = self.cell_copy("nfq-gso")
                daemon_change(cell, **{counter: 1})
                self.invalid(cell, f"daemon: {counter} is 1")
        cell = self.cell_copy("nfq-gso")
        json_change(cell / "processor.json", lambda document: document.update(lost=1))
        self.invalid(cell, "daemon: lost is 1")

    def test_packets_that_the_daemon_did_not_see(self) -> None:
        cell = self.cell_copy("nfq-gso")
        daemon_change(cell, packets=29627)
        self.invalid(cell, "daemon: saw 29627 packets, the queue gave out 29628 ids")

    def test_packets_that_the_queue_does_not_know_of(self) -> None:
        cell = self.cell_copy("nfq-gso")
        daemon_change(cell, packets=29628 + 1000)
        self.invalid(cell, "daemon: saw 30628 packets")


class Gso(JudgeTest):
    def test_a_cell_without_it_under_the_label_with_it(self) -> None:
        cell = self.cell_copy("nfq")
        self.invalid(
            cell, "gso: .* the kernel segmented", "gso: the daemon ran without", "gso: the daemon saw no aggregate",
            "gso: the daemon's greatest packet has 1500 bytes, not over", mode="nfq-gso",
        )  # fmt: skip

    def test_a_cell_with_it_under_the_label_without_it(self) -> None:
        cell = self.cell_copy("nfq-gso")
        self.invalid(
            cell, "gso: .* the kernel did not segment", "gso: the daemon ran with it",
            "gso: the daemon saw .* aggregates", "gso: the daemon's greatest packet has 65212 bytes, over", mode="nfq",
        )  # fmt: skip

    def test_no_aggregate_reached_the_rule(self) -> None:
        cell = self.cell_copy("nfq-gso")
        status_change(cell, "end", "rule4_bytes", "20000000")
        self.invalid(cell, "gso: 676 bytes a packet at the rule: no aggregates reached it")

    def test_the_kernel_segmented_though_the_daemon_saw_aggregates(self) -> None:
        cell = self.cell_copy("nfq-gso")
        status_change(cell, "end", "rule4_packets", "20000")
        self.invalid(cell, "gso: 29582 packets queued of 19954 that the rule counted: the kernel segmented")

    def test_each_word_of_the_daemon_alone(self) -> None:
        for mode, counters, pattern in (
            ("nfq-gso", {"gso_packets": 0}, "gso: the daemon saw no aggregate"),
            ("nfq-gso", {"max_packet_bytes": 1500}, "gso: the daemon's greatest packet has 1500 bytes, not over"),
            ("nfq", {"gso_packets": 1}, "gso: the daemon saw 1 aggregates"),
            ("nfq", {"max_packet_bytes": 1501}, "gso: the daemon's greatest packet has 1501 bytes, over"),
        ):
            with self.subTest(mode=mode, **counters):
                cell = self.cell_copy(mode)
                daemon_change(cell, **counters)
                self.invalid(cell, pattern)


class SchedAndHost(JudgeTest):
    def test_one_thread_under_another_policy(self) -> None:
        cell = self.cell_copy("nfq-gso")
        text_change(cell / "sched.txt", " rr 99 ", " other 0 ")
        self.invalid(cell, "sched: thread nfq-noop ran under other 0, not rr:99")

    def test_the_policy_of_the_row_goes_over_that_of_the_scenario(self) -> None:
        scenario = scenario_recorded()
        modes = tuple(replace(mode, sched="rr:50" if mode.queue else None) for mode in scenario.modes)
        reason = "sched: .* rr 99, not rr:50"
        self.invalid(self.cell_copy("nfq-gso"), *[reason] * 3, scenario=replace(scenario, modes=modes))

    def test_another_priority(self) -> None:
        cell = self.cell_copy("nfq-gso")
        text_change(cell / "sched.txt", " rr 99 ", " rr 98 ")
        self.invalid(cell, "sched: thread nfq-noop ran under rr 98, not rr:99")

    def test_no_thread_was_seen(self) -> None:
        cell = self.cell_copy("nfq-gso")
        (cell / "sched.txt").write_text("", encoding="ascii")
        self.invalid(cell, "sched: no thread")

    def test_the_daemon_says_otherwise(self) -> None:
        cell = self.cell_copy("nfq-gso")
        json_change(cell / "processor.json", lambda document: document["sched"].update(policy="other", priority=0))
        self.invalid(cell, "sched: the daemon says other 0, not rr:99")

    def test_what_inherit_means(self) -> None:
        self.assertEqual(sched_expected("fifo:1"), ("fifo", 1))
        self.assertEqual(sched_expected("other"), ("other", 0))
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            self.assertEqual(sched_expected("inherit"), ("other", 0))

    def test_taint(self) -> None:
        cell = self.cell_copy("none")
        (cell / "end" / "tainted").write_text("512\n", encoding="ascii")
        self.invalid(cell, "host: the kernel's taint went from 0 to 512")


class Unreadable(FolderTest):
    def test_a_cell_that_was_not_completed(self) -> None:
        cell = self.cell_copy("nfq")
        (cell / "error").write_text("the processor ended with status 1\n", encoding="ascii")
        with self.assertRaisesRegex(Refused, "^the processor ended with status 1$"):
            evidence_read(cell)

    def test_every_file_is_needed(self) -> None:
        names = (
            "cell.conf", "ping.txt", "iperf3.json", "iperf3.status", "processor.json", "processor.status", "sched.txt",
            "start/queue", "ping/netns.status", "end/links.nfqb1-server.json", "end/proc.stat", "end/tainted",
            "ping/proc.processor.stat", "end/proc.processor.status",
        )  # fmt: skip
        for name in names:
            with self.subTest(name=name):
                cell = self.cell_copy("nfq")
                (cell / name).unlink()
                with self.assertRaisesRegex(Refused, f"^{name}: not there"):
                    evidence_read(cell)

    def test_a_setting_that_is_missing(self) -> None:
        cell = self.cell_copy("nfq")
        text_change(cell / "end" / "netns.status", "bypass=no\n", "")
        with self.assertRaisesRegex(Refused, "^end/netns.status: has no bypass="):
            evidence_read(cell)

    def test_a_link_that_went_away(self) -> None:
        cell = self.cell_copy("nfq")
        text_change(cell / "end" / "links.nfqb1-server.json", '"eth0"', '"eth1"')
        with self.assertRaisesRegex(Refused, "^links came or went"):
            evidence_read(cell)

    def test_text_that_is_no_text(self) -> None:
        cell = self.cell_copy("nfq")
        (cell / "iperf3.json").write_text("", encoding="ascii")
        (cell / "iperf3.err").write_text("iperf3: unrecognized option\nlast words\n", encoding="ascii")
        with self.assertRaisesRegex(Refused, "^iperf3.json: empty: last words$"):
            evidence_read(cell)
        (cell / "iperf3.json").write_bytes(b"\xff\xfe{}")
        with self.assertRaisesRegex(Refused, "^iperf3.json: cannot be read"):
            evidence_read(cell)
