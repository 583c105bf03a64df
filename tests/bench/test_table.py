# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of a recorded run, two cells of which are invalid."""

import csv
import io
import unittest
from dataclasses import replace

from helper import DATA, ROOT, data_text
from nfqbench.document import Node, document_parse, file_parse
from nfqbench.store import Run, run_load, run_make
from nfqbench.summary import reference_parse
from nfqbench.table import WIDTH, csv_render, figure_format, markdown_render, text_render

REFERENCES = ROOT / "results" / "reference"


def run() -> Run:
    return run_load(DATA / "run")


class Golden(unittest.TestCase):
    maxDiff = None

    def test_text(self) -> None:
        self.assertEqual(text_render(run()), data_text("run/table.txt"))

    def test_text_with_percentages_of_a_reference(self) -> None:
        reference = reference_parse(file_parse(REFERENCES, "2018-apu2.json", document_parse), "2018-apu2")
        text = text_render(run(), reference)
        self.assertEqual(text, data_text("run/table-2018-apu2.txt"))

    def test_markdown(self) -> None:
        self.assertEqual(markdown_render(run()), data_text("run/table.md"))

    def test_csv(self) -> None:
        self.assertEqual(csv_render({"run": run()}), data_text("run/table.csv"))


class Content(unittest.TestCase):
    def test_percentage_of_a_reference_is_ours_over_theirs(self) -> None:
        row = run().summary.rows[0]
        assert row.rtt_us and row.gbps
        figures = {"mode": row.mode, "rtt_us": {"mean": row.rtt_us.mean / 2}, "gbps": {"mean": row.gbps.mean * 4}}
        reference = reference_parse(Node({"rows": [figures]}, "x.json"), "x")
        line = text_render(run(), reference).splitlines()[6]
        self.assertRegex(line, r"^no nfq .* \[200 %\] .* \[25 %\]")
        self.assertEqual(text_render(run(), reference).count(" %]"), 2)

    def test_every_published_reference_is_understood(self) -> None:
        for path in REFERENCES.glob("*.json"):
            self.assertTrue(reference_parse(file_parse(path.parent, path.name, document_parse), "x").figures)

    def test_lines_fit_a_mail(self) -> None:
        self.assertLessEqual(max(map(len, data_text("run/table-2018-apu2.txt").splitlines())), WIDTH)

    def test_invalid_cells_are_named_with_their_reasons(self) -> None:
        text = " ".join(data_text("run/table.txt").split())
        self.assertIn("Invalid, not counted: 2 of 9 cells block 1, nfq without GSO: queue: the kernel dropped 2", text)

    def test_a_row_without_valid_cells_shows_dashes(self) -> None:
        record: dict[str, object] = {"schema": 1, "block": 1, "valid": False, "reasons": ["x"]}
        records = [Node(record | {"mode": mode}, "runs.jsonl") for mode in ("none", "nfq", "nfq-gso")]
        empty = run_make(run().meta, records)
        text = text_render(empty)
        self.assertRegex(text, r"\nnfq with GSO +- +- +- +- +- +-\n")
        self.assertIn("0 of 1", text)

    def test_few_blocks_and_fallen_back_scheduling_are_said(self) -> None:
        meta = dict(run().meta.mapping())
        meta["sched"] = {"in_force": "other", "note": "No real time here."}
        text = text_render(replace(run(), meta=Node(meta, "meta.json")))
        self.assertIn("Few blocks (1)", text)
        self.assertIn("SCHED_OTHER", text)
        self.assertIn("No real time here.", text)

    def test_csv_has_a_field_for_every_heading(self) -> None:
        rows = list(csv.DictReader(io.StringIO(data_text("run/table.csv"))))
        self.assertEqual([row["mode"] for row in rows], ["none", "nfq", "nfq-gso"])
        self.assertEqual(rows[1]["gbps_ci95_low"], "")
        self.assertFalse(any(None in row or None in row.values() for row in rows))

    def test_three_digits(self) -> None:
        shown = {123.4: "123", 99.96: "100", 12.34: "12.3", 1.234: "1.23", 0.0523: "0.052", None: "-", -3.21: "-3.21"}
        for value, text in shown.items():
            self.assertEqual(figure_format(value), text)
