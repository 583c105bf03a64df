# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows that every run has beside those of its scenario."""

import unittest
from dataclasses import replace

from helper import ROOT, scenario_recorded
from nfqbench.controls import controls_add
from nfqbench.check import scenario_check
from nfqbench.processors import processors_replace
from nfqbench.scenario import LABEL_LENGTH, Mode
from nfqbench.scenarios import scenario_load


class Controls(unittest.TestCase):
    def added(self, *modes: Mode, ping: int = 20, together: bool = False) -> list[Mode]:
        scenario = scenario_recorded()
        scenario = replace(scenario, modes=modes or scenario.modes, ping_count=ping, together=together)
        return [mode for mode in controls_add(scenario).modes if mode.role]

    def test_the_baseline_again_and_the_last_row_with_its_packets_held(self) -> None:
        again, control = self.added()
        self.assertEqual((again.name, again.label, again.role), ("none-again", "no nfq again", "again"))
        self.assertEqual((control.name, control.noop, control.role), ("nfq-gso-control", "--delay 100", "control"))

    def test_the_twin_is_like_its_row_in_all_else(self) -> None:
        row = Mode("a", "a", True, True, noop="--spin 50", pin="daemon=1", sched="other", rps="0")
        control = self.added(scenario_recorded().modes[0], row)[1]
        self.assertEqual(replace(row, name=control.name, label=control.label, noop="--spin 50 --delay 100",
                                 role="control"), control)  # fmt: skip

    def test_rows_that_cannot_be_held_are_passed_over(self) -> None:
        none, good = scenario_recorded().modes[:2]
        busy, several = replace(good, name="busy", busy="0"), replace(good, name="several", queues=2)
        foreign, held = replace(good, name="x", processor="x {queue}", noop=""), replace(good, name="h", noop="--delay 1")
        self.assertEqual(self.added(none, good, busy, several, foreign, held)[1].name, "nfq-control")

    def test_where_nothing_can_be_held_there_is_the_noise_floor_alone(self) -> None:
        foreign = processors_replace(scenario_recorded(), ["x {queue}"]).modes
        for roles in (self.added(*foreign), self.added(ping=0), self.added(together=True)):
            self.assertEqual([mode.role for mode in roles], ["again"])

    def test_of_the_control_only_ping_is_measured(self) -> None:
        scenario = controls_add(scenario_recorded())
        seconds = [scenario.iperf_seconds_of(mode) for mode in scenario.modes]
        self.assertEqual(seconds, [1, 1, 1, 1, 0])

    def test_every_scenario_stays_one_that_is_accepted(self) -> None:
        paths = sorted((ROOT / "scripts" / "scenarios").glob("*.toml"))
        self.assertTrue(paths)
        for path in paths:
            scenario = controls_add(scenario_load(path))
            scenario_check(scenario, path.name)
            self.assertLessEqual(max(len(mode.label) for mode in scenario.modes), LABEL_LENGTH)
