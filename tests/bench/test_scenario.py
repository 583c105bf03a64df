# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios: what is understood, and that nothing else is let through."""

import re

from helper import ROOT, FolderTest
from nfqbench.check import scenario_check
from nfqbench.errors import UsageError
from nfqbench.network import Network
from nfqbench.processors import processors_replace
from nfqbench.references import published_sentences
from nfqbench.scenario import Factor, Mode, Scenario, everywhere_replace, ping_option, rows_choose
from nfqbench.scenarios import scenario_load

GSO = ROOT / "scripts" / "scenarios" / "gso.toml"
PEER = GSO.with_name("peer.toml")


class Shipped(FolderTest):
    def test_the_original_experiment(self) -> None:
        scenario = scenario_load(GSO)
        self.assertEqual((scenario.topology, scenario.sched, scenario.cc), ("router", "rr:99", "cubic"))
        self.assertEqual([mode.label for mode in scenario.modes], ["no nfq", "nfq without GSO", "nfq with GSO"])
        self.assertEqual([mode.gso for mode in scenario.modes], [None, False, True])
        self.assertEqual(scenario.network_of(scenario.mode("nfq")), Network("router"))
        self.assertEqual(Network("router").directions, 2)

    def test_every_file_is_read_and_bears_its_own_name(self) -> None:
        for path in GSO.parent.glob("*.toml"):
            self.assertEqual(scenario_load(path).name, path.stem)

    def test_every_baseline_is_without_a_queue(self) -> None:
        for path in GSO.parent.glob("*.toml"):
            scenario = scenario_load(path)
            for mode in scenario.modes:
                self.assertFalse(scenario.mode(mode.baseline or scenario.baseline).queue, path)

    def test_what_is_left_out_is_as_it_is_usually(self) -> None:
        scenario = scenario_load(GSO)
        self.assertEqual((scenario.family, scenario.gso_max, scenario.blocks, scenario.pin), (4, 0, 5, ""))
        self.assertEqual((scenario.prepare, scenario.together), ((), False))
        self.assertEqual(scenario.mode("nfq-gso"), Mode(name="nfq-gso", label="nfq with GSO", queue=True, gso=True))

    def test_another_program_that_is_compiled_first(self) -> None:
        scenario = scenario_load(PEER)
        mode = scenario.mode("example")
        self.assertEqual((mode.processor, mode.may_drop), ("{work}/nf-queue {queue} >/dev/null", True))
        self.assertRegex(scenario.prepare[0], r"^cc .*\{work\}/nf-queue")
        self.assertIn(("noop", "example"), scenario.compare)


