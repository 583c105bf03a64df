# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of a recorded run, two cells of which are invalid."""

import csv
import io
import json
import unittest
from dataclasses import replace
from typing import Any

from helper import DATA, ROOT, data_text
from nfqbench.document import Node, document_parse, file_parse
from nfqbench.grid import WIDTH, figure_format
from nfqbench.stats import FASTER, SLOWER, Ratio
from nfqbench.store import Run, run_load, run_make
from nfqbench.summary import Comparison, Control, Noise, reference_parse, summary_make
from nfqbench.table import _statement_format, csv_render, markdown_render, text_render

RESULTS = ROOT / "results"
REFERENCES = RESULTS / "reference"


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


class Changed(unittest.TestCase):
    def changed(self, meta: dict[str, Any] | None = None, daemon: dict[str, Any] | None = None, **rows: Any) -> Run:
        """The recorded run with other words in meta.json, in the daemon parts of nfq-gso, and in all rows."""
        document = json.loads(data_text("run/meta.json"))
        document["scenario"].update(meta or {})
        for mode in document["scenario"]["modes"]:
            mode.update(rows.get(mode["name"].replace("-", "_"), {}))
        records = [json.loads(line) for line in data_text("run/runs.jsonl").splitlines()]
        for record in records:
            if record["mode"] == "nfq-gso":
                record["daemon"].update(daemon or {})
        return run_make(Node(document, "meta.json"), [Node(record, "runs.jsonl") for record in records])

    def fits(self, text: str) -> None:
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)


class Further(Changed):
    """Grids that are there only if there is something to show."""

    def test_ratios_within_a_block(self) -> None:
        text = text_render(self.changed({"compare": [["nfq-gso", "none"], ["nfq", "none"]]}))
        self.assertRegex(text, r"\nwithin a block +RTT: ratio  95 % +median +statement\n")
        self.assertRegex(text, r"\nnfq with GSO / no nfq +0\.\d+ +0\.\d+-\d\.\d+ +0\.\d+ +inconclusive\n")
        self.assertRegex(text, r"\nnfq without GSO / no nfq +7\.87 +- +7\.87 +inconclusive\n")
        self.assertEqual(text.count("nfq without GSO / no nfq"), 2)  # RTT and throughput, and not once more
        self.fits(text)

    def test_ratios_of_what_was_not_measured_are_left_out(self) -> None:
        run_changed = self.changed()
        summary = run_changed.summary
        for keys, heading in ((("rtt_vs_baseline",), "Gbit/s: ratio"), (("gbps_vs_baseline",), "RTT: ratio")):
            rows = tuple(replace(row, **dict.fromkeys(keys)) for row in summary.rows)
            text = text_render(replace(run_changed, summary=replace(summary, rows=rows)))
            self.assertRegex(text, rf"\nwithin a block +{heading} ")
            self.assertEqual(text.count("within a block"), 1)

    def test_calls_a_packet(self) -> None:
        calls = {"load_packets": 200, "load_receive_calls": 100, "load_send_calls": 50}
        text = text_render(self.changed(daemon=calls))
        self.assertRegex(text, r"bytes a message  calls a packet  RTT p50")
        self.assertRegex(text, r"\nnfq with GSO +63\.3 +0\.616 +38897 +0\.750 +137 ")
        self.assertRegex(text, r"\nno nfq +- +- +- +- +6\.00 ")

    def test_packets_by_queue_of_rows_with_several(self) -> None:
        shares = [{"queue": 0, "packets": 123456}, {"queue": 1, "packets": 78901}]
        text = text_render(self.changed(daemon={"queues": shares}))
        self.assertIn("\n              packets by queue\nnfq with GSO  0: 123456 (61 %), 1: 78901 (39 %)\n", text)
        self.assertNotIn("by queue", text_render(self.changed(daemon={"queues": shares[:1]})))
        many = [{"queue": queue, "packets": 1000000} for queue in range(16)]
        self.fits(text_render(self.changed(daemon={"queues": many})))

    def test_latency_in_the_daemon(self) -> None:
        percentiles = {"p50": 1.5, "p99": 12.34, "p999": 99, "max": 1234}
        latency = {"receive_to_verdict": percentiles, "verdict_call": percentiles}
        text = text_render(self.changed(daemon={"latency_us": latency}))
        heading = r"\nlatency in the daemon us  to verdict p50  p99   max   verdict call p50  p99   max\n"
        self.assertRegex(text, heading)
        self.assertRegex(text, r"\nnfq with GSO +1\.50 +12\.3  1234  1\.50 +12\.3  1234\n")

    def test_the_longest_labels_fit(self) -> None:
        longest = {"label": "x" * 24}
        calls = {"load_packets": 2, "load_receive_calls": 1, "load_send_calls": 1}
        compare = {"compare": [["nfq-gso", "nfq"]]}
        run_changed = self.changed(compare, calls, none=longest, nfq=longest, nfq_gso=longest)
        self.fits(text_render(run_changed))
        self.assertIn("| within a block | RTT: ratio |", markdown_render(run_changed))

    def test_losses_that_count_are_told(self) -> None:
        run_changed = self.changed()
        cells = tuple(replace(cell, lost_packets=5) if cell.mode == "nfq-gso" and cell.block < 3 else cell
                      for cell in run_changed.cells)  # fmt: skip
        text = text_render(replace(run_changed, summary=summary_make(run_changed.scenario, cells)))
        told = '"nfq with GSO" lost 10 packets in 2 of 3 cells: they count for the row, because the row is about a'
        self.assertIn(told, " ".join(text.split()))

    def test_another_baseline_is_named(self) -> None:
        text = text_render(self.changed(nfq={"queue": False, "gso": None, "noop": ""}, nfq_gso={"baseline": "nfq"}))
        told = 'ratio: to "no nfq" of the same block; of "nfq with GSO": to "nfq without GSO".'
        self.assertIn(told, " ".join(text.split()))


