# SPDX-License-Identifier: GPL-2.0-or-later
"""Recorded cells whose network is not the one that the row is about, and claims about aggregates that do not hold."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from helper import FolderTest, scenario_recorded
from nfqbench.evidence import evidence_read
from nfqbench.judge import judge
from nfqbench.scenario import Scenario

SNAPSHOTS = ("start", "ping", "end")


def row_change(name: str, **changes: Any) -> Scenario:
    scenario = scenario_recorded()
    modes = tuple(replace(mode, **changes) if mode.name == name else mode for mode in scenario.modes)
    return replace(scenario, modes=modes)


class NetworkTest(FolderTest):
    def reasons(self, cell: Path, scenario: Scenario) -> tuple[str, ...]:
        return judge(scenario, scenario.mode(cell.name), evidence_read(cell))

    def status_append(self, cell: Path, text: str) -> None:
        for snapshot in SNAPSHOTS:
            path = cell / snapshot / "netns.status"
            path.write_text(path.read_text(encoding="ascii") + text, encoding="ascii")


class Settings(NetworkTest):
    def test_a_network_that_is_not_what_was_asked_for(self) -> None:
        wrong: tuple[tuple[dict[str, Any], str], ...] = (
            ({"mtu": 9000}, "network: mtu is 1500, not 9000"), ({"family": 6}, "network: family is 4, not 6"),
            ({"topology": "bridge"}, "network: topology is router, not bridge"),
            ({"tunnel": "wireguard"}, "network: tunnel is , not wireguard"), ({"gro": "on"}, "network: gro is not on"),
            ({"tso": "off"}, "network: tso is not off"),
        )  # fmt: skip
        for changes, why in wrong:
            with self.subTest(why=why):
                self.assertEqual(self.reasons(self.cell_copy("none"), row_change("none", **changes))[:1], (why,))

    def test_the_recorded_network(self) -> None:
        cell = self.cell_copy("nfq-gso")
        self.assertEqual(self.reasons(cell, row_change("nfq-gso", tso="on", gro="off", mtu=1500, hook="forward")), ())

    def test_connections_are_tracked_or_not(self) -> None:
        cell = self.cell_copy("nfq-gso")
        self.status_append(cell, "conntrack=off\nconntrack_entries=3\nnat_packets=0\n")
        reasons = self.reasons(cell, scenario_recorded())
        self.assertEqual(reasons, ("conntrack: 3 connections are tracked, though it is to be off",))

    def test_tracking_and_translation_have_happened(self) -> None:
        for entries, translated, expected in (
            ("3", "2", ()), ("3", "0", ("conntrack: no connection was translated",)),
            ("0", "2", ("conntrack: no connection is tracked",)),
        ):  # fmt: skip
            cell = self.cell_copy("nfq-gso")
            self.status_append(cell, f"conntrack=nat\nconntrack_entries={entries}\nnat_packets={translated}\n")
            self.assertEqual(self.reasons(cell, row_change("nfq-gso", conntrack="nat")), expected)


class Aggregates(NetworkTest):
    def test_they_came_as_was_claimed(self) -> None:
        for mode in ("none", "nfq", "nfq-gso"):
            self.assertEqual(self.reasons(self.cell_copy(mode), row_change(mode, aggregates=True)), ())

    def test_none_should_have_come(self) -> None:
        for mode in ("none", "nfq", "nfq-gso"):
            reasons = self.reasons(self.cell_copy(mode), row_change(mode, aggregates=False))
            self.assertEqual(len(reasons), 1, mode)
            self.assertRegex(reasons[0], r"^aggregates: none should come to the hook, but \d+ bytes a packet came on a link")

    def test_the_daemon_is_a_witness(self) -> None:
        reasons = self.reasons(self.cell_copy("nfq-gso"), row_change("nfq-gso", aggregates=False))
        self.assertRegex(reasons[0], r"the daemon saw \d+ of them$")

    def test_giants(self) -> None:
        scenario = row_change("nfq-gso", gso_max=196608)
        reasons = self.reasons(self.cell_copy("nfq-gso"), scenario)
        self.assertEqual(len(reasons), 1)
        self.assertRegex(reasons[0], r"^gso: the daemon's greatest packet has \d+ bytes, not over 65535$")
