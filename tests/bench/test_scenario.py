# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios: what is understood, and that nothing else is let through."""

from helper import ROOT, FolderTest
from nfqbench.errors import UsageError
from nfqbench.scenario import Scenario, ping_option, processor_replace, scenario_load

GSO = ROOT / "scripts" / "scenarios" / "gso.toml"


class Shipped(FolderTest):
    def test_the_original_experiment(self) -> None:
        scenario = scenario_load(GSO)
        self.assertEqual((scenario.topology, scenario.sched, scenario.cc), ("router", "rr:99", "cubic"))
        self.assertEqual([mode.label for mode in scenario.modes], ["no nfq", "nfq without GSO", "nfq with GSO"])
        self.assertEqual([mode.gso for mode in scenario.modes], [None, False, True])
        self.assertEqual(scenario.directions, 2)

    def test_every_file_is_read_and_bears_its_own_name(self) -> None:
        for path in GSO.parent.glob("*.toml"):
            self.assertEqual(scenario_load(path).name, path.stem)


class Changed(FolderTest):
    def load(self, old: str, new: str) -> Scenario:
        text = GSO.read_text(encoding="utf-8")
        self.assertIn(old, text)
        path = self.folder / "mine.toml"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return scenario_load(path)

    def refused(self, old: str, new: str, why: str) -> None:
        with self.assertRaisesRegex(UsageError, f"^{self.folder}/mine.toml: .*{why}"):
            self.load(old, new)

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
        self.refused("queue = false", "queue = false\ngso = true", "mean nothing without queue")
        self.refused('label = "no nfq"', f'label = "{"x" * 25}"', "a label has 1 to 24")
        self.refused("interval_ms = 10", "interval_ms = 1", "at least 2 ms")
        self.refused("count = 200", "count = 65536", "at most 65535")
        self.refused('cc = "cubic"', 'cc = "cubic; reboot"', "not the name")

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
        scenario = processor_replace(scenario_load(GSO), "/opt/x/nfqws --qnum={queue}")
        self.assertEqual([(mode.name, mode.label, mode.gso) for mode in scenario.modes],
                         [("none", "no nfq", None), ("processor", "nfqws", None)])  # fmt: skip

    def test_another_program_must_be_told_its_queue(self) -> None:
        with self.assertRaisesRegex(UsageError, r"has no \{queue\}"):
            processor_replace(scenario_load(GSO), "nfqws --qnum=0")
