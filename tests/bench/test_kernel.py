# SPDX-License-Identifier: GPL-2.0-or-later
"""What kernel and netns.sh print, as recorded, and broken."""

import unittest
from collections.abc import Callable

from helper import data_text
from nfqbench import kernel
from nfqbench.errors import Refused


class Recorded(unittest.TestCase):
    def test_queue_line(self) -> None:
        queue = kernel.queues_parse(data_text("cells/nfq/ping/queue"), "queue")[0]
        self.assertEqual((queue.number, queue.copy_mode, queue.copy_range, queue.id_sequence), (0, 2, 65531, 46))
        self.assertEqual((queue.waiting, queue.dropped, queue.user_dropped), (0, 0, 0))

    def test_no_queue(self) -> None:
        self.assertEqual(kernel.queues_parse("", "queue"), {})

    def test_numbers_at_the_upper_end(self) -> None:
        line = "65535 4294967295 4294967295 2 65531 4294967295 4294967295 4294967295  1\n"
        self.assertEqual(kernel.queues_parse(line, "queue")[65535].id_sequence, 4294967295)

    def test_status_and_rule(self) -> None:
        status = kernel.settings_parse(data_text("cells/nfq/ping/netns.status"), "status")
        self.assertEqual(kernel.rule_parse(status, "4"), kernel.Rule(46, 3864))
        self.assertEqual(kernel.rule_parse(status, "6"), kernel.Rule(0, 0))

    def test_links_without_lo(self) -> None:
        links = kernel.links_parse(data_text("cells/nfq/ping/links.nfqb1-router.json"), "links")
        self.assertEqual(sorted(links), ["to-client", "to-server"])
        self.assertEqual((links["to-client"].rx_packets, links["to-client"].faults), (27, 0))

    def test_ip_before_and_behind_a_hook(self) -> None:
        ip = kernel.ip_parse(data_text("cells/nfq/ping/snmp.nfqb1-router"), "snmp")
        self.assertEqual((ip["4"].received, ip["4"].transmitted, ip["4"].delivered, ip["4"].sent), (46, 46, 0, 0))
        self.assertEqual(ip["6"].delivered, 0)
        self.assertEqual(ip["4"].discards, dict.fromkeys(kernel.DISCARDS, 0))

    def test_an_older_kernel_does_not_count_what_is_transmitted(self) -> None:
        text = data_text("cells/nfq/ping/snmp.nfqb1-router").replace("OutTransmits", "Other")
        ip = kernel.ip_parse(text, "snmp")
        self.assertEqual((ip["4"].received, ip["4"].transmitted, ip["6"].transmitted), (46, None, None))

    def test_drops_of_qdiscs_and_backlogs(self) -> None:
        self.assertEqual(kernel.qdiscs_parse(data_text("cells/nfq/end/qdiscs.nfqb1-router.json"), "qdiscs"),
                         {"lo": 0, "to-client": 0, "to-server": 0})  # fmt: skip
        drops = '[{"dev": "a", "drops": 2}, {"dev": "a", "drops": 1}]'
        self.assertEqual(kernel.qdiscs_parse(drops, "qdiscs"), {"a": 3})
        self.assertEqual(kernel.softnet_parse("0f 0000000a 0\n0d 00000001 0\n", "softnet"), 11)

    def test_throttling(self) -> None:
        throttled = kernel.throttled_parse("thermal=3\ncgroup=\nrealtime=0\n", "throttled")
        self.assertEqual((throttled.thermal, throttled.cgroup, throttled.realtime), (3, None, 0))

    def test_offloads(self) -> None:
        offloads = kernel.offloads_parse(data_text("cells/nfq/offloads.nfqb1-router.txt"), "offloads")
        on = {"tso": True, "gso": True, "gro": False, "tx-checksumming": True, "rx-checksumming": True}
        self.assertEqual(offloads, {"to-client": on, "to-server": on})

    def test_threads(self) -> None:
        threads = kernel.threads_parse(data_text("cells/nfq/sched.txt"), "sched.txt")
        self.assertEqual(threads, (kernel.Thread("rr", 99, "nfq-noop"),) * 2)

    def test_a_command_with_spaces(self) -> None:
        self.assertEqual(kernel.threads_parse("7 other 0 a ) b\n", "sched.txt")[0].name, "a ) b")
        stat = "7 (a ) 9 b) S " + " ".join(str(field) for field in range(4, 53))
        self.assertEqual(kernel.process_ticks_parse(stat, "stat"), 14 + 15)

    def test_memory(self) -> None:
        status = data_text("cells/nfq/end/proc.processor.status")
        self.assertEqual(kernel.memory_parse(status, "status"), 5088)

    def test_cpu_time(self) -> None:
        cpu = kernel.cpu_parse("cpu  1 2 3 40 50 6 7 8 9 9\ncpu0 1\n", "proc.stat")
        self.assertEqual((cpu.busy, cpu.stolen, cpu.total), (19, 8, 117))


class Broken(unittest.TestCase):
    def refused(self, parse: Callable[[str, str], object], *texts: str) -> None:
        for text in texts:
            with self.subTest(text=text), self.assertRaisesRegex(Refused, "^there: "):
                parse(text, "there")

    def test_queue_line(self) -> None:
        line = "0 1 0 2 65531 0 0 46 1\n"
        self.refused(kernel.queues_parse, "x\n", "0 1 0 2 65531 0 0 46\n", "0 1 0 2 65531 0 -1 46 1\n", line + line)

    def test_settings(self) -> None:
        self.refused(kernel.settings_parse, "prefix\n", "a=1\na=2\n", "=1\n")

    def test_rule(self) -> None:
        for packets in ("", "x", "-1"):
            status = kernel.settings_parse(f"rule4_packets={packets}\nrule4_bytes=1\n", "status")
            with self.assertRaisesRegex(Refused, "^status: rule4_packets: not a number"):
                kernel.rule_parse(status, "4")
        with self.assertRaisesRegex(Refused, "^status: has no rule6_packets="):
            kernel.rule_parse(kernel.settings_parse("", "status"), "6")

    def test_links(self) -> None:
        self.refused(kernel.links_parse, "", "{}", '[{"ifname": "eth0"}]', "[] []")

    def test_threads(self) -> None:
        self.refused(kernel.threads_parse, "7 rr 99\n", "7 round-robin 99 x\n", "x rr 99 x\n", "7 rr x x\n")

    def test_counters(self) -> None:
        good = data_text("cells/nfq/ping/snmp.nfqb1-router")
        cut = good[: good.index("Ip6OutRequests")]
        self.refused(kernel.ip_parse, "", cut, good.replace("Ip: 1 64", "Ip: 64", 1), good + "a b c\n")
        self.refused(kernel.softnet_parse, "", "0f\n", "0f -1\n")
        self.refused(kernel.qdiscs_parse, "", '[{"dev": "a"}]', '[{"dev": "a", "drops": -1}]')
        self.refused(kernel.throttled_parse, "", "thermal=\ncgroup=\n", "thermal=x\ncgroup=\nrealtime=\n")
        offloads = data_text("cells/nfq/offloads.nfqb1-router.txt")
        self.refused(kernel.offloads_parse, "", offloads.replace("generic-receive-offload", "other", 1))

    def test_others(self) -> None:
        self.refused(kernel.cpu_parse, "", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3\n")
        self.refused(kernel.process_ticks_parse, "", "7 (x) S 1\n")
        self.refused(kernel.memory_parse, "", "VmRSS: x kB\n", "Name: VmRSS: 1 kB\n")
        self.refused(kernel.number_parse, "", "x\n", "-1\n")
