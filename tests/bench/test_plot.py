# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures: which there are, what they say, that they are the same each time and can stand in one page."""

import math
import os
import re
import shutil
import unittest
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from unittest import mock

from helper import FolderTest
from made import run_made, scenario_made, scenario_of_lines
from nfqbench.errors import CannotRun
from nfqbench.gnuplot import svg_draw
from nfqbench.plot import MOST_LINES, plots_render, series_make, steps_of
from nfqbench.store import Run

HOSTILE = "<i>&'\"%d {x} `id` \\n$"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


def without_pings(run: Run) -> Run:
    """As older runs are."""
    return replace(run, cells=tuple(replace(cell, rtts_us=(), replied_at_s=()) for cell in run.cells))


@unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
class Pictures(unittest.TestCase):
    def test_of_a_run_with_both_figures(self) -> None:
        self.assertEqual(list(plots_render(run_made(scenario_made()))), ["rtt.svg", "throughput.svg"])

    def test_only_of_what_was_measured(self) -> None:
        self.assertEqual(list(plots_render(run_made(scenario_made(ping_count=0)))), ["throughput.svg"])
        self.assertEqual(list(plots_render(run_made(scenario_made(iperf_seconds=0)))), ["rtt.svg"])

    def test_latency_against_load_needs_lines_measured_together(self) -> None:
        scenario = scenario_of_lines()
        self.assertIn("load.svg", plots_render(run_made(scenario)))
        self.assertNotIn("load.svg", plots_render(run_made(replace(scenario, together=False))))
        words = texts(plots_render(run_made(scenario))["load.svg"])
        self.assertEqual([words.count("no nfq"), words.count("nfq with GSO")], [1, 1])

    def test_the_same_bytes_each_time(self) -> None:
        for scenario in (scenario_made(), scenario_of_lines()):
            self.assertEqual(plots_render(run_made(scenario)), plots_render(run_made(scenario)))

    def test_ids_do_not_clash_in_one_page_and_lead_somewhere(self) -> None:
        joined = "".join(plots_render(run_made(scenario_of_lines())).values())
        ids = re.findall(r"<[^>]*\sid=['\"]([^'\"]+)", joined)
        self.assertGreater(len(ids), 30)
        self.assertEqual(len(ids), len(set(ids)))
        references = set(re.findall(r"href=['\"]#([^'\"]+)|url\(#([^)]+)", joined))
        self.assertTrue(references)
        self.assertLessEqual({first or second for first, second in references}, set(ids))

    def test_texts_arrive_as_they_are(self) -> None:
        scenario = scenario_made()
        modes = tuple(replace(mode, label=HOSTILE) if mode.name == "nfq" else mode for mode in scenario.modes)
        run = run_made(replace(scenario, modes=modes), host=HOSTILE)
        for file, svg in {**plots_render(run), "ranges": plots_render(without_pings(run))["rtt.svg"]}.items():
            words = texts(svg)
            self.assertTrue(any(word.startswith(HOSTILE) for word in words), file)
            self.assertTrue(any(f'host "{HOSTILE}":' in word for word in words), file)
            self.assertNotIn("<script", svg)

    def test_distribution_tells_percentiles_of_all_pings(self) -> None:
        words = texts(plots_render(run_made(scenario_made()))["rtt.svg"])
        self.assertIn("no nfq: 59.5, 108", words)
        self.assertIn("nfq with GSO: 79.5, 128", words)
        self.assertIn("control: +100 us: 280, 328", words)
        self.assertLessEqual({"50 %", "99 %"}, set(words))

    def test_twins_are_drawn_dashed(self) -> None:
        scenario = scenario_made()
        alone = replace(scenario, modes=tuple(mode for mode in scenario.modes if not mode.role))
        svgs = [plots_render(run_made(each))["rtt.svg"] for each in (scenario, alone)]
        self.assertEqual([len(re.findall(r"stroke-dasharray='[^']+'\s+d=", svg)) for svg in svgs], [2, 0])

    def test_a_single_block_has_a_mean_without_interval(self) -> None:
        words = texts(plots_render(run_made(replace(scenario_made(), blocks=1)))["throughput.svg"])
        self.assertIn("mean", words)

    def test_older_runs_and_many_rows_have_ranges(self) -> None:
        scenario = scenario_made()
        many = [replace(scenario.modes[0], name=f"row-{number}") for number in range(MOST_LINES)]
        crowded = replace(scenario, modes=(*scenario.modes, *many), compare=())
        for run in (without_pings(run_made(scenario)), run_made(crowded), run_made(scenario_of_lines())):
            self.assertIn("p50 to p99", texts(plots_render(run)["rtt.svg"]))
        self.assertNotIn("p50 to p99", texts(plots_render(run_made(scenario))["rtt.svg"]))

    def test_invalid_cells_are_marked(self) -> None:
        marked = "invalid: not counted"
        scenario = scenario_made()
        self.assertNotIn(marked, texts(plots_render(run_made(scenario))["throughput.svg"]))
        one = run_made(scenario, {(2, "nfq"): "x"})
        self.assertIn(marked, texts(plots_render(one)["throughput.svg"]))
        row = run_made(scenario, {(block, "nfq"): "x" for block in (1, 2, 3)})
        self.assertIn("nfq without GSO", texts(plots_render(row)["throughput.svg"]))

    def test_nothing_is_drawn_of_a_run_without_figures(self) -> None:
        scenario = scenario_made(iperf_seconds=0)
        every = {(block, mode.name): "x" for block in (1, 2, 3) for mode in scenario.modes}
        self.assertEqual(plots_render(run_made(scenario, every)), {})


