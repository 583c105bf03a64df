# SPDX-License-Identifier: GPL-2.0-or-later
"""nfq-noop's JSON, as recorded, and broken."""

import json
import unittest
from collections.abc import Mapping

from helper import data_text
from nfqbench.daemon import Daemon, Latency, Percentiles, daemon_parse
from nfqbench.errors import Refused


class Recorded(unittest.TestCase):
    def test_a_line_after_ping_and_one_at_the_end(self) -> None:
        pinged, end = daemon_parse(data_text("cells/nfq-gso/processor.json"), "processor.json")
        self.assertEqual((pinged.packets, pinged.bytes, pinged.gso_packets), (46, 3864, 0))
        self.assertEqual((end.packets, end.gso, end.policy, end.priority), (31256, True, "rr", 99))
        self.assertGreater(end.max_packet_bytes or 0, 1500)
        self.assertGreater(end.cpu_s, pinged.cpu_s)

    def test_queues_are_summed(self) -> None:
        line = json.loads(data_text("cells/nfq-gso/processor.json").splitlines()[-1])
        line["queues"].append({**line["queues"][0], "max_packet_bytes": 1})
        (end,) = daemon_parse(json.dumps(line), "processor.json")
        self.assertEqual((end.packets, end.max_packet_bytes), (2 * 31256, line["queues"][0]["max_packet_bytes"]))

    def test_without_lengths_bytes_are_unknown_not_zero(self) -> None:
        line = json.loads(data_text("cells/nfq-gso/processor.json").splitlines()[-1])
        line["queues"][0].update(bytes=None, max_packet_bytes=None)
        (end,) = daemon_parse(json.dumps(line), "processor.json")
        self.assertEqual((end.bytes, end.max_packet_bytes), (None, None))


class Optional(unittest.TestCase):
    def end(self, *queues: Mapping[str, object], **keys: object) -> Daemon:
        """The last line without what need not be told, with a queue for each of these changes."""
        line = json.loads(data_text("cells/nfq-gso/processor.json").splitlines()[-1])
        for key in ("spin_us", "memory_locked"):
            del line[key]
        for key in ("spin_receives", "minor_faults", "maxlen", "rcvbuf_bytes", "latency_us"):
            del line["queues"][0][key]
        line.update(keys, queues=[{**line["queues"][0], **changes} for changes in queues])
        (end,) = daemon_parse(json.dumps(line), "processor.json")
        return end

    def test_what_is_not_told_is_unknown(self) -> None:
        end = self.end({"minor_faults": None})
        self.assertEqual((end.spin_us, end.memory_locked, end.spin_receives, end.minor_faults), (None,) * 4)
        self.assertEqual((end.maxlen, end.rcvbuf_bytes, end.latency_us), (None,) * 3)

    def test_what_is_told(self) -> None:
        first = {"maxlen": 1024, "rcvbuf_bytes": 9000, "spin_receives": 7, "minor_faults": 2}
        second = {"maxlen": 512, "rcvbuf_bytes": 9001, "spin_receives": 1, "minor_faults": 3}
        end = self.end(first, second, spin_us=50, memory_locked=False)
        self.assertEqual((end.spin_us, end.memory_locked, end.spin_receives), (50, False, 8))
        self.assertEqual((end.maxlen, end.rcvbuf_bytes, end.minor_faults), (512, 9000, 5))

    def test_of_several_queues_the_worst_latency(self) -> None:
        def latency(*figures: float) -> dict[str, object]:
            percentiles = dict(zip(("p50", "p99", "p999", "max"), figures))
            return {"latency_us": {"receive_to_verdict": percentiles, "verdict_call": percentiles}}

        end = self.end(latency(1, 2, 3, 9.5), latency(2, 2, 4, 8), {"latency_us": None})
        self.assertEqual(end.latency_us, Latency(Percentiles(2, 2, 4, 9.5), Percentiles(2, 2, 4, 9.5)))


class Broken(unittest.TestCase):
    def refused(self, text: str, why: str) -> None:
        with self.assertRaisesRegex(Refused, f"^processor.json.*{why}"):
            daemon_parse(text, "processor.json")

    def test_empty(self) -> None:
        self.refused("", "empty")

    def test_the_last_line_is_cut(self) -> None:
        self.refused(data_text("cells/nfq-gso/processor.json")[:-20], ":2: not one JSON document")

    def test_another_schema(self) -> None:
        self.refused(data_text("cells/nfq/processor.json").replace('"schema":1', '"schema":2'), "schema 2")

    def test_no_queue(self) -> None:
        line = json.loads(data_text("cells/nfq/processor.json").splitlines()[0])
        self.refused(json.dumps({**line, "queues": []}), "has no queue")

    def test_a_counter_is_missing(self) -> None:
        self.refused(data_text("cells/nfq/processor.json").replace('"lost_ids"', '"lost_id"'), "has no \"lost_ids\"")
