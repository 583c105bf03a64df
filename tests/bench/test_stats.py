# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics against tables and against figures computed by hand."""

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
        self.assertEqual(stats.paired_ratio([(1, 4)]), stats.Ratio(0.25, None))
        self.assertIsNone(stats.paired_ratio([]))


class Percentiles(unittest.TestCase):
    def test_between_ranks(self) -> None:
        self.assertEqual([stats.percentile([4, 1, 3, 2], f) for f in (0, 0.5, 1)], [1, 2.5, 4])
        self.assertAlmostEqual(stats.percentile(range(101), 0.99), 99)
        self.assertEqual(stats.percentile([7], 0.99), 7)
