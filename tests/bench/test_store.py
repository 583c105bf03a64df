# SPDX-License-Identifier: GPL-2.0-or-later
"""Run directories appear completely or not at all, and never replace anything."""

import os
import re
import shutil
from pathlib import Path
from unittest import mock

from helper import DATA, FolderTest, text_change
from nfqbench import store
from nfqbench.document import Node
from nfqbench.errors import Failure

FILES = {"meta.json": "{}\n", "table.txt": "a table\n"}


class Store(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.raw = self.folder / "work"
        (self.raw / "01-1-none").mkdir(parents=True)
        (self.raw / "01-1-none" / "ping.txt").write_text("PING\n", encoding="ascii")
        self.parent = self.folder / "deep" / "results"
        store.parent_prepare(self.parent)

    def store(self) -> Path:
        return store.run_store(self.parent, "20260131T120000Z-host-gso", FILES, self.raw)

    def test_files_and_raw_output_are_there_for_all_to_read(self) -> None:
        directory = self.store()
        self.assertEqual(directory.name, "20260131T120000Z-host-gso")
        self.assertEqual((directory / "table.txt").read_text(encoding="utf-8"), "a table\n")
        self.assertEqual((directory / "raw/01-1-none/ping.txt").read_text(encoding="ascii"), "PING\n")
        self.assertEqual(os.listdir(self.parent), [directory.name])
        self.assertEqual([path.stat().st_mode & 0o777 for path in (directory, directory / "raw")], [0o755] * 2)

    def test_a_second_run_of_the_same_name_leaves_the_first_alone(self) -> None:
        first = self.store()
        (first / "table.txt").write_text("precious\n", encoding="utf-8")
        second = self.store()
        self.assertEqual(second.name, "20260131T120000Z-host-gso-2")
        self.assertEqual((first / "table.txt").read_text(encoding="utf-8"), "precious\n")
        self.assertEqual(sorted(os.listdir(self.parent)), [first.name, second.name])

    def test_a_file_in_the_way_is_left_alone(self) -> None:
        (self.parent / "20260131T120000Z-host-gso").write_text("a file\n", encoding="ascii")
        self.assertEqual(self.store().name, "20260131T120000Z-host-gso-2")

    def test_a_failure_leaves_nothing(self) -> None:
        with mock.patch.object(shutil, "copytree", side_effect=OSError(28, "No space left on device")):
            with self.assertRaises(OSError):
                self.store()
        self.assertEqual(os.listdir(self.parent), [])

    def test_an_interruption_leaves_nothing(self) -> None:
        with mock.patch.object(os, "rename", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.store()
        self.assertEqual(os.listdir(self.parent), [])

    def test_a_place_where_nothing_can_be_made_is_explained(self) -> None:
        with self.assertRaisesRegex(Failure, "^/proc/results: results cannot be stored there: .*--out"):
            store.parent_prepare(Path("/proc/results"))

    def test_the_name_tells_when_where_and_what(self) -> None:
        meta = Node({"started": "2026-01-31T12:00:00Z", "host": "h", "scenario": {"name": "gso"}}, "meta.json")
        self.assertEqual(store.run_name(meta), "20260131T120000Z-h-gso")


class Load(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.run_directory = self.folder / "run"
        shutil.copytree(DATA / "run", self.run_directory)

    def refused(self, why: str) -> None:
        with self.assertRaisesRegex(Failure, f"^{self.run_directory}: {why}"):
            store.run_load(self.run_directory)

    def test_a_stored_run(self) -> None:
        run = store.run_load(self.run_directory)
        self.assertEqual([row.valid_cells for row in run.summary.rows], [3, 1, 3])

    def test_not_there(self) -> None:
        shutil.rmtree(self.run_directory)
        self.refused("no such run directory")

    def test_not_a_run(self) -> None:
        (self.run_directory / "meta.json").unlink()
        self.refused("not a run that can be read: meta.json: not there")

    def test_a_cut_line(self) -> None:
        path = self.run_directory / "runs.jsonl"
        path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
        self.refused("not a run that can be read: runs.jsonl:9: not one JSON document")

    def test_a_line_too_many_or_too_few(self) -> None:
        path = self.run_directory / "runs.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        for changed in (lines + lines[:1], lines[:-1], [line.replace('"block": 2', '"block": 1') for line in lines]):
            path.write_text("".join(changed), encoding="utf-8")
            self.refused("not a run that can be read: runs.jsonl: does not hold each mode once in each")

    def test_rows_that_are_not_there(self) -> None:
        key = '"baseline": "none"'
        text_change(self.run_directory / "meta.json", key, f'{key}, "compare": [["nfq", "x"]]')
        self.refused("not a run that can be read: meta.json: compare .*not two of the modes")

    def test_controls_that_are_no_twins(self) -> None:
        for role in ("again", "control", "x"):
            shutil.copy(DATA / "run" / "meta.json", self.run_directory)
            text_change(self.run_directory / "meta.json", '"queue": false', f'"role": "{role}", "queue": false')
            self.refused("not a run that can be read: meta.json: scenario has controls that are no twins of its rows")

    def test_a_figure_beyond_all_measure(self) -> None:
        path = self.run_directory / "runs.jsonl"
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r'"gbps": [\d.]+', '"gbps": 1e300', text, count=1), encoding="utf-8")
        self.refused(r"not a run that can be read: runs.jsonl:1: tcp.gbps is 1e\+300: that is never measured")

    def test_nested_beyond_all_bounds(self) -> None:
        (self.run_directory / "meta.json").write_text("[" * 100000, encoding="utf-8")
        self.refused("not a run that can be read: meta.json: not one JSON document")

    def test_text_that_controls_a_terminal(self) -> None:
        text_change(self.run_directory / "meta.json", '"cpu": "', '"cpu": "\\u001b[31m')
        cpu = store.run_load(self.run_directory).meta["machine"]["cpu"]
        with self.assertRaisesRegex(Failure, "^meta.json: machine.cpu holds characters that do not belong on a terminal"):
            cpu.text()

    def test_another_schema(self) -> None:
        text_change(self.run_directory / "meta.json", '"schema": 1', '"schema": 2')
        self.refused("not a run that can be read: meta.json: schema 2")
