# SPDX-License-Identifier: GPL-2.0-or-later
"""Effects of factors on made figures, whose effects are known."""

import unittest
from collections.abc import Callable

from made import run_made, scenario_made
from nfqbench.effects import Effect, effects_make
from nfqbench.record import Cell, Rtt
from nfqbench.scenario import Factor, Mode, Scenario
from nfqbench.table import text_render

FACTORS = (Factor("GSO", ("off", "on")), Factor("wait", ("sleep", "spin")))
ROWS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def design() -> Scenario:
    rows = tuple(
        Mode(name=f"r{a}{b}", label=f"row {a} {b}", queue=True, gso=None, levels=(a, b)) for a, b in ROWS
    )  # fmt: skip
    return scenario_made(modes=(Mode("none", "no nfq", False, None), *rows), factors=FACTORS, compare=())


def effects(figure: Callable[[int, int, int], float], blocks: int = 3) -> dict[str, Effect]:
    """`figure` by block and levels: of the throughput; the RTT is its inverse."""
    valid: dict[str, list[Cell]] = {mode.name: [] for mode in design().modes}
    for block in range(1, blocks + 1):
        for a, b in ROWS:
            value = figure(block, a, b)
            rtt = Rtt(mean=100 / value, min=1, max=1, p50=1, p99=1)
            valid[f"r{a}{b}"].append(Cell(block, 1, "", f"r{a}{b}", (), gbps=value, rtt_us=rtt))
    return {effect.label: effect for effect in effects_make(design(), valid, 0.01, 0.01)}


class Effects(unittest.TestCase):
    def ratio(self, effect: Effect) -> float:
        assert effect.gbps
        ratio: float = effect.gbps.ratio
        return ratio

    def test_two_factors_that_do_not_mind_each_other(self) -> None:
        found = effects(lambda block, a, b: 2 * 4.0**a * 3.0**b * block)
        self.assertEqual(list(found), ["GSO: on / off", "wait: spin / sleep", "GSO x wait"])
        self.assertAlmostEqual(self.ratio(found["GSO: on / off"]), 4)
        self.assertAlmostEqual(self.ratio(found["wait: spin / sleep"]), 3)
        self.assertAlmostEqual(self.ratio(found["GSO x wait"]), 1)
        self.assertEqual(found["GSO: on / off"].gbps_says, "faster")
        self.assertEqual(found["GSO: on / off"].rtt_says, "faster")

    def test_a_factor_that_helps_only_beside_another(self) -> None:
        found = effects(lambda block, a, b: 9.0 if a and b else 1.0)
        self.assertAlmostEqual(self.ratio(found["GSO: on / off"]), 3)
        self.assertAlmostEqual(self.ratio(found["wait: spin / sleep"]), 3)
        self.assertAlmostEqual(self.ratio(found["GSO x wait"]), 3)

    def test_the_interval_is_over_blocks(self) -> None:
        effect = effects(lambda block, a, b: 2.0 if a and block > 1 else 1.0)["GSO: on / off"]
        assert effect.gbps and effect.gbps.ci95
        self.assertEqual(effect.gbps.blocks, 3)
        self.assertLess(effect.gbps.ci95[0], 1)
        self.assertEqual(effect.gbps_says, "inconclusive")

    def test_a_block_with_a_missing_row_says_nothing(self) -> None:
        valid = {mode.name: [Cell(1, 1, "", mode.name, (), gbps=2.0)] for mode in design().modes}
        valid["r11"] = []
        self.assertTrue(all(effect.gbps is None for effect in effects_make(design(), valid, 0.01, 0.01)))

    def test_a_scenario_without_factors_has_no_effects(self) -> None:
        self.assertEqual(run_made(scenario_made()).summary.effects, ())

    def test_the_table_tells_effects_in_the_place_of_ratios(self) -> None:
        text = text_render(run_made(design()))
        self.assertRegex(text, r"(?m)^effects +RTT: ratio +95 % +median +statement$")
        self.assertRegex(text, r"(?m)^GSO x wait ")
        self.assertNotIn("row 1 1 / no nfq", text)
