# SPDX-License-Identifier: GPL-2.0-or-later
"""What doctor makes of what it finds."""

import re
import subprocess
import unittest
from unittest import mock

from helper import nfq_bench
from nfqbench import doctor


class Render(unittest.TestCase):
    def test_a_line_a_finding_with_the_remedy(self) -> None:
        findings = [doctor.Finding(doctor.OK, "veth"), doctor.Finding(doctor.MISSING, "iperf3", "install iperf3")]
        self.assertEqual(doctor.findings_render(findings), "ok       veth\nmissing  iperf3  install iperf3\n")

    def test_only_what_is_missing_forbids_a_run(self) -> None:
        limited = doctor.Finding(doctor.LIMITED, "scheduling rr:99", "sudo")
        self.assertTrue(doctor.run_is_possible([limited]))
        self.assertFalse(doctor.run_is_possible([limited, doctor.Finding(doctor.MISSING, "veth")]))


class Tools(unittest.TestCase):
    def examine(self, status: int, stdout: str, stderr: str = "") -> list[doctor.Finding]:
        done = subprocess.CompletedProcess([], status, stdout, stderr)
        with mock.patch.object(subprocess, "run", return_value=done):
            return list(doctor._tools_examine())

    def test_all_that_is_missing_is_named_with_its_package(self) -> None:
        found = self.examine(1, "iperf3\tiperf3\nping of iputils\tiputils-ping\n")
        self.assertEqual([(f.state, f.what) for f in found], [("missing", "iperf3"), ("missing", "ping of iputils")])
        self.assertIn("iputils-ping", found[1].remedy)

    def test_nothing_is_missing(self) -> None:
        self.assertEqual([f.state for f in self.examine(0, "")], ["ok"])

    def test_a_failure_of_the_examination_is_not_taken_for_health(self) -> None:
        (found,) = self.examine(1, "", "install-deps: broken\n")
        self.assertEqual((found.state, found.remedy), ("limited", "not examined: install-deps: broken"))

    def test_the_examination_is_not_there(self) -> None:
        with mock.patch.object(subprocess, "run", side_effect=FileNotFoundError(2, "No such file")):
            self.assertEqual([f.state for f in doctor._tools_examine()], ["limited"])


class Here(unittest.TestCase):
    def test_status_and_verdict_agree(self) -> None:
        done = nfq_bench("doctor")
        *lines, verdict = done.stdout.splitlines()
        self.assertRegex(verdict, "^A run is")
        missing = any(re.match("missing ", line) for line in lines)
        self.assertEqual(done.returncode, 4 if missing else 0, done.stdout + done.stderr)
