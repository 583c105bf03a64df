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
from nfqbench.judge import THROTTLES, judge, sched_expected
from nfqbench.ledger import NAMES, ledger_make
from nfqbench.processors import processors_replace
from nfqbench.scenario import CONTROL, Scenario

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


def pings_lose(cell: Path, *lost: int) -> None:
    """As if these had got no answer, summary included."""
    text = (cell / "ping.txt").read_text(encoding="ascii")
    for sequence in lost:
        text = re.sub(rf"\[[^\n]*icmp_seq={sequence} [^\n]*\n", "", text)
    text = text.replace("20 received, 0%", f"{20 - len(lost)} received, {5 * len(lost)}%")
    times = [float(match) for match in re.findall(r"time=(\S+)", text)]
    if times:
        summary = f"{min(times):.3f}/{sum(times) / len(times):.3f}/{max(times):.3f}"
        text = re.sub(r"(mdev = )[\d.]+/[\d.]+/[\d.]+", rf"\g<1>{summary}", text)
    else:
        text = re.sub(r"rtt min.*", "", text)
    (cell / "ping.txt").write_text(text, encoding="ascii")


def ip_change(cell: Path, snapshot: str, role: str, name: str, more: int) -> None:
    """Adds to a counter of IPv4."""
    path = cell / snapshot / f"snmp.nfqb1-{role}"
    names, values, rest = path.read_text(encoding="ascii").split("\n", 2)
    counts = values.split()
    index = names.split().index(name)
    counts[index] = str(int(counts[index]) + more)
    path.write_text("\n".join((names, " ".join(counts), rest)), encoding="ascii")


def link_change(cell: Path, snapshot: str, side: str, counter: str, value: int) -> None:
    """Of the router's link to the server."""

    def counter_set(entries: list[Any]) -> None:
        entry = next(entry for entry in entries if entry["ifname"] == "to-server")
        entry["stats64"][side][counter] = value

    json_change(cell / snapshot / "links.nfqb1-router.json", counter_set)


def age(cell: Path) -> None:
    """Makes it a cell of an older version, which knew less."""
    for name in ("*/snmp.*", "*/qdiscs.*", "*/softnet", "*/throttled", "end/offloads.*"):
        for path in cell.glob(name):
            path.unlink()


def daemon_change(cell: Path, **counters: object) -> None:
    json_change(cell / "processor.json", lambda document: document["queues"][0].update(counters))


class JudgeTest(FolderTest):
    def invalid(self, cell: Path, *patterns: str, scenario: Scenario | None = None, mode: str | None = None) -> None:
        """For these reasons and no other, but for those of the ledger if it is not meant: it sees everything."""
        found = reasons(cell, scenario, mode)
        if not any(pattern.startswith("ledger: ") for pattern in patterns):
            found = tuple(reason for reason in found if not reason.startswith("ledger: "))
        self.assertEqual(len(found), len(patterns), found)
        for reason, pattern in zip(found, patterns):
            self.assertRegex(reason, f"^{pattern}")


class Valid(JudgeTest):
    def test_recorded_cells(self) -> None:
        for mode in ("none", "nfq", "nfq-gso"):
            with self.subTest(mode=mode):
                self.assertEqual(reasons(self.cell_copy(mode)), ())

    def test_another_program_is_judged_by_the_kernel_alone(self) -> None:
        scenario = processors_replace(scenario_recorded(), ["other {queue}"])
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
        pings_lose(cell, 7)
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
    def test_a_drop(self) -> None:
        cell = self.cell_copy("none")
        link_change(cell, "end", "rx", "dropped", 2)
        self.invalid(cell, "veth: 2 errors or drops at router to-server")

    def test_pings_that_took_another_way(self) -> None:
        cell = self.cell_copy("none")
        link_change(cell, "start", "tx", "packets", 0)
        link_change(cell, "ping", "tx", "packets", 0)
        self.invalid(cell, "veth: 0 tx_packets at router to-server while ping sent 20")

    def test_traffic_that_took_another_way(self) -> None:
        cell = self.cell_copy("none")
        for snapshot in SNAPSHOTS:
            link_change(cell, snapshot, "tx", "bytes", 1000)
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
        self.invalid(cell, "ledger: ping: 40 packets at IP before the hook, 20 at the rule",
                     "ledger: ping: 20 packets at the rule, 40 at the queue")  # fmt: skip


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
        self.second_change(cell, "end", "65531 0 0 10418", "65531 2 3 10418")
        self.invalid(cell, "queue: the kernel dropped 2 .* queue was full", "queue: the kernel dropped 3 .* buffer")

    def test_packets_of_one_that_the_daemon_did_not_see(self) -> None:
        cell = self.two()
        self.second_change(cell, "end", " 10418 1", " 10422 1")
        self.invalid(cell, "daemon: saw 31256 packets, the queue gave out 31260 ids")


