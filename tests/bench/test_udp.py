# SPDX-License-Identifier: GPL-2.0-or-later
"""What nfq-udp tells, and that it is refused if it contradicts itself."""

import json
import unittest
from typing import Any

from nfqbench.errors import Refused
from nfqbench.kernel import udp_parse as errors_parse
from nfqbench.udp import udp_parse

TOLD: dict[str, Any] = {
    "schema": 1, "asked_pps": 2000, "bytes": 64, "segments": 16, "seconds": 1.5, "sent": 3000, "send_calls": 188,
    "received": 2500, "lost": 500, "duplicates": 0, "reordered": 3, "strange": 0, "receive_seconds": 1.25,
    "receive_buffer_bytes": 212992,
    "intervals": [{"start_s": 0, "end_s": 1, "received": 2000}, {"start_s": 1, "end_s": 2, "received": 500}],
}  # fmt: skip


class Told(unittest.TestCase):
    def test_figures(self) -> None:
        traffic = udp_parse(json.dumps(TOLD), "udp.json")
        self.assertEqual((traffic.protocol, traffic.packets, traffic.lost_packets), ("UDP", 3000, 500))
        self.assertEqual((traffic.sent_bytes, traffic.received_bytes, traffic.seconds), (192000, 160000, 1.25))
        self.assertAlmostEqual(traffic.gbps, 160000 * 8 / 1.25 / 1e9)
        self.assertEqual((traffic.asked_pps, traffic.segments, traffic.reordered), (2000, 16, 3))

    def test_the_last_second_is_as_long_as_it_was(self) -> None:
        first, last = udp_parse(json.dumps(TOLD), "udp.json").intervals
        self.assertEqual((first.start_s, first.end_s, last.end_s), (0, 1, 1.25))
        self.assertAlmostEqual(last.gbps, 500 * 64 * 8 / 0.25 / 1e9)

    def test_contradictions(self) -> None:
        wrong: tuple[tuple[dict[str, Any], str], ...] = (
            ({"lost": 499}, "2500 received and 499 lost of 3000 sent"), ({"strange": 1}, "1 datagrams were not those"),
            ({"received": 0, "lost": 3000}, "nothing was measured"), ({"receive_seconds": 0}, "nothing was measured"),
            ({"intervals": []}, "2500 received, 0 in its intervals"), ({"schema": 2}, "schema 2 is not understood"),
            ({"sent": -1}, "cannot be negative"),
        )  # fmt: skip
        for change, why in wrong:
            with self.subTest(why=why), self.assertRaisesRegex(Refused, f"^udp.json: .*{why}"):
                udp_parse(json.dumps({**TOLD, **change}), "udp.json")

    def test_what_is_missing(self) -> None:
        for key in ("sent", "received", "lost", "bytes", "receive_seconds", "intervals", "asked_pps", "segments"):
            with self.subTest(key=key), self.assertRaisesRegex(Refused, f'has no "{key}"'):
                udp_parse(json.dumps({name: value for name, value in TOLD.items() if name != key}), "udp.json")


class Sockets(unittest.TestCase):
    def test_errors_by_version_of_ip(self) -> None:
        text = "Udp: InDatagrams NoPorts InErrors\nUdp: 10 0 7\nUdp6InErrors 3\n"
        self.assertEqual(errors_parse(text, "snmp"), {"4": 7, "6": 3})