class Changed(FolderTest):
    def load(self, old: str, new: str) -> Scenario:
        """Of a scenario that asks for no ratios between rows."""
        text = re.sub(r"(?m)^compare = .*\n", "", GSO.read_text(encoding="utf-8"))
        self.assertIn(old, text)
        path = self.folder / "mine.toml"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return scenario_load(path)

    def refused(self, old: str, new: str, why: str) -> None:
        with self.assertRaisesRegex(UsageError, f"^{self.folder}/mine.toml: .*{why}"):
            self.load(old, new)

    def test_latency_under_load_and_lines_of_its_plot(self) -> None:
        scenario = self.load('cc = "cubic"', 'cc = "cubic"\ntogether = true')
        self.assertTrue(scenario.together)
        self.assertEqual(self.load('queue = false', 'queue = false\nline = "x"').modes[0].line, "x")
        self.refused('queue = false', f'queue = false\nline = "{"x" * 25}"', "a line has at most 24 printable")
        self.refused('cc = "cubic"\n\n[ping]\ncount = 200', 'cc = "cubic"\ntogether = true\n\n[ping]\ncount = 0',
                     "together: needs both ping and iperf")  # fmt: skip
        self.refused('cc = "cubic"\n\n[ping]\ncount = 200', 'cc = "cubic"\ntogether = true\n\n[ping]\ncount = 500',
                     "together: ping would outlast iperf; leave it half a second")  # fmt: skip

    def test_unknown_keys_are_named_with_the_known_ones(self) -> None:
        self.refused('cc = "cubic"', 'congestion = "cubic"', 'unknown key "congestion"; known: name, question')
        self.refused("interval_ms = 10", "interval = 10", 'ping has an unknown key "interval"; known: count,')
        self.refused("gso = false", "GSO = false", r'mode\[1\] has an unknown key "GSO"')

    def test_missing_keys(self) -> None:
        self.refused('cc = "cubic"', "", 'has no "cc"')
        self.refused("queue = false", "", r'mode\[0\] has no "queue"')

    def test_types(self) -> None:
        self.refused("count = 200", 'count = "200"', "ping.count should be an integer")
        self.refused("queue = false", "queue = 0", "should be true or false")

    def test_values(self) -> None:
        self.refused('"router"', '"ring"', "router or pair")
        self.refused('"rr:99"', '"rr:100"', "rr:1-99")
        self.refused('baseline = "none"', 'baseline = "nothing"', "not one of the modes")
        self.refused('name = "nfq"', 'name = "none"', "two modes of one name")
        self.refused('name = "nfq"', 'name = "../nfq"', "use a-z")
        self.refused("queue = false", "queue = false\ngso = true", "gso means nothing without queue")
        self.refused('label = "no nfq"', f'label = "{"x" * 25}"', "a label has 1 to 24")
        self.refused("interval_ms = 10", "interval_ms = 0", "at least 1 ms")
        self.refused("count = 200", "count = 65536", "at most 65535")
        self.refused('cc = "cubic"', 'cc = "cubic; reboot"', "not the name")

    def test_keys_of_the_whole_scenario(self) -> None:
        keys = 'family = 6\ngso_max = 196608\nblocks = 7\npin = "client=0,1,daemon=2-3"\nprepare = ["true", "false"]'
        scenario = self.load('cc = "cubic"', f'cc = "cubic"\n{keys}\ncompare = [["nfq-gso", "nfq"]]')
        self.assertEqual((scenario.family, scenario.gso_max, scenario.blocks), (6, 196608, 7))
        self.assertEqual((scenario.pin, scenario.prepare), ("client=0,1,daemon=2-3", ("true", "false")))
        self.assertEqual(scenario.compare, (("nfq-gso", "nfq"),))

    def test_keys_of_a_row_go_over_those_of_the_scenario(self) -> None:
        keys = 'sched = "other"\npin = "daemon=1"\niperf_args = "-P 2"\nqueues = 2\nfanout = "cpu"\nrps = "client=0,server=1"'
        scenario = self.load("gso = true", f'gso = true\nbaseline = "none"\n{keys}')
        own, other = scenario.mode("nfq-gso"), scenario.mode("nfq")
        self.assertEqual((own.queues, own.fanout, own.rps, own.baseline), (2, "cpu", "client=0,server=1", "none"))
        self.assertEqual((scenario.sched_of(own), scenario.sched_of(other)), ("other", "rr:99"))
        self.assertEqual((scenario.pin_of(own), scenario.pin_of(other)), ("daemon=1", ""))
        self.assertEqual((scenario.iperf_args_of(own), scenario.iperf_args_of(other)), ("-P 2", ""))

    def test_a_row_without_a_queue_may_be_placed_and_loaded_otherwise(self) -> None:
        keys = 'pin = "client=0"\nrps = "1"\niperf_args = "-R"\nbaseline = "none"'
        self.assertEqual(self.load("queue = false", f"queue = false\n{keys}").mode("none").pin, "client=0")
        for key in ('noop = "-v"', 'processor = "x {queue}"', "may_drop = true", "queues = 2", 'fanout = "cpu"',
                    'sched = "other"'):  # fmt: skip
            self.refused("queue = false", f"queue = false\n{key}", f"{key.split()[0]} means nothing without queue")

    def test_the_network_of_a_row_goes_over_that_of_the_scenario(self) -> None:
        keys = 'topology = "pair"\nhook = "input"\nfamily = 6\nmtu = 9000\ntso = "off"\ngro = "on"\ngso_max = 70000'
        scenario = self.load("gso = true", f'gso = true\n{keys}\nconntrack = "on"')
        network = Network("pair", "input", 6, 9000, "off", "on", 70000, "on")
        self.assertEqual(scenario.network_of(scenario.mode("nfq-gso")), network)
        self.assertEqual((network.directions, network.hook_used), (1, "input"))
        self.assertEqual(network.options(), {
            "topology": "pair", "hook": "input", "family": "6", "mtu": "9000", "tso": "off", "gro": "on",
            "gso-max": "70000", "conntrack": "on",
        })  # fmt: skip
        self.assertEqual(scenario.network_of(scenario.mode("nfq")), Network("router"))

    def test_networks_that_cannot_be(self) -> None:
        for key, why in (
            ('topology = "ring"', 'topology "ring": router or pair or bridge or lo'),
            ('hook = "input"', 'hook "input": forward in topology router'), ("mtu = 1000", "mtu 1000: 1280 to 65535"),
            ('tso = "yes"', 'tso "yes": on or off'), ('conntrack = "no"', 'conntrack "no": off or on or nat'),
            ('topology = "pair"\nconntrack = "nat"', "conntrack nat: in topology pair nobody routes"),
            ('topology = "lo"\ntunnel = "wireguard"', "tunnel: there is none in topology lo"),
            ('tunnel = "gre"', 'tunnel "gre": wireguard'),
        ):  # fmt: skip
            self.refused("gso = true", f"gso = true\n{key}", why)

    def test_datagrams(self) -> None:
        section = "[udp]\npps = 1000\nbytes = 64\nsegments = 16"
        scenario = self.load("[ping]", f"{section}\n\n[ping]")
        self.assertEqual((scenario.udp_bytes, scenario.udp_segments), (64, 16))
        self.assertEqual({scenario.udp_pps_of(mode) for mode in scenario.modes}, {1000})
        for old, new, why in (("= 16", "= 65", "udp segments 65: 1 to 64"), ("= 64", "= 8", "udp bytes 8: 32 to"),
                              ("= 1000", "= 0", "udp pps 0: at least 1")):  # fmt: skip
            self.refused("[ping]", f"{section.replace(old, new)}\n\n[ping]", why)
        self.refused("gso = true", "gso = true\nudp_pps = 5", r"udp_pps means nothing without \[udp\]")

    def test_factors_make_a_row_of_each_combination(self) -> None:
        factors = """
[[factor]]
name = "GSO"
low = { label = "cut", gso = false, noop = "--no-gso" }
high = { label = "whole", gso = true }

[[factor]]
name = "wait"
low = { label = "sleep" }
high = { label = "spin", noop = "--spin 9", sched = "other" }
"""
        scenario = self.load("gso = true\n", f"gso = true\n{factors}")
        made = [mode for mode in scenario.modes if mode.levels]
        self.assertEqual(scenario.factors, (Factor("GSO", ("cut", "whole")), Factor("wait", ("sleep", "spin"))))
        self.assertEqual([(mode.label, mode.levels, mode.gso, mode.noop, mode.sched) for mode in made], [
            ("cut sleep", (0, 0), False, "--no-gso", None), ("cut spin", (0, 1), False, "--no-gso --spin 9", "other"),
            ("whole sleep", (1, 0), True, "", None), ("whole spin", (1, 1), True, "--spin 9", "other"),
        ])  # fmt: skip

    def test_published_ratios(self) -> None:
        scenario = self.load('cc = "cubic"', 'cc = "cubic"\npublished = [["2017-ag71xx-gro", "gro-on", "gro-off"]]')
        self.assertEqual(list(published_sentences(scenario)), [
            'Published: AR9344 560 MHz, ag71xx (2017): "gro-on" / "gro-off" 1.33 (0.272 / 0.204 Gbit/s).'
        ])  # fmt: skip
        self.refused('cc = "cubic"', 'cc = "cubic"\npublished = [["x", "y"]]', "a reference and two of its rows")

    def test_values_of_new_keys(self) -> None:
        for key, why in (
            ("family = 5", "family 5: 4 or 6"), ("blocks = 0", "blocks 0: at least 1"), ("gso_max = -1", "negative"),
            ('pin = "router=1"', 'pin "router=1": client=CPUS'), ('prepare = "true"', "prepare should be a list"),
            ("prepare = [1]", r"prepare\[0\] should be text"), ('compare = [["nfq"]]', "should be a pair of modes"),
            ('compare = [["nfq", "x"]]', "not two of the modes"),
            ('compare = [["nfq", "nfq"]]', "not two of the modes"),
        ):  # fmt: skip
            self.refused('cc = "cubic"', f'cc = "cubic"\n{key}', why)
        for key, why in (
            ('sched = "rr"', "rr:1-99"), ('pin = "daemon"', "pin \"daemon\""), ("queues = 0", "queues 0: at least 1"),
            ('fanout = "cpu"', "means nothing with one queue"), ('queues = 2\nfanout = "x"', "hash or cpu"),
            ('processor = "x"', r"has no \{queue\}"), ('processor = "x {queue}"\nnoop = "-v"', "noop has options of"),
            ("may_drop = true", "in the place of nfq-noop"), ('baseline = "nfq"', "not a mode without a queue"),
            ('rps = "client"', "rps"), ('rps = "client=0,"', "rps"), ('busy = "all"', "busy"),
            ('noop = "--spin 5 --json=x"', "set by nfq-bench"),
        ):  # fmt: skip
            self.refused("gso = true", key, f"{why}")

    def test_nothing_to_measure(self) -> None:
        sections = "count = {}\ninterval_ms = 10\n\n[iperf]\nseconds = {}"
        self.refused(sections.format(200, 5), sections.format(0, 0), "nothing to measure")

    def test_not_toml(self) -> None:
        self.refused("[ping]", "[ping", "not TOML")

    def test_not_there(self) -> None:
        with self.assertRaisesRegex(UsageError, "cannot be read: No such file"):
            scenario_load(self.folder / "missing.toml")