class MayDrop(JudgeTest):
    """A program in the place of nfq-noop that is known to lose packets."""

    def foreign(self) -> tuple[Path, Scenario]:
        scenario = processors_replace(scenario_recorded(), ["other {queue}"])
        modes = tuple(replace(mode, may_drop=mode.queue) for mode in scenario.modes)
        cell = self.cell_copy("nfq-gso")
        text_change(cell / "cell.conf", "processor=nfq-noop", "processor=other {queue}")
        return cell, replace(scenario, modes=modes)

    def test_drops_are_no_reason(self) -> None:
        """They are told, and all that the queue tells of is missing behind it."""
        cell, scenario = self.foreign()
        queue_change(cell, "end", 6, 300)
        ip_change(cell, "end", "router", "OutTransmits", -300)
        self.invalid(cell, "ledger: iperf3: 30910 packets at IP behind the hook, 31210 at veth behind the hook",
                     scenario=scenario, mode="processor")  # fmt: skip
        age(cell)
        self.assertEqual(reasons(cell, scenario, "processor"), ())

    def test_losses_that_the_queue_does_not_tell_are(self) -> None:
        cell, scenario = self.foreign()
        queue_change(cell, "end", 6, 300)
        ip_change(cell, "end", "router", "OutTransmits", -400)
        self.assertIn("ledger: iperf3: 30910 packets at the queue's way out, 30810 at IP behind the hook",
                      reasons(cell, scenario, "processor"))  # fmt: skip

    def test_pings_that_the_queue_dropped_are_no_reason(self) -> None:
        cell, scenario = self.foreign()
        pings_lose(cell, 7)
        self.invalid(cell, "ping: 1 of 20 lost", scenario=scenario, mode="processor")
        for snapshot in ("ping", "end"):
            queue_change(cell, snapshot, 6, 1)
        self.assertEqual(reasons(cell, scenario, "processor"), ())

    def test_more_pings_than_the_queue_dropped_are(self) -> None:
        cell, scenario = self.foreign()
        pings_lose(cell, 4, 7)
        for snapshot in ("ping", "end"):
            queue_change(cell, snapshot, 6, 1)
        self.invalid(cell, "ping: 2 of 20 lost", scenario=scenario, mode="processor")

    def test_without_a_single_reply_nothing_was_measured(self) -> None:
        cell, scenario = self.foreign()
        pings_lose(cell, *range(1, 21))
        for snapshot in ("ping", "end"):
            queue_change(cell, snapshot, 6, 40)
        age(cell)
        self.invalid(cell, "ping: 20 of 20 lost", scenario=scenario, mode="processor")

    def test_packets_that_had_no_place_in_the_queue_count_as_queued(self) -> None:
        cell, scenario = self.foreign()
        for snapshot in ("ping", "end"):
            queue_change(cell, snapshot, 5, 20)
        queue_change(cell, "ping", 7, 26)
        queue_change(cell, "end", 7, 31256 - 20)
        age(cell)
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
        age(cell)
        six = replace(scenario_recorded(), family=6)
        patterns = "gso: .* segmented", "ledger: ping: 0 packets at the rule, 40 at the queue", "ledger: ip"
        self.invalid(cell, "network: family is 6, not 4", *patterns)
        self.invalid(cell, *patterns, scenario=six)
        for snapshot in SNAPSHOTS:
            status = (cell / snapshot / "netns.status").read_text(encoding="ascii")
            for what in ("packets", "bytes"):
                match = re.search(rf"^rule4_{what}=(\d+)$", status, re.MULTILINE)
                assert match
                status_change(cell, snapshot, f"rule6_{what}", match[1])
                status_change(cell, snapshot, f"rule4_{what}", "0")
        self.assertEqual(reasons(cell, six), ())


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
        daemon_change(cell, packets=31255)
        self.invalid(cell, "daemon: saw 31255 packets, the queue gave out 31256 ids")

    def test_packets_that_the_queue_does_not_know_of(self) -> None:
        cell = self.cell_copy("nfq-gso")
        daemon_change(cell, packets=31256 + 1000)
        self.invalid(cell, "daemon: saw 32256 packets")


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
            cell, "gso: .* the kernel did not segment", r"gso: \d+ bytes a packet on a link behind the queue, over",
            "gso: the daemon ran with it",
            "gso: the daemon saw .* aggregates", "gso: the daemon's greatest packet has 65212 bytes, over", mode="nfq",
        )  # fmt: skip

    def test_no_aggregate_reached_the_rule(self) -> None:
        cell = self.cell_copy("nfq-gso")
        for snapshot in SNAPSHOTS:
            for path in (cell / snapshot).glob("links.*"):
                text = re.sub(r'"(bytes|packets)":\d+', r'"\1":0', path.read_text(encoding="ascii"))
                path.write_text(text, encoding="ascii")
        status_change(cell, "end", "rule4_bytes", "20000000")
        found = reasons(cell)
        self.assertIn("gso: 641 bytes a packet at the rule: no aggregates reached it", found)

    def test_the_kernel_segmented_though_the_daemon_saw_aggregates(self) -> None:
        cell = self.cell_copy("nfq-gso")
        status_change(cell, "end", "rule4_packets", "20000")
        self.invalid(cell, "gso: 31210 packets queued of 19954 that the rule counted: the kernel segmented")

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


    def test_another_program_under_a_label_is_judged_by_the_kernel_alone(self) -> None:
        for name, claim, pattern in (("nfq-gso", False, "did not segment"), ("nfq", True, "the kernel segmented")):
            cell = self.cell_copy(name)
            text_change(cell / "cell.conf", "processor=nfq-noop", "processor=other {queue}")
            scenario = processors_replace(scenario_recorded(), ["other {queue}"])
            modes = tuple(replace(mode, gso=claim if mode.queue else None) for mode in scenario.modes)
            found = reasons(cell, replace(scenario, modes=modes), "processor")
            self.assertRegex(found[0], pattern)

    def test_a_few_aggregates_under_the_label_without_it(self) -> None:
        """Of several queues only some segmented: there is more than the rule counted, but aggregates leave as well."""
        cell = self.cell_copy("nfq")

        def bytes_add(entries: list[Any]) -> None:
            entry = next(entry for entry in entries if entry["ifname"] == "to-server")
            entry["stats64"]["tx"]["bytes"] += 3000000

        json_change(cell / "end" / "links.nfqb1-router.json", bytes_add)
        self.invalid(cell, r"gso: 15\d\d bytes a packet on a link behind the queue, over the MTU of 1500")

    def test_a_sender_that_cannot_make_aggregates(self) -> None:
        cell = self.cell_copy("nfq-gso")
        for name in ("offloads.nfqb1-client.txt", "end/offloads.nfqb1-client.txt"):
            text_change(cell / name, "tcp-segmentation-offload: on", "tcp-segmentation-offload: off")
        self.invalid(cell, "offloads: tso of client eth0 is not on", "gso: client eth0, which sends, has no TSO")


