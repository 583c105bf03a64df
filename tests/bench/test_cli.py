# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: exit status and the one line that says what is wrong."""

import ast
import json
import subprocess
import sys
from dataclasses import replace
from unittest import mock
from xml.etree import ElementTree

from helper import DATA, NFQ_BENCH, ROOT, FolderTest, nfq_bench, run_recorded, scenario_recorded
from nfqbench import cli


class Usage(FolderTest):
    def status(self, expected: int, *arguments: str, says: str = ".") -> str:
        done = nfq_bench(*arguments)
        self.assertEqual(done.returncode, expected, done.stderr)
        self.assertRegex(done.stdout + done.stderr, says)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout

    def test_help(self) -> None:
        for command in ("doctor", "run", "report", "compare", "verify", "list"):
            self.assertIn(command, self.status(0, "--help"))
            self.status(0, command, "--help", says=f"usage: nfq-bench {command}")

    def test_version_is_that_of_the_library(self) -> None:
        header = (ROOT / "include" / "nq.h").read_text(encoding="utf-8")
        version = self.status(0, "--version").split()[1]
        self.assertIn(f'#define NQ_VERSION "{version}"', header)

    def test_usage_errors(self) -> None:
        self.status(2, says="required: COMMAND")
        self.status(2, "measure", says="invalid choice: 'measure'")
        self.status(2, "run", "--block", "3", says="unrecognized arguments: --block")
        self.status(2, "run", "--blocks", "0", says="from 1 on")
        self.status(2, "run", "--ping", "10", says="should be COUNT@MS, such as 200@10")
        self.status(2, "run", "--iperf", "-1", says="iperf seconds -1: 0 or more")
        self.status(2, "run", "--sched", "rr", says="inherit, other, rr:1-99 or fifo:1-99")
        self.status(2, "run", "--topology", "ring", says="router or pair")
        self.status(2, "run", "--pin", "router=0", says='pin "router=0": client=CPUS')
        self.status(2, "run", "--name", "a/b", says="letters, digits")
        self.status(2, "run", "--processor", "nfqws", says=r"has no \{queue\}")
        self.status(2, "run", "--ping", "0", "--iperf", "0", says="nothing to measure")
        for percent in ("0", "-5", "101", "nan", "much"):
            self.status(2, "run", "--precision", percent, says="should be a percentage, such as 5")
        self.status(2, "report", str(DATA / "run"), "--format", "pdf", says="invalid choice: 'pdf'")
        self.status(2, "compare", str(DATA / "run"), says="required: B")

    def test_quickly_is_not_measured_what_the_scenario_does_not_measure(self) -> None:
        options = cli._parser().parse_args(["run", "--quick"])
        adjusted = cli._scenario_adjust(replace(scenario_recorded(), ping_count=0, blocks=10), options)
        self.assertEqual((adjusted.ping_count, adjusted.iperf_seconds, adjusted.blocks), (0, 1, 3))

    def test_blocks_are_the_scenarios_unless_told(self) -> None:
        scenario = replace(scenario_recorded(), blocks=10)
        for words, blocks in ((["run"], 10), (["run", "--blocks", "2"], 2), (["run", "--quick", "--blocks", "9"], 9)):
            adjusted = cli._scenario_adjust(scenario, cli._parser().parse_args(words))
            self.assertEqual(adjusted.blocks, blocks)

    def test_each_policy_that_is_not_permitted_is_replaced_and_told(self) -> None:
        scenario = scenario_recorded()
        modes = [replace(mode, sched="fifo:3" if mode.name == "nfq" else None) for mode in scenario.modes]
        modes.append(replace(scenario.mode("nfq"), name="last", sched="inherit"))

        def choose(wanted: str, asked: bool) -> tuple[str, str | None]:
            return ("other", f"No {wanted}.") if ":" in wanted and not asked else (wanted, None)

        with mock.patch.object(cli, "sched_choose", choose):
            settled, note = cli._sched_settle(replace(scenario, modes=tuple(modes)), asked=False)
        self.assertEqual((settled.sched, note), ("other", "No fifo:3. No rr:99."))
        self.assertEqual([mode.sched for mode in settled.modes], [None, "other", None, "inherit"])

    def test_arguments_for_iperf3_may_begin_with_a_dash(self) -> None:
        for value in ("-R", "-P 2", "--omit 1"):
            self.status(2, "run", "--iperf-args", value, "--name", "a/b", says="letters, digits")

    def test_a_scenario_that_is_not_there(self) -> None:
        self.status(2, "run", "gos", says='no scenario "gos"; there are: .*gso')
        self.status(2, "run", "./gro.toml", says="gro.toml: cannot be read: No such file")

    def test_report_of_what_is_not_there(self) -> None:
        self.status(1, "report", str(self.folder / "x"), says="no such run directory; `nfq-bench list`")
        self.status(2, "report", str(DATA / "run"), "--ref", "2018", says='no reference "2018"; there are: .*2018-apu2')
        self.status(2, "report", says="required: DIR")

    def test_report_in_every_format(self) -> None:
        self.assertIn("+-", self.status(0, "report", str(DATA / "run")))
        self.assertIn("|---|", self.status(0, "report", str(DATA / "run"), "--format", "md"))
        self.assertTrue(self.status(0, "report", str(DATA / "run"), "--format", "csv").startswith("run,mode,"))
        document = json.loads(self.status(0, "report", str(DATA / "run"), "--format", "json"))
        self.assertEqual((document["run"], document["schema"], len(document["rows"])), ("run", 1, 3))

    def test_a_page_and_pictures_are_of_one_run(self) -> None:
        run = str(DATA / "run")
        self.assertTrue(self.status(0, "report", run, "--format", "html").lower().startswith("<!doctype html>"))
        picture = self.status(0, "report", run, "--format", "svg")
        self.assertEqual(picture.count("<svg"), 3)  # two plots in one
        ElementTree.fromstring(picture)
        other = str(run_recorded(self.folder / "run"))
        for form in ("html", "svg"):
            self.status(2, "report", run, other, "--format", form, says="a page is about one run; give one directory")

    def test_for_flent_files_are_written_where_one_is(self) -> None:
        directory = run_recorded(self.folder / "here")
        command = [sys.executable, str(NFQ_BENCH), "report", str(directory), "--format", "flent"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        files = [f"here-{mode}.flent.gz" for mode in ("none", "nfq", "nfq-gso")]
        self.assertEqual((done.returncode, done.stdout.split()), (0, files), done.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.glob("*.gz")), sorted(files))

    def test_what_follows_from_a_run_is_written_anew(self) -> None:
        directory = run_recorded(self.folder / "run")
        table = (directory / "table.txt").read_bytes()
        (directory / "table.txt").write_text("spoilt\n", encoding="utf-8")
        (directory / "rtt.svg").unlink()
        self.assertEqual(self.status(0, "report", str(directory), "--write"), "")
        self.assertEqual((directory / "table.txt").read_bytes(), table)
        self.status(0, "verify", str(directory), says="6 of 6 cells judged again: everything follows")

    def test_all_machines_in_one_table(self) -> None:
        table = self.status(0, "report", str(DATA / "run"), "--format", "machines")
        self.assertRegex(table, r"\nrun +AMD EPYC, 2 CPUs, Linux 6\.18")
        self.assertRegex(table, r"\nnfq with GSO\n  2018-apu2 +85\.0 +2\.43 +- +3\.35 +0\.669 +- +-\n")
        self.assertRegex(table, r"\n  run +139 +8\.97 +1\.27-63\.2 +8\.70 +0\.314 +0\.073-1\.34 +3 of 3\n")
        self.assertNotIn("2017-ag71xx-gro", table)  # it has other rows

    def test_two_runs_beside_each_other(self) -> None:
        text = self.status(0, "compare", str(DATA / "run"), str(DATA / "run"))
        self.assertIn("nothing differs", text.lower())
        self.status(1, "compare", str(DATA / "run"), str(self.folder / "x"), says="no such run directory")

    def test_report_against_a_published_reference(self) -> None:
        self.assertIn("%]: of APU2 (2018)", self.status(0, "report", str(DATA / "run"), "--ref", "2018-apu2"))

    def test_the_machine_is_called_by_its_cpu_unless_told(self) -> None:
        with mock.patch.object(cli, "machine_describe", lambda: {"cpu": "AMD EPYC 7763", "cpus": 64}):
            self.assertEqual(cli._host_name(None, extended=False), "amd-epyc-7763-x64")
        with mock.patch("platform.node", lambda: "bob.example"):
            self.assertEqual(cli._host_name(None, extended=True), "bob")
        self.assertEqual(cli._host_name("mine", extended=False), "mine")

    def test_list_shows_scenarios_references_and_runs(self) -> None:
        text = self.status(0, "list", "--out", str(DATA))
        for part in ("gso", "2018-mbp2011", f"{DATA}/run: AMD EPYC, 2 CPUs, Linux 6.18.44-fc-v782; 7 of 9 cells valid"):
            self.assertIn(part, " ".join(text.split()))

    def test_a_run_that_cannot_be_read_does_not_hide_the_others(self) -> None:
        run_recorded(self.folder / "good")
        (run_recorded(self.folder / "bad") / "runs.jsonl").write_text("{", encoding="utf-8")
        text = " ".join(self.status(0, "list", "--out", str(self.folder)).split())
        self.assertIn(f"{self.folder}/bad: not a run that can be read: runs.jsonl:1: not one JSON document", text)
        self.assertIn(f"{self.folder}/good: AMD EPYC", text)

    def test_closed_output_is_no_crash(self) -> None:
        command = f"exec {sys.executable} {NFQ_BENCH} list >&-"
        done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("standard output is closed", done.stderr)

    def test_a_reader_that_goes_away_is_no_crash(self) -> None:
        command = f"{sys.executable} {NFQ_BENCH} report {DATA}/run {DATA}/run --format json | true"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")

    def test_an_old_python_is_told_so(self) -> None:
        """It must be able to read the entry to say that it is too old."""
        ast.parse(NFQ_BENCH.read_text(encoding="utf-8"), feature_version=(3, 4))