class Options(FolderTest):
    def test_ping(self) -> None:
        self.assertEqual(ping_option("100@5"), {"ping_count": 100, "ping_interval_ms": 5})
        self.assertEqual(ping_option("0"), {"ping_count": 0})
        for text in ("", "100", "100@", "@5", "100@5ms", "-1@5"):
            with self.assertRaisesRegex(UsageError, "should be COUNT@MS"):
                ping_option(text)

    def test_another_program_takes_the_place_of_all_rows_with_a_queue(self) -> None:
        scenario = processors_replace(scenario_load(GSO), ["/opt/x/nfqws --qnum={queue}"])
        self.assertEqual([(mode.name, mode.label, mode.gso) for mode in scenario.modes],
                         [("none", "no nfq", None), ("processor", "nfqws", None)])  # fmt: skip

    def test_another_program_replaces_the_rows_with_programs_of_their_own_too(self) -> None:
        scenario = processors_replace(scenario_load(PEER), ["x {queue}"])
        self.assertEqual([mode.name for mode in scenario.modes], ["none", "noop-spin-processor", "noop-client-processor"])
        self.assertEqual((scenario.prepare, scenario.compare), ((), ()))
        row = scenario.mode("noop-client-processor")
        self.assertEqual((row.processor, row.may_drop, row.pin), ("x {queue}", False, "client=0,server=1,daemon=0"))
        self.assertTrue(processors_replace(scenario_load(PEER), ["{work}/nf-queue {queue}"]).prepare)

    def test_what_holds_everywhere_goes_over_what_a_row_says(self) -> None:
        for name, key, value in (("sched", "sched", "fifo:1"), ("placement", "pin", "daemon=1")):
            scenario = everywhere_replace(scenario_load(GSO.with_name(f"{name}.toml")), {key: value})
            self.assertEqual({(getattr(scenario, key), getattr(mode, key)) for mode in scenario.modes}, {(value, None)})

    def test_another_program_stands_in_each_place_once(self) -> None:
        scenario = processors_replace(scenario_load(GSO.with_name("hooks.toml")), ["./mine {queue}"])
        rows = [(mode.label, mode.topology, mode.hook, mode.gso) for mode in scenario.modes if mode.queue]
        self.assertEqual(rows, [("OUTPUT", None, "output", None), ("INPUT", None, "input", None),
                                ("FORWARD", "router", None, None), ("bridge", "bridge", None, None)])  # fmt: skip

    def test_two_programs_are_compared_in_one_run(self) -> None:
        scenario = processors_replace(scenario_load(GSO), ["nfq-noop", "./mine {queue}"])
        rows = [(mode.name, mode.label, mode.processor, mode.gso) for mode in scenario.modes if mode.queue]
        self.assertEqual(rows, [("processor1", "nfq-noop", "", True), ("processor2", "mine", "./mine {queue}", None)])
        self.assertEqual(scenario.compare, (("processor2", "processor1"),))
        several = processors_replace(scenario_load(GSO.with_name("mtu.toml")), ["a {queue}", "b {queue}"])
        labels = [mode.label for mode in several.modes if mode.queue]
        self.assertEqual(labels, ["a: MTU 1500", "b: MTU 1500", "a: MTU 9000", "b: MTU 9000", "a: lo 65535", "b: lo 65535"])
        self.assertEqual(len(several.compare), 3)
        with self.assertRaisesRegex(UsageError, "the same program twice"):
            processors_replace(scenario_load(GSO), ["a {queue}", "a {queue}"])

    def test_another_program_can_stand_in_every_scenario(self) -> None:
        for path in sorted(GSO.parent.glob("*.toml")):
            scenario = processors_replace(scenario_load(path), ["nfq-noop", "./mine {queue}"])
            scenario_check(scenario, path.name)
            self.assertGreater(sum(mode.processor == "./mine {queue}" for mode in scenario.modes), 0, path)

    def test_some_rows_come_with_their_baselines(self) -> None:
        scenario = rows_choose(scenario_load(GSO.with_name("mtu.toml")), ["gso-9000"])
        self.assertEqual([mode.name for mode in scenario.modes], ["none-1500", "none-9000", "gso-9000"])
        self.assertEqual(scenario.compare, ())
        with self.assertRaisesRegex(UsageError, "--rows x: there is no such row in gso; there are: none, nfq, nfq-gso"):
            rows_choose(scenario_load(GSO), ["x"])

    def test_another_program_must_be_told_its_queue(self) -> None:
        with self.assertRaisesRegex(UsageError, r"has no \{queue\}"):
            processors_replace(scenario_load(GSO), ["nfqws --qnum=0"])
