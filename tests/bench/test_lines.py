# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates without loss, and the rate at which the RTT doubles."""

import unittest
from collections.abc import Sequence

from made import scenario_of_lines
from nfqbench.lines import Line, lines_grid, lines_make
from nfqbench.record import Cell, Rtt

Told = tuple[float, int, float]  # sent a second, lost of one second, p99


def cell(block: int, mode: str, told: Told) -> Cell:
    sent, lost, p99 = told
    rtt = Rtt(mean=p99 / 2, min=1, max=p99, p50=p99 / 2, p99=p99)
    return Cell(block, 1, "", mode, (), rtt_us=rtt, sent_pps=sent, received_pps=sent - lost, udp_lost=lost)


def line(*rows: Sequence[Told]) -> Line:
    """Of the first line: for each row what its blocks told."""
    valid: dict[str, list[Cell]] = {mode.name: [] for mode in scenario_of_lines().modes}
    valid |= {f"none-{1 << n}": [cell(b, "", told) for b, told in enumerate(row)] for n, row in enumerate(rows)}
    return lines_make(scenario_of_lines(), valid)[0]


class Lines(unittest.TestCase):
    def test_the_fastest_row_before_the_first_loss(self) -> None:
        made = line([(1000, 0, 10)], [(2000, 0, 12)], [(4000, 5, 14)])
        self.assertEqual((made.line, made.lossless_pps, made.first_loss_pps), ("no nfq", 2000, 4000))

    def test_a_loss_in_one_block_is_a_loss(self) -> None:
        made = line([(1000, 0, 10), (1100, 0, 10)], [(2000, 0, 10), (2000, 1, 10)], [(4000, 0, 10)])
        self.assertEqual((made.lossless_pps, made.first_loss_pps), (1050, 2000))

    def test_no_loss_at_all(self) -> None:
        made = line([(1000, 0, 10)], [(2000, 0, 10)], [(4000, 0, 10)])
        self.assertEqual((made.lossless_pps, made.first_loss_pps, made.greatest_pps), (4000, None, 4000))
        self.assertIn("> 4.00", lines_grid([made])[1][0][1])

    def test_losses_from_the_beginning(self) -> None:
        made = line([(1000, 1, 10)], [(2000, 0, 10)], [(4000, 0, 10)])
        self.assertEqual((made.lossless_pps, made.first_loss_pps), (None, 1000))

    def test_p99_doubles_between_two_rows(self) -> None:
        made = line([(1000, 0, 10)], [(2000, 0, 10)], [(8000, 0, 40)])
        self.assertAlmostEqual(made.p99_doubles_pps or 0, 4000)
        self.assertEqual(made.p99_us, 10)

    def test_p99_of_a_row_is_the_median_of_its_blocks(self) -> None:
        made = line([(1000, 0, 10)], [(2000, 0, 10), (2000, 0, 500), (2000, 0, 11)], [(4000, 0, 12)])
        self.assertIsNone(made.p99_doubles_pps)

    def test_rows_without_datagrams_are_no_lines(self) -> None:
        valid = {mode.name: [Cell(1, 1, "", mode.name, ())] for mode in scenario_of_lines().modes}
        self.assertEqual(lines_make(scenario_of_lines(), valid), ())
        self.assertEqual(lines_grid(())[1], [])
