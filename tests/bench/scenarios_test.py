# SPDX-License-Identifier: GPL-2.0-or-later
"""Every scenario, from the kernel, in its --quick form: one block of its last row and of the baselines that this needs.
With NFQ_TEST_ALL_ROWS in the environment (make check-scenarios) all of its rows."""

import json
import os
import unittest

from helper import FolderTest, nfq_bench, reason_is_the_machine_s
from nfqbench.scenarios import scenario_find, scenario_names
from test_run import doctor_refusal

CANNOT_RUN = 4


class EveryScenario(FolderTest):
    @classmethod
    def setUpClass(cls) -> None:
        refusal = doctor_refusal()
        if refusal:
            raise unittest.SkipTest(refusal)

    def test_quickly_from_the_kernel(self) -> None:
        self.assertGreater(len(scenario_names()), 15)
        for name in scenario_names():
            with self.subTest(scenario=name):
                self.scenario_run(name)

    def scenario_run(self, name: str) -> None:
        row = scenario_find(name).modes[-1].name
        rows = [] if os.environ.get("NFQ_TEST_ALL_ROWS") else ["--rows", row]
        out = self.folder / name
        done = nfq_bench("run", name, "--quick", "--blocks", "1", "--no-controls", *rows, "--out", str(out))
        if done.returncode == CANNOT_RUN:
            self.assertRegex(done.stderr, r"(?m)^nfq-bench: .*(cannot run here|needs|has not)")
            return
        (directory,) = out.iterdir()
        records = [json.loads(line) for line in (directory / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertIn(row, {record["mode"] for record in records})
        reasons = {record["mode"]: record["reasons"] for record in records}
        wrong = {mode: [why for why in told if not reason_is_the_machine_s(why)] for mode, told in reasons.items()}
        self.assertEqual({mode: told for mode, told in wrong.items() if told}, {}, done.stderr)
