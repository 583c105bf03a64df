# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of runs.jsonl: written from evidence, read back for statistics."""

import json

from helper import FolderTest, json_change, scenario_recorded, text_change
from nfqbench.daemon import Latency, Percentiles
from nfqbench.document import Node
from nfqbench.errors import Refused
from nfqbench.evidence import evidence_read
from nfqbench.plan import PlannedCell
from nfqbench.record import Json, QueueShare, cell_parse, record_make


class Records(FolderTest):
    def record(self, mode: str, *reasons: str) -> Json:
        planned = PlannedCell(1, 2, scenario_recorded().mode(mode))
        made = record_make(planned, "2026-01-31T12:00:00Z", evidence_read(self.cell_copy(mode)), reasons)
        decoded: Json = json.loads(json.dumps(made, allow_nan=False))
        return decoded

    def test_what_a_valid_cell_hands_on(self) -> None:
        cell = cell_parse(Node(self.record("nfq-gso"), "runs.jsonl"))
        assert cell.rtt_us and cell.gbps and cell.daemon_cpu_s_per_gb and cell.bytes_per_message
        self.assertEqual((cell.block, cell.mode, cell.valid), (1, "nfq-gso", True))
        self.assertLess(cell.rtt_us.min, cell.rtt_us.mean)
        self.assertLess(cell.rtt_us.mean, cell.rtt_us.max)
        # 1265424053 - 3864 bytes in 31256 - 46 messages.
        self.assertAlmostEqual(cell.bytes_per_message, 40545.3, places=1)

    def test_the_row_without_a_queue_has_neither_queue_nor_daemon(self) -> None:
        record = self.record("none")
        self.assertEqual((record["queue"], record["daemon"], record["udp"]), (None, None, None))
        self.assertEqual(cell_parse(Node(record, "runs.jsonl")).bytes_per_message, None)

    def test_an_invalid_cell_keeps_its_figures_but_hands_none_on(self) -> None:
        record = self.record("nfq", "ping: 1 of 20 lost")
        self.assertIsNotNone(record["ping"])
        cell = cell_parse(Node(record, "runs.jsonl"))
        self.assertEqual((cell.valid, cell.rtt_us, cell.gbps), (False, None, None))

    def test_without_the_daemons_word_the_kernels_ticks_count(self) -> None:
        folder = self.cell_copy("nfq-gso")
        (folder / "processor.json").unlink()
        text_change(folder / "cell.conf", "processor=nfq-noop", "processor=x {queue}")
        planned = PlannedCell(1, 1, scenario_recorded().mode("nfq-gso"))
        record = record_make(planned, "", evidence_read(folder), ())
        cell = cell_parse(Node(record, "runs.jsonl"))
        own = cell_parse(Node(self.record("nfq-gso"), "runs.jsonl"))
        assert cell.daemon_cpu_s_per_gb and own.daemon_cpu_s_per_gb
        self.assertAlmostEqual(cell.daemon_cpu_s_per_gb, own.daemon_cpu_s_per_gb, delta=0.05)

    def test_what_was_done_under_load(self) -> None:
        record = self.record("nfq-gso")
        daemon = record["daemon"]
        assert isinstance(daemon, dict)
        self.assertEqual((daemon["load_packets"], daemon["load_receive_calls"]), (31256 - 46, 13283 - 47))
        faults = [daemon[f"{when}minor_faults"] for when in ("ping_", "", "load_")]
        self.assertEqual(faults, [0, 0, 0])
        self.assertEqual((daemon["rss_kib"], daemon["queues"]), (5088, [{"queue": 0, "packets": 31256 - 46}]))
        cell = cell_parse(Node(record, "runs.jsonl"))
        self.assertAlmostEqual(cell.calls_per_packet or 0, (13283 - 47 + 13282 - 46) / (31256 - 46))
        self.assertEqual((cell.queues, cell.lost_packets, cell.latency_us), ((QueueShare(0, 31256 - 46),), 0, None))

    def test_what_older_records_do_not_tell_is_unknown(self) -> None:
        record = self.record("nfq-gso")
        daemon = record["daemon"]
        assert isinstance(daemon, dict)
        for key in [key for key in daemon if key.startswith("load_") or key in ("queues", "rss_kib", "latency_us")]:
            del daemon[key]
        cell = cell_parse(Node(record, "runs.jsonl"))
        self.assertEqual((cell.calls_per_packet, cell.queues, cell.latency_us), (None, (), None))

    def test_losses_and_latency_are_handed_on(self) -> None:
        percentiles = {"p50": 1.5, "p99": 2, "p999": 3, "max": 4}
        folder = self.cell_copy("nfq-gso")
        latency = {"receive_to_verdict": percentiles, "verdict_call": percentiles}
        json_change(folder / "processor.json", lambda document: document["queues"][0].update(latency_us=latency))
        text_change(folder / "end" / "queue", "65531     0     0", "65531     3     4")
        planned = PlannedCell(1, 1, scenario_recorded().mode("nfq-gso"))
        record = json.loads(json.dumps(record_make(planned, "", evidence_read(folder), ())))
        cell = cell_parse(Node(record, "runs.jsonl"))
        self.assertEqual((cell.lost_packets, cell.latency_us), (7, Latency(*[Percentiles(1.5, 2, 3, 4)] * 2)))

    def test_what_contradicts_itself_or_is_of_another_schema_is_refused(self) -> None:
        changes: tuple[tuple[str, object, str], ...] = (
            ("reasons", ["x"], "valid with reasons"), ("valid", False, "invalid without"), ("schema", 2, "schema 2"),
        )  # fmt: skip
        for key, value, why in changes:
            record = self.record("none")
            record[key] = value
            with self.assertRaisesRegex(Refused, why):
                cell_parse(Node(record, "runs.jsonl"))
