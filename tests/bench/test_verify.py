# SPDX-License-Identifier: GPL-2.0-or-later
"""A stored run proves itself, and one in which anything was changed by hand does not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helper import DATA, FolderTest, nfq_bench, run_recorded, text_change
from nfqbench.render import directory_render
from nfqbench.verify import run_verify


class Verify(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.directory = run_recorded(self.folder / "run")

    def record_change(self, mode: str, change: Callable[[Any], object]) -> None:
        """In the first line of a mode."""
        path = self.directory / "runs.jsonl"
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        change(next(record for record in records if record["mode"] == mode))
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")

    def faults(self, *patterns: str) -> None:
        """Those that are left when files that follow from runs.jsonl are made anew, as a careful forger would."""
        directory_render(self.directory)
        found = run_verify(self.directory).faults
        self.assertEqual(len(found), len(patterns), found)
        for fault, pattern in zip(found, patterns):
            self.assertRegex(fault, pattern)

    def test_what_was_stored_proves_itself(self) -> None:
        verified = run_verify(self.directory)
        self.assertEqual((verified.cells, verified.judged, verified.faults), (6, 6, ()))

    def test_a_figure_that_was_typed_in(self) -> None:
        self.record_change("nfq", lambda record: record["queue"].update(bytes_per_message=1.5))
        self.faults(r"^runs\.jsonl:\d: queue\.bytes_per_message is 1\.5, and \d+\.\d+ by the evidence$")

    def test_a_mean_that_its_pings_do_not_have(self) -> None:
        self.record_change("none", lambda record: record["ping"].update(mean_us=1.0))
        self.faults(r"ping\.mean_us is 1\.0, and \d+\.\d+ by the evidence")

    def test_an_invalid_cell_that_was_made_valid(self) -> None:
        def drop(record: Any) -> None:
            record["evidence"]["end"]["passage"]["queues"][0]["dropped"] = 7

        self.record_change("nfq-gso", drop)
        found = " ".join(run_verify(self.directory).faults)
        self.assertRegex(found, "judged again: .*the kernel dropped 7 packets.*; it says: valid")

    def test_a_valid_cell_that_was_hidden(self) -> None:
        self.record_change("none", lambda record: record.update(valid=False, reasons=["too slow for me"]))
        self.faults("judged again: valid; it says: too slow for me")

    def test_an_order_that_the_seed_does_not_give(self) -> None:
        text_change(self.directory / "meta.json", '"seed": 42', '"seed": 43')
        self.faults("not in the order that the seed gives")

    def test_cells_outside_of_the_run(self) -> None:
        text_change(self.directory / "meta.json", '"finished": "2026-01-31T12:10', '"finished": "2026-01-31T12:01')
        self.faults("a cell was not measured after the one before it, or not between")

    def test_evidence_that_is_not_understood_names_its_line(self) -> None:
        self.record_change("nfq", lambda record: record["evidence"].pop("start"))
        self.faults(r'^runs\.jsonl:\d: has no "start"')

    def test_a_throughput_that_is_not_bytes_over_seconds(self) -> None:
        self.record_change("none", lambda record: record["tcp"].update(gbps=record["tcp"]["gbps"] * 1.5))
        self.faults(r"[\d.]+ Gbit/s are not its bytes over its seconds")

    def test_a_key_that_is_not_known(self) -> None:
        self.record_change("none", lambda record: record.update(note="mine"))
        self.faults("note is not known")

    def test_one_cell_without_its_evidence(self) -> None:
        self.record_change("none", lambda record: record.update(evidence=None))
        self.faults("has figures without evidence, unlike others of this run")

    def test_a_block_that_was_left_out(self) -> None:
        text_change(self.directory / "meta.json", '"blocks": 2,\n  "pin"', '"blocks": 3,\n  "pin"')
        self.faults("2 blocks, though 3 were asked for")

    def test_an_end_that_the_precision_does_not_give(self) -> None:
        text_change(self.directory / "meta.json", '"blocks": 2,\n  "pin"', '"blocks": 9,\n  "pin"')
        text_change(self.directory / "meta.json", '"seed": 42', '"precision": 0.05,\n "seed": 42')
        self.faults("2 blocks, which is not where the precision asked for ends the run")

    def test_a_policy_that_the_cells_did_not_run_under(self) -> None:
        text_change(self.directory / "meta.json", '"in_force": "rr:99"', '"in_force": "other"')
        self.faults("sched.in_force is not the policy under which the cells ran")

    def test_a_cell_that_was_copied_from_another_block(self) -> None:
        path = self.directory / "runs.jsonl"
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        told = {key: records[0][key] for key in ("block", "position", "started", "mode", "raw")}
        first = next(number for number, record in enumerate(records) if record["mode"] == told["mode"] and number)
        kept = {key: records[first][key] for key in told}
        records[first] = {**records[0], **kept}
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        self.faults("its counters are not behind those of the cell before it")

    def test_several_runs_are_all_judged(self) -> None:
        broken = run_recorded(self.folder / "broken")
        (broken / "runs.jsonl").write_text("{", encoding="utf-8")
        done = nfq_bench("verify", str(broken), str(self.directory))
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        self.assertIn(f"{broken}: not a run that can be read: runs.jsonl:1: not one JSON document", done.stdout)
        self.assertIn("6 of 6 cells judged again: everything follows", done.stdout)
        done = nfq_bench("verify", str(self.folder / "x"), str(self.directory))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such run directory", done.stderr)

    def test_evidence_that_was_left_out(self) -> None:
        self.record_change("nfq", lambda record: record["evidence"]["end"].update(ip=None))
        found = " ".join(run_verify(self.directory).faults)
        self.assertIn("has evidence without end.ip, with which nothing can be proven", found)

    def test_every_file_that_was_changed_or_lost(self) -> None:
        names = {path.name for path in self.directory.iterdir()} - {"meta.json", "runs.jsonl"}
        self.assertLessEqual({"table.txt", "summary.json", "summary.csv", "report.html", "rtt.svg"}, names)
        for name in sorted(names):
            with self.subTest(name=name):
                path = self.directory / name
                text = path.read_text(encoding="utf-8")
                path.write_text(text.replace("1", "2", 1), encoding="utf-8")
                self.assertEqual([fault.partition(":")[0] for fault in run_verify(self.directory).faults], [name])
                path.unlink()
                self.assertRegex(" ".join(run_verify(self.directory).faults), f"^{name}: cannot be read: ")
                path.write_text(text, encoding="utf-8")

    def test_pictures_by_another_version_of_gnuplot_are_left_alone(self) -> None:
        path = self.directory / "rtt.svg"
        text = path.read_text(encoding="utf-8")
        self.assertIn("Produced by GNUPLOT ", text)
        path.write_text(text.replace("Produced by GNUPLOT ", "Produced by GNUPLOT 9").replace("1", "2"), encoding="utf-8")
        self.assertEqual(run_verify(self.directory).faults, ())

    def test_the_command_tells_and_exits(self) -> None:
        done = nfq_bench("verify", str(self.directory))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("6 of 6 cells judged again: everything follows from runs.jsonl", done.stdout)
        self.record_change("none", lambda record: record["tcp"].update(gbps=99))
        done = nfq_bench("verify", str(self.directory))
        self.assertEqual(done.returncode, 3)
        self.assertIn("summary.json: does not follow from runs.jsonl", done.stdout)

    def test_runs_of_older_versions_are_told(self) -> None:
        older = Path(self.folder / "older")
        older.mkdir()
        for name in ("meta.json", "runs.jsonl"):
            (older / name).write_bytes((DATA / "run" / name).read_bytes())
        directory_render(older)
        done = nfq_bench("verify", str(older))
        self.assertIn("NOT PROVEN: no cell can be judged again, for evidence was not kept", done.stdout)


class SameBytes(FolderTest):
    def test_the_same_run_gives_the_same_files(self) -> None:
        first, second = (run_recorded(self.folder / name) for name in ("first", "second"))
        self.assertEqual({path.name for path in first.iterdir()}, {path.name for path in second.iterdir()})
        for path in first.iterdir():
            self.assertEqual(path.read_bytes(), (second / path.name).read_bytes(), path.name)

    def test_every_report_twice(self) -> None:
        directory = str(run_recorded(self.folder / "run"))
        for form in ("text", "md", "csv", "json", "html", "svg", "machines"):
            first, second = (nfq_bench("report", directory, "--format", form) for _ in range(2))
            self.assertEqual((first.returncode, first.stderr), (0, ""), form)
            self.assertTrue(first.stdout)
            self.assertEqual(first.stdout, second.stdout, form)
