# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: exit status and the one line that says what is wrong."""

import ast
import json
import subprocess
import sys
from dataclasses import replace
from unittest import mock

from helper import DATA, NFQ_BENCH, ROOT, FolderTest, nfq_bench, scenario_recorded
from nfqbench import cli


class Usage(FolderTest):
    def status(self, expected: int, *arguments: str, says: str = ".") -> str:
        done = nfq_bench(*arguments)
        self.assertEqual(done.returncode, expected, done.stderr)
        self.assertRegex(done.stdout + done.stderr, says)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout

    def test_help(self) -> None:
        for command in ("doctor", "run", "report", "list"):
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

    def test_quickly_is_not_measured_what_the_scenario_does_not_measure(self) -> None:
        options = cli._parser().parse_args(["run", "--quick"])
        adjusted = cli._scenario_adjust(replace(scenario_recorded(), ping_count=0, blocks=10), options)
        self.assertEqual((adjusted.ping_count, adjusted.iperf_seconds, adjusted.blocks), (0, 2, 3))

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
        self.status(2, "run", "gro", says='no scenario "gro"; there are: .*gso')
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

    def test_report_against_a_published_reference(self) -> None:
        self.assertIn("%]: of APU2 (2018)", self.status(0, "report", str(DATA / "run"), "--ref", "2018-apu2"))

    def test_list_shows_scenarios_references_and_runs(self) -> None:
        text = self.status(0, "list", "--out", str(DATA))
        for part in ("gso", "2018-mbp2011", str(DATA / "run")):
            self.assertIn(part, text)

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
