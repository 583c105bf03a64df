# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows over blocks."""

import json
import unittest

from nfqbench.document import document_parse
from nfqbench.errors import Refused
from nfqbench.daemon import Latency, Percentiles
from nfqbench.record import Cell, QueueShare, Rtt
from nfqbench.summary import Plan, QueueRow, Row, Summary, reference_parse, summary_make

PLANS = [Plan("none", "no nfq", False, "none"), Plan("nfq", "nfq without GSO", True, "none")]


def cell(block: int, mode: str, rtt: float, gbps: float, *reasons: str) -> Cell:
    if reasons:
        return Cell(block, mode, reasons)
    return Cell(block, mode, (), Rtt(rtt, rtt - 1, rtt + 9, rtt, rtt + 5), gbps)


def summarize(*cells: Cell, directions: int = 2) -> tuple[Summary, Row, Row]:
    summary = summary_make(PLANS, "none", [("nfq", "none")], directions, cells)
    return summary, summary.rows[0], summary.rows[1]


class Rows(unittest.TestCase):
    def test_means_over_blocks_least_and_greatest_over_all(self) -> None:
        _, base, row = summarize(
            cell(1, "none", 10, 20), cell(2, "none", 14, 10), cell(1, "nfq", 30, 2), cell(2, "nfq", 28, 1)
        )  # fmt: skip
        assert base.rtt_us and base.gbps and row.rtt_us and base.rtt_us.ci95
        self.assertEqual((base.rtt_us.mean, base.rtt_us.min, base.rtt_us.max), (12, 9, 23))
        self.assertEqual((base.rtt_us.p50, base.rtt_us.p99), (12, 17))
        self.assertAlmostEqual(base.rtt_us.sigma or 0, 2.8284, places=4)
        self.assertAlmostEqual(base.rtt_us.ci95[1], 12 + 12.7062 * 2, places=3)
        self.assertEqual(base.gbps.mean, 15)

    def test_ratios_are_of_the_same_block(self) -> None:
        _, base, row = summarize(
            cell(1, "none", 10, 20), cell(2, "none", 100, 2), cell(1, "nfq", 30, 2), cell(2, "nfq", 300, 0.2)
        )  # fmt: skip
        assert row.rtt_vs_baseline and row.gbps_vs_baseline and base.rtt_vs_baseline
        self.assertAlmostEqual(row.rtt_vs_baseline.ratio, 3)
        self.assertAlmostEqual(row.gbps_vs_baseline.ratio, 0.1)
        self.assertEqual(base.rtt_vs_baseline.ratio, 1)

    def test_a_pass_costs_half_of_what_a_router_adds_and_all_of_what_a_host_adds(self) -> None:
        cells = (cell(1, "none", 10, 20), cell(1, "nfq", 30, 2))
        self.assertEqual(summarize(*cells)[2].us_per_pass, 10)
        self.assertEqual(summarize(*cells, directions=1)[2].us_per_pass, 20)
        self.assertIsNone(summarize(*cells)[1].us_per_pass)

    def test_an_invalid_cell_counts_nowhere(self) -> None:
        _, base, row = summarize(
            cell(1, "none", 10, 20), cell(2, "none", 99, 99, "ping: 1 of 200 lost"),
            cell(1, "nfq", 30, 2), cell(2, "nfq", 50, 2),
        )  # fmt: skip
        assert base.rtt_us and row.rtt_vs_baseline
        self.assertEqual((base.valid_cells, base.invalid_cells, base.rtt_us.mean), (1, 1, 10))
        self.assertAlmostEqual(row.rtt_vs_baseline.ratio, 3)
        self.assertIsNone(row.rtt_vs_baseline.ci95)

    def test_a_row_without_a_valid_cell_is_unknown_not_zero(self) -> None:
        _, _, row = summarize(cell(1, "none", 10, 20), cell(1, "nfq", 0, 0, "cut"))
        self.assertEqual(row.valid_cells, 0)
        self.assertEqual((row.rtt_us, row.gbps, row.rtt_vs_baseline, row.us_per_pass), (None,) * 4)

    def test_without_a_valid_baseline_there_is_no_ratio(self) -> None:
        summary, _, row = summarize(cell(1, "none", 0, 0, "cut"), cell(1, "nfq", 30, 2))
        self.assertEqual((row.rtt_vs_baseline, row.gbps_vs_baseline, row.us_per_pass), (None,) * 3)
        self.assertEqual((summary.noise_floor.rtt, summary.noise_floor.gbps), (None, None))

    def test_one_block_has_no_interval(self) -> None:
        _, base, _ = summarize(cell(1, "none", 10, 20), cell(1, "nfq", 30, 2))
        assert base.rtt_us and base.gbps
        self.assertEqual((base.rtt_us.ci95, base.rtt_us.sigma, base.gbps.ci95), (None, None, None))

    def test_noise_floor_is_how_much_the_baseline_varies(self) -> None:
        summary, _, _ = summarize(cell(1, "none", 9, 20), cell(2, "none", 11, 20))
        self.assertAlmostEqual(summary.noise_floor.rtt or 0, 1.41421 / 10, places=5)
        self.assertEqual(summary.noise_floor.gbps, 0)


