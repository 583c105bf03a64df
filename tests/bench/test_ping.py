# SPDX-License-Identifier: GPL-2.0-or-later
"""ping output, as recorded from iputils 20221126 between two namespaces, and broken."""

import unittest

from helper import data_text
from nfqbench.errors import Refused
from nfqbench.ping import Ping, ping_parse


def parse(name: str) -> Ping:
    return ping_parse(data_text(f"ping/{name}.txt"), "ping.txt")


class Recorded(unittest.TestCase):
    def test_replies_and_summary_are_read(self) -> None:
        ping = parse("ok")
        self.assertEqual((ping.transmitted, ping.received, ping.lost, ping.duplicates, ping.errors), (10, 10, 0, 0, 0))
        self.assertEqual(ping.rtts_us[:3], (133, 42, 47))
        self.assertEqual((ping.min_us, ping.max_us), (36, 133))
        self.assertAlmostEqual(ping.mean_us or 0, 54.6)
        self.assertEqual(ping.percentile_us(0.5), 42.5)

    def test_when_each_reply_came(self) -> None:
        ping = parse("ok")
        self.assertEqual(ping.replied_at_s[:3], (0, 0.012631, 0.028631))
        self.assertEqual(len(ping.replied_at_s), len(ping.rtts_us))
        self.assertEqual(len(parse("duplicates").replied_at_s), 6)
        self.assertEqual(parse("loss-100").replied_at_s, ())

    def test_times_over_a_millisecond_are_rounded_in_lines_and_exact_in_the_summary(self) -> None:
        ping = parse("slow-v6")
        self.assertEqual(ping.rtts_us[0], 1013000)
        self.assertAlmostEqual(ping.max_us or 0, 1012690)

    def test_loss_of_2_5_percent(self) -> None:
        ping = parse("loss-2.5")
        self.assertEqual((ping.transmitted, ping.received, ping.lost), (40, 39, 1))
        self.assertEqual(len(ping.rtts_us), 39)

    def test_loss_of_100_percent_has_no_times(self) -> None:
        ping = parse("loss-100")
        self.assertEqual((ping.lost, ping.rtts_us), (5, ()))
        self.assertEqual((ping.mean_us, ping.min_us, ping.max_us, ping.percentile_us(0.99)), (None,) * 4)

    def test_duplicates_are_counted_and_not_part_of_the_times(self) -> None:
        ping = parse("duplicates")
        self.assertEqual((ping.received, ping.duplicates), (6, 5))
        self.assertEqual(ping.rtts_us, (43, 38, 38, 122, 120, 75))

    def test_another_order_than_sent_is_counted(self) -> None:
        ping = parse("reordered")
        self.assertEqual((ping.lost, ping.reordered, parse("ok").reordered), (0, 3, 0))

    def test_errors_of_the_network_are_counted(self) -> None:
        ping = parse("unreachable")
        self.assertEqual((ping.lost, ping.errors), (2, 2))


class Broken(unittest.TestCase):
    def refused(self, text: str, why: str) -> None:
        with self.assertRaisesRegex(Refused, f"^ping.txt: .*{why}"):
            ping_parse(text, "ping.txt")

    def changed(self, old: str, new: str, why: str) -> None:
        text = data_text("ping/ok.txt")
        self.assertIn(old, text)
        self.refused(text.replace(old, new, 1), why)

    def test_empty(self) -> None:
        self.refused("", "empty")
        self.refused(" \n", "empty")

    def test_cut_anywhere(self) -> None:
        lines = data_text("ping/ok.txt").splitlines(keepends=True)
        for count in range(1, len(lines)):
            with self.subTest(lines=count):
                self.refused("".join(lines[:count]), "")

    def test_busybox_has_no_mdev_and_is_named(self) -> None:
        self.refused(data_text("ping/busybox.txt"), "busybox.*iputils-ping")

    def test_text_around(self) -> None:
        self.refused("Warning: something\n" + data_text("ping/ok.txt"), "does not begin")
        self.refused(data_text("ping/ok.txt") + "Killed\n", "behind the summary")

    def test_a_line_that_is_not_understood(self) -> None:
        self.changed("icmp_seq=4 ttl=64 time=0.041 ms", "icmp_seq=4 ttl=64 time=fast", "not a reply")

    def test_the_quiet_form_has_a_summary_without_lines(self) -> None:
        text = data_text("ping/ok.txt")
        self.refused(text[: text.index("[")] + text[text.index("---") :], "by its lines")

    def test_counts_that_contradict_the_lines(self) -> None:
        self.changed("10 received", "9 received", "by its lines")

    def test_loss_that_contradicts_the_counts(self) -> None:
        self.changed("0% packet loss", "50% packet loss", "50 % loss")

    def test_times_that_contradict_the_lines(self) -> None:
        self.changed("rtt min/avg/max/mdev = 0.036/0.054", "rtt min/avg/max/mdev = 0.036/0.094", "avg is 55 us")

    def test_a_clock_that_is_set_back(self) -> None:
        self.changed("[1796057748.092298]", "[1796057748.079666]", "set back while ping ran, before icmp_seq=2")

    def test_a_packet_answered_twice_without_being_called_a_duplicate(self) -> None:
        self.changed("icmp_seq=2 ", "icmp_seq=1 ", "two to the same one")

    def test_a_reply_to_what_was_not_sent(self) -> None:
        self.changed("icmp_seq=10 ", "icmp_seq=11 ", "never sent")