class Shape(unittest.TestCase):
    def test_steps_are_where_the_values_are(self) -> None:
        shares = [(rtt, round(1 / (1 + 10 ** -float(height)), 9)) for rtt, height in steps_of([1, 1, 2, 5])]
        self.assertEqual(shares, [(1, 0.125), (1, 0.375), (2, 0.625), (5, 0.875)])
        self.assertTrue(all(math.isfinite(float(height)) for _, height in steps_of([7.0])))

    def test_twins_share_the_colour_and_are_dashed(self) -> None:
        every = {series.mode.name: series for series in series_make(run_made(scenario_made()))}
        for twin, row in (("none-again", "none"), ("nfq-gso-control", "nfq-gso")):
            self.assertEqual(every[twin].colour, every[row].colour)
            self.assertNotEqual(every[twin].dash, every[row].dash)
        self.assertEqual(len({every[row].colour for row in ("none", "nfq", "nfq-gso")}), 3)

    def test_rows_of_a_line_share_a_colour(self) -> None:
        every = {series.mode.name: series.colour for series in series_make(run_made(scenario_of_lines()))}
        self.assertEqual(every["none-1"], every["none-4"])
        self.assertEqual(every["none-1"], every["none-1-again"])
        self.assertNotEqual(every["none-1"], every["gso-1"])


class Failures(FolderTest):
    def draw(self) -> str:
        with mock.patch.dict(os.environ, PATH=str(self.folder)), self.assertRaises(CannotRun) as caught:
            svg_draw("x", 10, 10, [])
        self.assertEqual(caught.exception.status, 4)
        return str(caught.exception)

    def test_gnuplot_is_not_there(self) -> None:
        self.assertRegex(self.draw(), r"gnuplot is not here; install it \(package gnuplot-nox")

    def test_gnuplot_fails(self) -> None:
        for script, why in (("echo 'line 3: no svg' >&2; exit 1", "line 3: no svg"), ("exit 0", "no picture")):
            (self.folder / "gnuplot").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (self.folder / "gnuplot").chmod(0o755)
            told = self.draw()
            self.assertIn(f"gnuplot failed: {why}", told)
            self.assertIn("gnuplot-nox", told)