class Baselines(unittest.TestCase):
    def test_a_row_is_compared_with_its_own(self) -> None:
        plans = [*PLANS, Plan("near", "no nfq, near", False, "none"), Plan("nfq-near", "nfq, near", True, "near")]
        cells = [cell(1, "none", 10, 20), cell(1, "nfq", 30, 2), cell(1, "near", 5, 40), cell(1, "nfq-near", 15, 20)]
        rows = summary_make(plans, "none", [], 2, cells).rows
        assert rows[3].rtt_vs_baseline
        self.assertAlmostEqual(rows[3].rtt_vs_baseline.ratio, 3)
        self.assertEqual([row.us_per_pass for row in rows], [None, 10, None, 5])
        self.assertEqual([row.baseline for row in rows], ["none", "none", "none", "near"])


class Comparisons(unittest.TestCase):
    def test_ratios_in_the_blocks_in_which_both_are_valid(self) -> None:
        cells = [cell(block, "none", 10, 10) for block in (1, 2, 3, 4)]
        cells += [cell(1, "nfq", 20, 5), cell(2, "nfq", 20, 5), cell(3, "nfq", 40, 20), cell(4, "nfq", 1, 1, "cut")]
        (comparison,) = summarize(*cells)[0].compare
        assert comparison.gbps and comparison.rtt and comparison.gbps.ci95
        self.assertEqual((comparison.mode, comparison.other, comparison.blocks), ("nfq", "none", 3))
        self.assertEqual((comparison.gbps.median, comparison.rtt.median), (0.5, 2))
        self.assertAlmostEqual(comparison.gbps.ratio, 0.5 ** (1 / 3))
        self.assertLess(comparison.gbps.ci95[0], comparison.gbps.ratio)

    def test_in_json_it_names_both(self) -> None:
        summary = summarize(cell(1, "none", 10, 20), cell(1, "nfq", 30, 2))[0]
        (found,) = document_parse(json.dumps(summary.json()), "summary.json")["compare"]
        self.assertEqual((found["mode"].text(), found["with"].text(), found["blocks"].count()), ("nfq", "none", 1))
        self.assertAlmostEqual(found["gbps"]["median"].number(), 0.1)
        self.assertEqual(found["rtt"].get("ci95"), None)

    def test_what_was_not_measured_has_no_ratio(self) -> None:
        (comparison,) = summarize(Cell(1, "none", (), gbps=2), Cell(1, "nfq", (), gbps=1))[0].compare
        self.assertEqual((comparison.blocks, comparison.rtt), (1, None))


class Means(unittest.TestCase):
    def test_calls_queues_latency_and_losses_of_valid_cells(self) -> None:
        def measured(block: int, calls: float, lost: int, packets: int, p50: float, most: float) -> Cell:
            percentiles = Percentiles(p50, 2, 3, most)
            return Cell(block, "nfq", (), calls_per_packet=calls, lost_packets=lost, queues=(
                QueueShare(0, packets), QueueShare(1, 10)), latency_us=Latency(percentiles, percentiles))  # fmt: skip

        row = summarize(
            cell(1, "none", 1, 1), measured(1, 1.5, 0, 20, 1, 9), measured(2, 2.5, 3, 40, 3, 5),
            cell(3, "nfq", 1, 1, "cut"),
        )[2]  # fmt: skip
        self.assertEqual((row.calls_per_packet, row.lost_packets, row.cells_with_losses), (2, 3, 1))
        self.assertEqual(row.queues, (QueueRow(0, 30), QueueRow(1, 10)))
        self.assertEqual(row.latency_us, Latency(*[Percentiles(2, 2, 3, 9)] * 2))


class References(unittest.TestCase):
    def test_published_set(self) -> None:
        text = '{"label": "X (2018)", "rows": [{"mode": "none", "rtt_us": {"mean": 35}}, {"mode": "a"}]}'
        reference = reference_parse(document_parse(text, "x.json"), "x")
        self.assertEqual((reference.label, reference.figures), ("X (2018)", {"none": (35, None), "a": (None, None)}))

    def test_a_run_is_named_as_it_was_asked_for(self) -> None:
        reference = reference_parse(document_parse('{"rows": []}', "summary.json"), "results/a")
        self.assertEqual(reference.label, "results/a")

    def test_without_rows(self) -> None:
        with self.assertRaisesRegex(Refused, 'x.json: has no "rows"'):
            reference_parse(document_parse("{}", "x.json"), "x")