class Accounts(JudgeTest):
    """The ledger: a station that counts otherwise than its neighbours."""

    def test_recorded_cells_balance(self) -> None:
        ledger = ledger_make(evidence_read(self.cell_copy("nfq-gso")))
        stations = tuple(NAMES)
        self.assertEqual([ledger["ping"][station] for station in stations], [40] * len(stations))
        self.assertEqual([ledger["load"][station] for station in stations], [31210] * len(stations))
        load = ledger["load"]
        self.assertEqual((load["queue_lost"], load["waiting"], ledger["ping"]["ping_received"]), (0, 0, 20))
        self.assertEqual((load["veth_in_bytes"] or 0) - 14 * 31210, load["rule_bytes"])

    def test_without_a_queue_there_is_none_in_the_ledger(self) -> None:
        load = ledger_make(evidence_read(self.cell_copy("none")))["load"]
        self.assertEqual([load[station] for station in ("rule", "queue", "daemon", "waiting")], [None] * 4)
        self.assertEqual(load["ip_in"], load["ip_out"])

    def test_segments_leave_where_aggregates_came(self) -> None:
        load = ledger_make(evidence_read(self.cell_copy("nfq")))["load"]
        self.assertEqual(load["ip_in"], load["rule"])
        self.assertGreater(load["queue"] or 0, 3 * (load["rule"] or 0))
        self.assertEqual([load[station] for station in ("verdicts", "ip_out", "veth_out")], [load["queue"]] * 3)

    def test_each_station_alone(self) -> None:
        for role, name, pattern in (
            ("router", "InReceives", "31210 packets at veth before the hook, 31310 at IP before the hook"),
            ("router", "OutTransmits", "31210 packets at the daemon's verdicts, 31310 at IP behind the hook"),
            ("server", "InDelivers", "31210 packets at veth behind the hook, 31310 at the ends"),
        ):
            cell = self.cell_copy("nfq-gso")
            ip_change(cell, "end", role, name, 100)
            found = reasons(cell)
            self.assertEqual(found[0], f"ledger: iperf3: {pattern}")
        cell = self.cell_copy("nfq-gso")
        status_change(cell, "end", "rule4_packets", str(31256 - 100))
        self.assertIn("ledger: iperf3: 31210 packets at IP before the hook, 31110 at the rule", reasons(cell))

    def test_while_ping_ran(self) -> None:
        cell = self.cell_copy("none")
        ip_change(cell, "ping", "router", "OutTransmits", -20)
        self.invalid(cell, "ledger: ping: 40 packets at IP before the hook, 20 at IP behind the hook",
                     "ledger: ping: 20 packets at IP behind the hook, 4. at veth behind the hook",
                     "ledger: iperf3: .* at IP behind the hook", "ledger: iperf3:")  # fmt: skip

    def test_verdicts_that_failed(self) -> None:
        cell = self.cell_copy("nfq-gso")
        daemon_change(cell, flushed=100)
        self.invalid(cell, "ledger: iperf3: 31110 packets at the daemon's verdicts, 31210 at IP behind the hook",
                     "daemon: flushed is 100")  # fmt: skip

    def test_bytes_that_the_rule_did_not_see(self) -> None:
        cell = self.cell_copy("nfq-gso")
        status_change(cell, "end", "rule4_bytes", "1200000000")
        self.invalid(cell, "ledger: iperf3: 1265420189 bytes at veth before the hook, 1199996136 at the rule")

    def test_an_older_kernel_that_does_not_tell_what_left_the_hook(self) -> None:
        for mode, pattern in (("none", "IP before the hook"), ("nfq-gso", "the daemon's verdicts")):
            cell = self.cell_copy(mode)
            for path in cell.glob("*/snmp.*"):
                path.write_text(path.read_text(encoding="ascii").replace("OutTransmits", "Other"), encoding="ascii")
            self.assertEqual(reasons(cell), ())
            link_change(cell, "end", "tx", "packets", 10)
            self.assertRegex(reasons(cell)[0], rf"^ledger: iperf3: \d+ packets at {pattern}, -?\d+ at veth behind")

    def test_a_hook_that_stands_elsewhere(self) -> None:
        cell = self.cell_copy("none")
        text_change(cell / "cell.conf", "hook=forward", "hook=input")
        for path in cell.glob("*/links.nfqb1-client.json"):
            text_change(path, '"eth0"', '"eth1"')
        with self.assertRaisesRegex(Refused, "^hook input: not the links"):
            reasons(cell)

    def test_packets_that_wait(self) -> None:
        cell = self.cell_copy("nfq-gso")
        queue_change(cell, "end", 2, 3)
        self.invalid(cell, "queue: 3 packets still waited at the end")

    def test_what_older_cells_do_not_tell_is_no_reason(self) -> None:
        for mode in ("none", "nfq", "nfq-gso"):
            cell = self.cell_copy(mode)
            age(cell)
            self.assertEqual(reasons(cell), ())
            self.assertEqual(ledger_make(evidence_read(cell))["load"]["ip_out"], None)


