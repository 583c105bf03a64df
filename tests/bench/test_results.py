# SPDX-License-Identifier: GPL-2.0-or-later
"""Every run that is kept in results/, whoever measured it, and the table across machines beside README.txt."""

import re
import subprocess
import unittest
from pathlib import Path

from helper import ROOT, nfq_bench
from nfqbench.store import run_load, run_name
from nfqbench.verify import run_verify

RESULTS = ROOT / "results"
EVIDENCE_IS_KEPT_SINCE = "20261130T23"
OURS = re.compile(r"10\.0\.[12]\.\d")  # of the namespaces that are made for each cell
ADDRESSES = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b|\b(?:\d{1,3}\.){3}\d{1,3}\b")


def directories() -> list[Path]:
    """Hidden ones are of a run in progress."""
    return sorted(path for path in RESULTS.iterdir() if path.is_dir() and path.name != "reference"
                  and not path.name.startswith("."))  # fmt: skip


def directories_kept() -> list[Path]:
    """Without those that somebody has just measured, if git tells which are kept."""
    command = ["git", "-C", str(ROOT), "ls-files", "results/*/meta.json"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return directories()
    return [directory for directory in directories() if f"results/{directory.name}/meta.json" in told]


class Results(unittest.TestCase):
    def test_there_are_some(self) -> None:
        self.assertGreater(len(directories()), 0)

    def test_each_follows_from_its_cells(self) -> None:
        for directory in directories():
            with self.subTest(directory=directory.name):
                verified = run_verify(directory)
                self.assertEqual(verified.faults, ())
                self.assertTrue(verified.judged or directory.name < EVIDENCE_IS_KEPT_SINCE)

    def test_each_is_called_as_it_should_be(self) -> None:
        for directory in directories():
            with self.subTest(directory=directory.name):
                self.assertRegex(directory.name, f"^{re.escape(run_name(run_load(directory).meta))}(-[0-9]+)?$")

    def test_none_names_a_network(self) -> None:
        for directory in directories():
            with self.subTest(directory=directory.name):
                meta = (directory / "meta.json").read_text(encoding="utf-8")
                self.assertEqual([found for found in ADDRESSES.findall(meta) if not OURS.fullmatch(found)], [])

    def test_the_table_across_machines_is_of_all_of_them(self) -> None:
        done = nfq_bench("report", *map(str, directories_kept()), "--format", "machines")
        self.assertEqual(done.returncode, 0, done.stderr)
        table = (RESULTS / "TABLE.txt").read_text(encoding="utf-8")
        self.assertEqual(table, done.stdout, "write it: nfq-bench report results/2* --format machines >results/TABLE.txt")
