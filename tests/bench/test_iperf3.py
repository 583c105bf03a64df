# SPDX-License-Identifier: GPL-2.0-or-later
"""iperf3 JSON, as recorded from iperf 3.12 between two namespaces, and broken."""

import json
import unittest
from collections.abc import Callable
from typing import Any

from helper import data_text
from nfqbench.errors import Refused
from nfqbench.iperf3 import Traffic, TrafficInterval, iperf3_parse


def parse(name: str) -> Traffic:
    return iperf3_parse(data_text(f"iperf3/{name}.json"), "iperf3.json")


class Recorded(unittest.TestCase):
    def test_tcp(self) -> None:
        traffic = parse("tcp")
        self.assertEqual((traffic.protocol, traffic.reverse, traffic.streams), ("TCP", False, 1))
        self.assertEqual((traffic.sent_bytes, traffic.received_bytes), (5808586752, 5808586752))
        self.assertAlmostEqual(traffic.gbps, 46.4235703)
        self.assertEqual((traffic.sender_congestion, traffic.receiver_congestion), ("cubic", "cubic"))
        self.assertEqual((traffic.retransmits, traffic.packets, traffic.lost_packets), (181, None, None))

    def test_reverse_repeats_keys_with_the_same_value(self) -> None:
        traffic = parse("tcp-reverse")
        self.assertEqual((traffic.reverse, traffic.streams, traffic.sender_congestion), (True, 2, "bbr"))
        self.assertAlmostEqual(traffic.gbps, 21.8840856)

    def test_udp(self) -> None:
        traffic = parse("udp")
        self.assertEqual((traffic.protocol, traffic.packets, traffic.lost_packets), ("UDP", 8626, 0))
        self.assertEqual((traffic.sender_congestion, traffic.retransmits), (None, None))


class Intervals(unittest.TestCase):
    def document(self, *times: tuple[float, float, bool]) -> str:
        document = json.loads(data_text("iperf3/tcp.json"))
        sums = document["intervals"][0]["sum"]
        keys = ("start", "end", "omitted")
        document["intervals"] = [{"sum": {**sums, **dict(zip(keys, each))}} for each in times]
        return json.dumps(document)

    def test_as_recorded(self) -> None:
        self.assertEqual(parse("tcp").intervals, (TrafficInterval(0, 1.000171, 46.460751730702866),))

    def test_what_omit_leaves_out_is_left_out(self) -> None:
        text = self.document((0, 0.5, True), (0, 0.5, False), (0.5, 1, False))
        intervals = iperf3_parse(text, "iperf3.json").intervals
        self.assertEqual([(interval.start_s, interval.end_s) for interval in intervals], [(0, 0.5), (0.5, 1)])

    def test_times_that_run_backwards_or_overlap(self) -> None:
        for times in (((0.5, 0.4, False), (0.4, 1, False)), ((0, 0.5, False), (0.4, 1, False))):
            with self.assertRaisesRegex(Refused, r"^iperf3.json: intervals\[\d\].sum (runs backwards|begins at 0.4 s)"):
                iperf3_parse(self.document(*times), "iperf3.json")


class Broken(unittest.TestCase):
    def refused(self, text: str, why: str) -> None:
        with self.assertRaisesRegex(Refused, f"^iperf3.json: .*{why}"):
            iperf3_parse(text, "iperf3.json")

    def changed(self, why: str, change: Callable[[Any], object], name: str = "tcp") -> None:
        document = json.loads(data_text(f"iperf3/{name}.json"))
        change(document)
        self.refused(json.dumps(document), why)

    def test_empty(self) -> None:
        self.refused("", "empty")

    def test_cut(self) -> None:
        text = data_text("iperf3/tcp.json").rstrip()
        for length in (1, len(text) // 3, len(text) // 2, len(text) - 1):
            with self.subTest(length=length):
                self.refused(text[:length], "not one JSON document")

    def test_text_around(self) -> None:
        text = data_text("iperf3/tcp.json")
        self.refused("warning: this is not JSON\n" + text, "not one JSON document")
        self.refused(text + "iperf3: interrupt\n", "not one JSON document")

    def test_two_documents(self) -> None:
        self.refused(data_text("iperf3/tcp.json") * 2, "not one JSON document")

    def test_nan(self) -> None:
        for name in ("NaN", "-nan", "Infinity"):
            text = data_text("iperf3/tcp.json").replace("97.778373872184957", name)
            self.assertIn(name, text)
            self.refused(text, "not one JSON document")

    def test_a_number_too_great_to_be_one(self) -> None:
        text = data_text("iperf3/tcp.json").replace("46423570305.6629", "1e999")
        self.refused(text, "finite number")

    def test_error_key_with_exit_status_0(self) -> None:
        self.refused(data_text("iperf3/refused.json"), "iperf3 says: unable to connect")

    def test_error_key_beside_complete_sums(self) -> None:
        self.changed("iperf3 says: broken pipe", lambda d: d.update(error="broken pipe"))

    def test_a_key_with_two_values(self) -> None:
        text = data_text("iperf3/tcp.json").replace('"error"', '"end"')
        self.refused(text.rstrip()[:-1] + ', "end": {}}', "given twice")

    def test_missing_sums(self) -> None:
        self.changed("end has no \"sum_received\"", lambda d: d["end"].pop("sum_received"))

    def test_a_list_in_the_place_of_an_object(self) -> None:
        self.changed("should be an object", lambda d: d.update(end=[]))

    def test_ended_early(self) -> None:
        self.changed("intervals end after", lambda d: d["start"]["test_start"].update(duration=5))

    def test_no_interval_at_all(self) -> None:
        self.changed("intervals end after 0 s", lambda d: d.update(intervals=[]))

    def test_zero(self) -> None:
        zero = {"bytes": 0, "bits_per_second": 0}
        self.changed("is zero", lambda d: d["end"]["sum_received"].update(zero))
        self.changed("is zero", lambda d: d["end"]["sum_received"].update(zero), name="udp")

    def test_more_received_than_sent(self) -> None:
        def double(document: Any) -> None:
            sums = document["end"]["sum_received"]
            sums.update(bytes=2 * sums["bytes"], bits_per_second=2 * sums["bits_per_second"])

        self.changed("more bytes than were sent", double)
        self.changed("more bytes than were sent", double, name="udp")

    def test_a_rate_that_is_not_bytes_over_seconds(self) -> None:
        self.changed("contradicts itself", lambda d: d["end"]["sum_received"].update(bits_per_second=9e12))

    def test_udp_losing_more_than_was_sent(self) -> None:
        self.changed("more packets lost", lambda d: d["end"]["sum_received"].update(lost_packets=9999), name="udp")

    def test_negative_count(self) -> None:
        self.changed("cannot be negative", lambda d: d["end"]["sum_sent"].update(retransmits=-1))

    def test_both_directions_at_once(self) -> None:
        self.refused(data_text("iperf3/bidir.json"), "--bidir is not understood")

    def test_another_protocol(self) -> None:
        self.changed("only TCP and UDP", lambda d: d["start"]["test_start"].update(protocol="SCTP"))