class Drops(JudgeTest):
    def test_by_ip(self) -> None:
        for role, name in (("router", "OutDiscards"), ("server", "InHdrErrors"), ("client", "OutNoRoutes")):
            cell = self.cell_copy("none")
            ip_change(cell, "end", role, name, 2)
            self.invalid(cell, f"ip: {name} of {role} grew by 2")

    def test_by_a_qdisc(self) -> None:
        cell = self.cell_copy("none")
        json_change(cell / "end" / "qdiscs.nfqb1-server.json", lambda entries: entries[1].update(drops=4))
        self.invalid(cell, "qdisc: 4 packets dropped at server eth0")

    def test_by_a_full_backlog(self) -> None:
        cell = self.cell_copy("none")
        text = (cell / "end" / "softnet").read_text(encoding="ascii").split(" ", 2)
        text[1] = f"{int(text[1], 16) + 5:08x}"
        (cell / "end" / "softnet").write_text(" ".join(text), encoding="ascii")
        self.invalid(cell, "softnet: 5 packets dropped")


class Offloads(JudgeTest):
    def test_another_one_than_set_up(self) -> None:
        cell = self.cell_copy("none")
        for name in ("offloads.nfqb1-router.txt", "end/offloads.nfqb1-router.txt"):
            text_change(cell / name, "generic-receive-offload: off", "generic-receive-offload: on")
        self.invalid(cell, "offloads: gro of router to-client is not off, as was asked for")

    def test_one_that_changed(self) -> None:
        cell = self.cell_copy("none")
        text_change(cell / "end" / "offloads.nfqb1-server.txt", "tx-checksumming: on", "tx-checksumming: off")
        self.invalid(cell, "offloads: tx-checksumming of server eth0 was turned off while measuring")


