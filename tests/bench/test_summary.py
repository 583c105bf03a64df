# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows over blocks."""

import json
import math
import random
import unittest
from dataclasses import replace

from helper import scenario_recorded
from nfqbench.controls import controls_add
from nfqbench.document import document_parse
from nfqbench.errors import Refused
from nfqbench.daemon import Latency, Percentiles
from nfqbench.plan import plan_make
from nfqbench.record import Cell, QueueShare, Rtt
from nfqbench.scenario import Mode, Scenario
from nfqbench.summary import QueueRow, Row, Summary, is_precise, reference_parse, summary_make

MODES = scenario_recorded().modes[:2]


def scenario_of(*modes: Mode, topology: str = "router", compare: tuple[tuple[str, str], ...] = ()) -> Scenario:
    return replace(scenario_recorded(), modes=modes or MODES, topology=topology, compare=compare)


def cell(block: int, mode: str, rtt: float, gbps: float | None, *reasons: str) -> Cell:
    if reasons:
        return Cell(block, 1, "", mode, reasons)
    return Cell(block, 1, "", mode, (), rtt_us=Rtt(rtt, rtt - 1, rtt + 9, rtt, rtt + 5), gbps=gbps)


def summarize(*cells: Cell, topology: str = "router") -> tuple[Summary, Row, Row]:
    summary = summary_make(scenario_of(topology=topology, compare=(("nfq", "none"),)), cells)
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
        self.assertEqual(summarize(*cells, topology="pair")[2].us_per_pass, 20)
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
        near = Mode("near", "no nfq, near", False, None), Mode("nfq-near", "nfq, near", True, None, baseline="near")
        cells = [cell(1, "none", 10, 20), cell(1, "nfq", 30, 2), cell(1, "near", 5, 40), cell(1, "nfq-near", 15, 20)]
        rows = summary_make(scenario_of(*MODES, *near), cells).rows
        assert rows[3].rtt_vs_baseline
        self.assertAlmostEqual(rows[3].rtt_vs_baseline.ratio, 3)
        self.assertEqual([row.us_per_pass for row in rows], [None, 10, None, 5])
        self.assertEqual([row.baseline for row in rows], ["none", "none", "none", "near"])


class Controls(unittest.TestCase):
    """Rows that are added to those of the scenario: the baseline's twin, and one whose packets are held."""

    def summary(self, twins: list[tuple[float, float]], held_us: tuple[float, ...] = ()) -> Summary:
        """Of (RTT, Gbit/s) of the baseline's twin, which itself has 10 us and 10 Gbit/s, and of what was held."""
        cells = []
        for block, (rtt, gbps) in enumerate(twins, start=1):
            cells += [cell(block, "none", 10, 10), cell(block, "none-again", rtt, gbps), cell(block, "nfq", 20, 5)]
        cells += [cell(block, "nfq-control", 20 + us, None) for block, us in enumerate(held_us, start=1)]
        return summary_make(controls_add(scenario_of()), cells)

    def test_twins_give_the_noise_floor(self) -> None:
        summary = self.summary([(12, 8), (13, 8), (11, 9), (12, 8), (12, 9)])
        assert summary.again and summary.again.rtt and summary.again.gbps
        self.assertAlmostEqual(summary.noise_floor.rtt or 0, summary.again.rtt.ratio - 1)
        self.assertAlmostEqual(summary.noise_floor.gbps or 0, 1 / summary.again.gbps.ratio - 1)
        self.assertEqual((summary.again.mode, summary.again.other), ("none-again", "none"))

    def test_rows_of_the_scenario_stand_apart_from_controls(self) -> None:
        summary = self.summary([(10, 10)])
        self.assertEqual([row.mode for row in summary.rows], ["none", "nfq"])
        self.assertEqual([row.mode for row in summary.controls], ["none-again", "nfq-control"])
        self.assertEqual([row.rtt_says for row in summary.controls], [None, None])

    def test_twins_are_equivalent_inconclusive_or_an_alarm(self) -> None:
        equal = self.summary([(10, 10), (10.1, 9.9), (9.9, 10.1), (10, 10), (10, 10)]).again
        unclear = self.summary([(10, 10), (15, 5), (7, 15), (10, 10), (12, 9)]).again
        apart = self.summary([(15, 5), (15.1, 5.1), (14.9, 4.9), (15, 5), (15, 5)]).again
        assert equal and unclear and apart
        says = [(again.rtt_says, again.gbps_says) for again in (equal, unclear, apart)]
        self.assertEqual(says, [("equivalent",) * 2, ("inconclusive",) * 2, ("different",) * 2])

    def test_a_small_difference_of_twins_that_chance_may_make_is_no_alarm(self) -> None:
        """Its 95 % interval leaves out 1, the 99 % one does not."""
        again = self.summary([(12, 10), (11, 10), (14, 10), (11.5, 10), (10.2, 10)]).again
        assert again and again.rtt and again.rtt.ci95
        self.assertGreater(again.rtt.ci95[0], 1)
        self.assertEqual(again.rtt_says, "inconclusive")

    def test_rows_are_judged_by_the_floor(self) -> None:
        quiet = self.summary([(10, 10), (10.1, 9.9), (9.9, 10.1), (10, 10), (10, 10)]).rows[1]
        loud = self.summary([(25, 4), (24, 4), (22, 4.5), (25, 4), (23, 4.2)]).rows[1]
        self.assertEqual((quiet.rtt_says, quiet.gbps_says), ("slower", "slower"))
        self.assertEqual((loud.rtt_says, loud.gbps_says), ("inconclusive", "inconclusive"))

    def test_what_was_put_in_has_to_come_out(self) -> None:
        control = self.summary([(10, 10)] * 3, (180, 210, 400)).control
        assert control
        self.assertEqual((control.expected_us, control.shown_us, control.is_trusted), (200, 210, True))
        self.assertEqual(control.blocks_us, (180, 210, 400))

    def test_more_or_less_than_15_percent_off_is_not_trusted(self) -> None:
        for us, trusted in ((169, False), (171, True), (229, True), (231, False)):
            control = self.summary([(10, 10)], (us,)).control
            assert control
            self.assertEqual(control.is_trusted, trusted, us)

    def test_without_the_cells_nothing_is_known(self) -> None:
        summary = self.summary([(10, 10)])
        assert summary.control
        self.assertEqual((summary.control.shown_us, summary.control.is_trusted), (None, False))
        self.assertEqual((summary.noise_floor.rtt, summary.rows[1].rtt_says), (None, "inconclusive"))
        self.assertEqual(summary.json()["control"], {"mode": "nfq-control", "other": "nfq", "blocks": 0,
                         "expected_us": 200, "shown_us": None, "blocks_us": (), "trusted": False})  # fmt: skip


