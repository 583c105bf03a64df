# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of the cells."""

import unittest
from collections import Counter

from helper import scenario_recorded
from nfqbench.plan import plan_make

MODES = scenario_recorded().modes


class Plan(unittest.TestCase):
    def test_each_block_holds_every_mode_once(self) -> None:
        plan = plan_make(MODES, 7, seed=1)
        for block in range(1, 8):
            cells = [cell for cell in plan if cell.block == block]
            self.assertEqual([cell.position for cell in cells], [1, 2, 3])
            self.assertEqual({cell.mode for cell in cells}, set(MODES))

    def test_over_as_many_blocks_as_modes_each_stands_once_in_each_place(self) -> None:
        for seed in range(20):
            places = Counter((cell.mode.name, cell.position) for cell in plan_make(MODES, 6, seed))
            self.assertEqual(set(places.values()), {2})
            self.assertEqual(len(places), 9)

    def test_the_seed_decides(self) -> None:
        self.assertEqual(plan_make(MODES, 5, seed=42), plan_make(MODES, 5, seed=42))
        orders = {tuple(cell.mode.name for cell in plan_make(MODES, 3, seed)) for seed in range(50)}
        self.assertGreater(len(orders), 10)

    def test_the_order_of_a_seed_is_the_same_everywhere(self) -> None:
        names = [cell.mode.name for cell in plan_make(MODES, 2, seed=42)]
        self.assertEqual(names, ["nfq-gso", "none", "nfq", "none", "nfq", "nfq-gso"])

    def test_folders_differ(self) -> None:
        plan = plan_make(MODES, 30, seed=1)
        self.assertEqual(len({cell.folder for cell in plan}), 90)
