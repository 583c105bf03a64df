# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics against tables and against figures computed by hand."""

import math
import unittest

from nfqbench import stats


class Student(unittest.TestCase):
    def test_quantiles_of_the_usual_table(self) -> None:
        table = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 30: 2.042, 120: 1.980}
        for degrees, expected in table.items():
            self.assertAlmostEqual(stats.t_quantile(degrees), expected, places=3)
        self.assertAlmostEqual(stats.t_quantile(4, 0.99), 4.604, places=3)

    def test_interval(self) -> None:
        # Mean 12, standard deviation 2, three values: 4.303 * 2 / sqrt(3) = 4.968.
        low, high = stats.mean_interval([10, 12, 14]) or (0, 0)
        self.assertAlmostEqual(low, 12 - 4.968, places=3)
        self.assertAlmostEqual(high, 12 + 4.968, places=3)

    def test_one_value_has_no_interval(self) -> None:
        self.assertIsNone(stats.mean_interval([10]))
        self.assertIsNone(stats.deviation([10]))

    def test_equal_values_have_an_interval_of_no_width(self) -> None:
        self.assertEqual(stats.mean_interval([3, 3, 3]), (3, 3))


class Ratios(unittest.TestCase):
    def test_geometric_mean_of_the_pairs(self) -> None:
        # Ratios 1/2 and 2 cancel out, although the arithmetic mean of them is 1.25.
        ratio = stats.paired_ratio([(1, 2), (4, 2)])
        assert ratio and ratio.ci95
        self.assertAlmostEqual(ratio.ratio, 1)
        self.assertAlmostEqual(ratio.ci95[0] * ratio.ci95[1], 1)

    def test_what_all_pairs_share_has_no_width(self) -> None:
        """Blocks may drift as they like: only what happens within one counts."""
        ratio = stats.paired_ratio([(1, 2), (10, 20), (100, 200)])
        assert ratio and ratio.ci95
        self.assertAlmostEqual(ratio.ratio, 0.5)
        self.assertAlmostEqual(ratio.ci95[1] - ratio.ci95[0], 0)

    def test_one_pair_has_no_interval_and_none_no_ratio(self) -> None:
        self.assertEqual(stats.paired_ratio([(1, 4)]), stats.Ratio(0.25, None, 0.25, 1))
        self.assertIsNone(stats.paired_ratio([]))


    def test_the_median_beside_it(self) -> None:
        ratio = stats.paired_ratio([(1, 1), (2, 1), (16, 1)])
        assert ratio
        self.assertEqual((ratio.median, ratio.blocks), (2, 3))


class Bootstrap(unittest.TestCase):
    VALUES = [1.0, 2.0, 3.0, 4.0] * 5

    def test_from_twenty_blocks_on(self) -> None:
        pairs = [(math.exp(value), 1.0) for value in self.VALUES]
        few, many = stats.paired_ratio(pairs[:19]), stats.paired_ratio(pairs)
        student, drawn = stats.mean_interval(self.VALUES[:19]), stats.bootstrap_interval(self.VALUES)
        assert few and few.ci95 and many and many.ci95 and student
        self.assertEqual([round(math.log(end), 9) for end in few.ci95], [round(end, 9) for end in student])
        self.assertEqual([round(math.log(end), 9) for end in many.ci95], [round(end, 9) for end in drawn])

    def test_it_is_near_the_interval_of_the_normal_distribution(self) -> None:
        # Standard deviation 1.118 (population), 20 values: 1.96 * 1.118 / sqrt(20) = 0.490.
        low, high = stats.bootstrap_interval(self.VALUES)
        self.assertAlmostEqual(low, 2.5 - 0.490, delta=0.03)
        self.assertAlmostEqual(high, 2.5 + 0.490, delta=0.03)
        wider = stats.bootstrap_interval(self.VALUES, 0.99)
        self.assertLess(wider[0], low)

    def test_the_same_values_give_the_same_interval(self) -> None:
        self.assertEqual(stats.bootstrap_interval(self.VALUES), stats.bootstrap_interval(self.VALUES))


class Statements(unittest.TestCase):
    def says(self, ratio: float, low: float, high: float, floor: float | None, more_is_faster: bool = True) -> str | None:
        return stats.statement_make(stats.Ratio(ratio, (low, high), ratio, 5), floor, more_is_faster)

    def test_a_difference_beyond_chance_and_floor(self) -> None:
        self.assertEqual(self.says(0.5, 0.4, 0.6, 0.1), "slower")
        self.assertEqual(self.says(2.0, 1.5, 2.5, 0.1), "faster")
        self.assertEqual(self.says(2.0, 1.5, 2.5, 0.1, more_is_faster=False), "slower")

    def test_within_the_floor_it_means_nothing(self) -> None:
        self.assertEqual(self.says(0.9, 0.85, 0.95, 0.2), "inconclusive")

    def test_what_chance_explains_is_inconclusive(self) -> None:
        self.assertEqual(self.says(2.0, 0.9, 4.0, 0.1), "inconclusive")

    def test_equivalent_is_the_whole_interval_within_the_floor_and_near_1(self) -> None:
        self.assertEqual(self.says(1.01, 0.98, 1.03, 0.05), "equivalent")
        self.assertEqual(self.says(1.01, 0.98, 1.07, 0.05), "inconclusive")
        self.assertEqual(self.says(1.1, 0.8, 1.5, 3.0), "inconclusive")

    def test_nothing_known(self) -> None:
        self.assertIsNone(stats.statement_make(None, 0.1, True))
        self.assertEqual(self.says(0.5, 0.4, 0.6, None), "inconclusive")
        self.assertEqual(stats.statement_make(stats.Ratio(0.5, None, 0.5, 1), 0.1, True), "inconclusive")

    def test_the_floor_is_what_the_twins_differ_by(self) -> None:
        self.assertAlmostEqual(stats.floor_of(stats.Ratio(0.8, (0.5, 1.2), 1, 5)) or 0, 0.25)
        self.assertAlmostEqual(stats.floor_of(stats.Ratio(1.1, (0.5, 2.4), 1, 5)) or 0, 0.1)
        self.assertAlmostEqual(stats.floor_of(stats.Ratio(1.0, (1.0, 1.001), 1, 5)) or 0, 0.01)
        self.assertIsNone(stats.floor_of(stats.Ratio(1.1, None, 1, 1)))
        self.assertIsNone(stats.floor_of(None))


class Percentiles(unittest.TestCase):
    def test_between_ranks(self) -> None:
        self.assertEqual([stats.percentile([4, 1, 3, 2], f) for f in (0, 0.5, 1)], [1, 2.5, 4])
        self.assertAlmostEqual(stats.percentile(range(101), 0.99), 99)
        self.assertEqual(stats.percentile([7], 0.99), 7)