class Controls(Changed):
    """How far a run can be believed, in sentences below the table."""

    def told(self, **changes: Any) -> str:
        """Of the recorded run with other findings of its controls."""
        run_changed = self.changed()
        ratio = Ratio(1.02, (0.97, 1.07), 1.01, 3)
        again = Comparison("none-again", "none", 3, ratio, ratio, "inconclusive", "equivalent")
        control = Control("nfq-gso-control", "nfq-gso", 3, 200, 207.4, (199, 207.4, 210))
        twin = replace(run_changed.summary.rows[0], mode="none-again", label="no nfq again")
        held = replace(run_changed.summary.rows[2], mode="nfq-gso-control", label="control: +100 us", gbps=None)
        found = {"controls": (twin, held), "again": again, "control": control, "noise_floor": Noise(0.07, 0.3)}
        summary = replace(run_changed.summary, **{**found, **changes})
        text = text_render(replace(run_changed, summary=summary))
        self.fits(text)
        return text

    def test_noise_floor_and_positive_control(self) -> None:
        text = " ".join(self.told().split())
        floor = "differs from itself by 7.00 % (RTT) and 30.0 % (Gbit/s); less means nothing."
        self.assertIn(f'Noise floor: "no nfq" {floor}', text)
        self.assertIn("Positive control: 200 us more were put in, 207 us came out.", text)
        self.assertNotIn("TRUSTED", text)

    def test_twins_and_control_are_rows_beneath_the_others(self) -> None:
        text = self.told()
        self.assertRegex(text, r"\nnfq with GSO .*\nno nfq again +12\.5 .*\ncontrol: \+100 us .*\n\n")
        self.assertRegex(text, r"\nno nfq again / no nfq +1\.02 +0\.970-1\.07 +1\.01 +equivalent\n")

    def test_a_control_that_fails_condemns_the_rtt(self) -> None:
        control = Control("nfq-gso-control", "nfq-gso", 3, 200, 300, ())
        text = self.told(control=control)
        condemned = "200 us more were put in, 300 us came out: this machine is NOT TO BE TRUSTED for RTT."
        self.assertIn(condemned, " ".join(text.split()))
        unknown = " ".join(self.told(control=replace(control, shown_us=None)).split())
        self.assertIn("no block has both cells: NOT TO BE TRUSTED for RTT.", unknown)

    def test_twins_that_differ_condemn_the_run(self) -> None:
        again = Comparison("none-again", "none", 3, None, Ratio(2, (1.9, 2.1), 2, 3), "inconclusive", "different")
        self.assertIn('NOT TO BE TRUSTED for RTT: "no nfq" differs from itself; see the ratios.', self.told(again=again))

    def test_what_is_missing_is_said(self) -> None:
        self.assertIn("No positive control: no row whose packets could be held", self.told(control=None))
        self.assertIn("Noise floor unknown:", self.told(noise_floor=Noise(None, None)))
        self.assertIn('No controls; "no nfq" varies from block to block by +-', text_render(self.changed()))


class Header(Changed):
    def header(self, **changes: Any) -> str:
        return text_render(self.changed(**changes)).partition("\n\n")[0]

    def test_family_and_aggregates(self) -> None:
        self.assertIn("gso: router, IPv4; ping", self.header())
        self.assertIn("gso: router, IPv6, gso_max 196608; ping", self.header(meta={"family": 6, "gso_max": 196608}))

    def test_scheduling_of_rows_with_a_queue(self) -> None:
        self.assertIn(", SCHED_OTHER; rules", self.header(nfq={"sched": "other"}, nfq_gso={"sched": "other"}))
        self.assertIn(", scheduling per row; rules", self.header(nfq={"sched": "other"}))

    def test_placement(self) -> None:
        pin, rps = {"pin": "daemon=1"}, {"rps": "client=0"}
        self.assertNotIn("pinned", self.header())
        self.assertIn("; pinned daemon=1; rules", self.header(none=pin, nfq=pin, nfq_gso=pin))
        self.assertIn("; pinned per row; RPS per row; rules", self.header(none=pin | rps))
        self.assertIn("; RPS client=0; rules", self.header(none=rps, nfq=rps, nfq_gso=rps))

    def test_arguments_of_iperf3(self) -> None:
        self.assertIn("-C cubic and more, per row; blocks", self.header(nfq={"iperf_args": "-P 2"}))


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
        record: dict[str, object] = {"schema": 1, "block": 1, "position": 1, "started": "", "valid": False, "reasons": ["x"]}
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

    def test_statement_tells_how_much_up_to_tenfold(self) -> None:
        told = {1.5: "faster, +50.0 %", 0.5: "slower, -50.0 %", 10.9: "faster, +990 %", 11.1: "faster"}
        for ratio, text in told.items():
            says = FASTER if ratio > 1 else SLOWER
            self.assertEqual(_statement_format(Ratio(ratio, None, ratio, 1), says), text)

    def test_csv_has_a_field_for_every_heading(self) -> None:
        rows = list(csv.DictReader(io.StringIO(data_text("run/table.csv"))))
        self.assertEqual([row["mode"] for row in rows], ["none", "nfq", "nfq-gso"])
        self.assertEqual(rows[1]["gbps_ci95_low"], "")
        self.assertFalse(any(None in row or None in row.values() for row in rows))

    def test_three_digits(self) -> None:
        shown = {123.4: "123", 99.96: "100", 12.34: "12.3", 1.234: "1.23", 0.0523: "0.052", None: "-", -3.21: "-3.21"}
        for value, text in shown.items():
            self.assertEqual(figure_format(value), text)