class Drift(unittest.TestCase):
    """A machine that becomes three times slower while it is measured, and rows that are all alike."""

    def test_order_and_drift_decide_nothing(self) -> None:
        scenario = controls_add(scenario_of())
        for seed in (1, 2, 3):
            cells, noise = [], random.Random(seed)
            for number, planned in enumerate(plan_make(scenario.modes, 10, seed)):
                slowness = (1 + 2 * number / 40) * math.exp(noise.gauss(0, 0.05))
                cells.append(cell(planned.block, planned.mode.name, 10 * slowness, 10 / slowness))
            summary = summary_make(scenario, cells)
            assert summary.again
            said = [summary.rows[1].rtt_says, summary.rows[1].gbps_says, summary.again.rtt_says, summary.again.gbps_says]
            self.assertLessEqual(set(said), {"equivalent", "inconclusive"}, seed)

    def test_a_real_difference_is_found_all_the_same(self) -> None:
        scenario, cells = controls_add(scenario_of()), []
        for number, planned in enumerate(plan_make(scenario.modes, 10, 1)):
            slowness = (1 + 2 * number / 40) * (1.3 if planned.mode.name == "nfq" else 1)
            cells.append(cell(planned.block, planned.mode.name, 10 * slowness, 10 / slowness))
        row = summary_make(scenario, cells).rows[1]
        self.assertEqual((row.rtt_says, row.gbps_says), ("slower", "slower"))


class Precision(unittest.TestCase):
    def precise(self, precision: float, *rates: float) -> bool:
        cells = [cell(block, "none", 10, 10) for block in range(1, len(rates) + 1)]
        cells += [cell(block, "nfq", 20, gbps) for block, gbps in enumerate(rates, start=1)]
        return is_precise(summary_make(scenario_of(), cells), precision)

    def test_when_every_interval_is_narrow_enough(self) -> None:
        rates = (5, 5.1, 4.9, 5.05, 4.95)  # the interval of the ratio is +-2 %
        self.assertEqual([self.precise(precision, *rates) for precision in (0.01, 0.03)], [False, True])

    def test_one_block_is_never_enough(self) -> None:
        self.assertFalse(self.precise(1, 5))


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
        self.assertEqual((found["mode"].text(), found["other"].text(), found["blocks"].count()), ("nfq", "none", 1))
        self.assertAlmostEqual(found["gbps"]["median"].number(), 0.1)
        self.assertEqual(found["rtt"].get("ci95"), None)

    def test_what_was_not_measured_has_no_ratio(self) -> None:
        (comparison,) = summarize(Cell(1, 1, "", "none", (), gbps=2), Cell(1, 2, "", "nfq", (), gbps=1))[0].compare
        self.assertEqual((comparison.blocks, comparison.rtt), (1, None))


class Means(unittest.TestCase):
    def test_calls_queues_latency_and_losses_of_valid_cells(self) -> None:
        def measured(block: int, calls: float, lost: int, packets: int, p50: float, most: float) -> Cell:
            percentiles = Percentiles(p50, 2, 3, most)
            return Cell(block, 1, "", "nfq", (), calls_per_packet=calls, lost_packets=lost, queues=(
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