class NotMeasured(JudgeTest):
    def test_what_the_row_should_have_is_missing(self) -> None:
        cell = self.cell_copy("none")
        text_change(cell / "cell.conf", "ping_count=20", "ping_count=0")
        text_change(cell / "cell.conf", "iperf_seconds=1", "iperf_seconds=0")
        self.invalid(cell, "ping: was not measured", "iperf3: was not measured")

    def test_a_control_has_no_iperf3(self) -> None:
        scenario = scenario_recorded()
        modes = tuple(replace(mode, role=CONTROL) for mode in scenario.modes)
        cell = self.cell_copy("nfq-gso")
        text_change(cell / "cell.conf", "iperf_seconds=1", "iperf_seconds=0")
        self.assertEqual(reasons(cell, replace(scenario, modes=modes)), ())

    def test_ping_ran_at_another_time(self) -> None:
        scenario = replace(scenario_recorded(), together=True)
        self.invalid(self.cell_copy("none"), "ping: ran before iperf3 did", scenario=scenario)
        cell = self.cell_copy("none")
        text_change(cell / "cell.conf", "together=no", "together=yes")
        self.invalid(cell, "ping: ran while iperf3 did")
        self.assertEqual(ledger_make(evidence_read(cell))["ping"], {})


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

    def test_what_inherit_meant_when_it_was_measured(self) -> None:
        scenario = replace(scenario_recorded(), sched="inherit")
        evidence = evidence_read(self.cell_copy("nfq-gso"))
        self.assertEqual(judge(scenario, scenario.mode("nfq-gso"), evidence, ("rr", 99)), ())
        self.assertEqual(len(judge(scenario, scenario.mode("nfq-gso"), evidence, ("other", 0))), 3)

    def test_time_that_the_hypervisor_took(self) -> None:
        cell = self.cell_copy("none")
        text = (cell / "end" / "proc.stat").read_text(encoding="ascii")
        fields = text.split("\n", 1)[0].split()
        fields[8] = str(int(fields[8]) + 100)
        (cell / "end" / "proc.stat").write_text(" ".join(fields) + "\n", encoding="ascii")
        self.invalid(cell, r"host: the hypervisor gave \d\d % of the CPU time to others while iperf3 ran")

    def test_throttling_of_each_kind(self) -> None:
        for key, pattern in (("thermal", "hot"), ("cgroup", "CPU quota"), ("realtime", "RT throttling activated")):
            cell = self.cell_copy("none")
            for snapshot in SNAPSHOTS:
                text = "".join(f"{each}={int(each == key and snapshot == 'end')}\n" for each in THROTTLES)
                (cell / snapshot / "throttled").write_text(text, encoding="ascii")
            self.invalid(cell, f"host: .*{pattern}")

    def test_what_cannot_be_read_is_no_throttling(self) -> None:
        cell = self.cell_copy("none")
        (cell / "start" / "throttled").write_text("thermal=\ncgroup=\nrealtime=\n", encoding="ascii")
        self.assertEqual(reasons(cell), ())

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
