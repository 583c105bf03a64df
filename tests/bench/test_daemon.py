# SPDX-License-Identifier: GPL-2.0-or-later
"""nfq-noop's JSON, as recorded, and broken."""

import json
import unittest

from helper import data_text
from nfqbench.daemon import daemon_parse
from nfqbench.errors import Refused


class Recorded(unittest.TestCase):
    def test_a_line_after_ping_and_one_at_the_end(self) -> None:
        pinged, end = daemon_parse(data_text("cells/nfq-gso/processor.json"), "processor.json")
        self.assertEqual((pinged.packets, pinged.bytes, pinged.gso_packets), (46, 3864, 0))
        self.assertEqual((end.packets, end.gso, end.policy, end.priority), (29628, True, "rr", 99))
        self.assertGreater(end.max_packet_bytes or 0, 1500)
        self.assertGreater(end.cpu_s, pinged.cpu_s)

    def test_queues_are_summed(self) -> None:
        line = json.loads(data_text("cells/nfq-gso/processor.json").splitlines()[-1])
        line["queues"].append({**line["queues"][0], "max_packet_bytes": 1})
        (end,) = daemon_parse(json.dumps(line), "processor.json")
        self.assertEqual((end.packets, end.max_packet_bytes), (2 * 29628, line["queues"][0]["max_packet_bytes"]))

    def test_without_lengths_bytes_are_unknown_not_zero(self) -> None:
        line = json.loads(data_text("cells/nfq-gso/processor.json").splitlines()[-1])
        line["queues"][0].update(bytes=None, max_packet_bytes=None)
        (end,) = daemon_parse(json.dumps(line), "processor.json")
        self.assertEqual((end.bytes, end.max_packet_bytes), (None, None))


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
