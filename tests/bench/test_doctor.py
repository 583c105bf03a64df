# SPDX-License-Identifier: GPL-2.0-or-later
"""What doctor makes of what it finds."""

import os
import platform
import re
import subprocess
import sys
import unittest
from collections.abc import Mapping, Sequence
from unittest import mock

from helper import NFQ_BENCH, FolderTest, nfq_bench
from nfqbench import doctor, paths
from nfqbench.host import Host
from nfqbench.privileges import ROOTLESS, command_succeeds

CAP_NET_RAW = 13  # linux/capability.h


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

    def test_without_gnuplot_there_are_no_pictures_but_figures(self) -> None:
        (found,) = self.examine(1, "gnuplot\tgnuplot-nox\n")
        self.assertEqual((found.state, found.what), ("limited", "gnuplot"))
        self.assertRegex(found.remedy, "^no pictures without it: install the package gnuplot-nox ")
        self.assertTrue(doctor.run_is_possible([found]))

    def test_nothing_is_missing(self) -> None:
        self.assertEqual([f.state for f in self.examine(0, "")], ["ok"])

    def test_a_failure_of_the_examination_is_not_taken_for_health(self) -> None:
        (found,) = self.examine(1, "", "install-deps: broken\n")
        self.assertEqual((found.state, found.remedy), ("limited", "not examined: install-deps: broken"))

    def test_the_examination_is_not_there(self) -> None:
        with mock.patch.object(subprocess, "run", side_effect=FileNotFoundError(2, "No such file")):
            self.assertEqual([f.state for f in doctor._tools_examine()], ["limited"])


class MadeUp(Host):
    """Files in a folder; lscpu is the only program."""

    lscpu = "{}"

    def said(self, command: Sequence[str]) -> str | None:
        return self.lscpu if command[0] == "lscpu" else None


class Quiet(FolderTest):
    """What makes figures worse."""

    V1 = {
        "proc/self/mounts": "cgroup /cg cgroup rw,cpu,cpuacct 0 0\n",
        "proc/self/cgroup": "1:cpu,cpuacct:/ours\n",
    }

    def examine(self, files: Mapping[str, str], flags: str = "") -> list[doctor.Finding]:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="ascii")
        host = MadeUp(self.folder)
        if flags:
            host.lscpu = f'{{"lscpu": [{{"field": "Flags:", "data": "{flags}"}}]}}'
        with mock.patch.object(platform, "machine", return_value="x86_64"):
            found = list(doctor._quiet_examine(host))
        self.assertTrue(doctor.run_is_possible(found))
        return found

    def one(self, files: Mapping[str, str], flags: str = "") -> tuple[str, str]:
        (found,) = self.examine(files, flags)
        self.assertEqual(found.state, "limited")
        return found.what, found.remedy

    def test_of_an_idle_machine_with_full_speed_nothing_is_said(self) -> None:
        files = {
            "proc/loadavg": "0.50 3.00 3.00 1/86 17899\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
            "cg/ours/cpu.rt_runtime_us": "950000\n", "cg/ours/cpu.cfs_quota_us": "-1\n",
        }  # fmt: skip
        self.assertEqual(self.examine({**self.V1, **files}, flags="fpu svm"), [])

    def test_of_a_machine_that_tells_nothing_nothing_is_said(self) -> None:
        self.assertEqual(self.examine({"proc/loadavg": "much\n"}), [])

    def test_another_load(self) -> None:
        what, remedy = self.one({"proc/loadavg": "0.51 0.10 0.10 1/86 17899\n"})
        self.assertEqual((what, remedy[:13]), ("not idle", "a load of 0.5"))

    def test_a_governor_that_lets_cpus_sleep(self) -> None:
        governors = {f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": "powersave\n" for cpu in range(2)}
        what, remedy = self.one(governors)
        self.assertEqual(what, "governor powersave")
        self.assertEqual(remedy, "figures of a sleeping CPU; cpupower frequency-set -g performance")

    def test_a_virtual_machine_and_what_its_neighbours_took(self) -> None:
        what, remedy = self.one({"proc/stat": "cpu  100 0 100 700 0 0 0 100 50 0\ncpu0 1 2\n"}, flags="fpu hypervisor")
        self.assertEqual(what, "virtual machine")
        self.assertRegex(remedy, r"^others took 10\.0 % of its CPU time since it came up; compare ratios only")

    def test_a_virtual_machine_that_does_not_tell(self) -> None:
        _, remedy = self.one({"proc/stat": "cpu  1 2 3\n"}, flags="hypervisor")
        self.assertEqual(remedy, "compare ratios only, and many blocks")

    def test_no_budget_for_real_time(self) -> None:
        what, remedy = self.one({**self.V1, "cg/ours/cpu.rt_runtime_us": "0\n"})
        self.assertEqual(what, "real-time budget")
        self.assertRegex(remedy, r"RT_GROUP_SCHED.*echo 900000 into its cpu\.rt_runtime_us")

    def test_a_control_group_with_less_than_all_cpus(self) -> None:
        limit = {"cg/ours/cpu.cfs_quota_us": "50000\n", "cg/ours/cpu.cfs_period_us": "100000\n"}
        what, remedy = self.one({**self.V1, **limit})
        self.assertEqual((what, remedy[:8]), ("CPU time", "0.5 CPUs"))


class Restricted(FolderTest):
    """Root of a user namespace only, and with less than that."""

    def setUp(self) -> None:
        super().setUp()
        if not command_succeeds([*ROOTLESS, "true"]):
            self.skipTest("user namespaces are not permitted here")

    def run_in(self, way: Sequence[str], script: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
        command = [*way, *ROOTLESS, "bash", "-euc", script, "-", *map(str, arguments)]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
        )

    def test_ping_needs_no_capability_in_our_namespaces(self) -> None:
        script = """
            prefix=nfqt$$
            cp "$(command -v ping)" "$2/ping" # and so without the capabilities of the file
            "$1" up --quiet --no-rule --prefix "$prefix"
            "$1" exec --prefix "$prefix" client setpriv --bounding-set -net_raw --inh-caps -net_raw sh -c \
                'grep ^CapEff: /proc/self/status; exec "$1" -c 1 -W 2 10.0.2.1' - "$2/ping"
            "$1" down --quiet --prefix "$prefix"
        """
        done = self.run_in([], script, paths.NETNS, self.folder)
        capabilities = re.search(r"^CapEff:\s*(\w+)$", done.stdout, re.MULTILINE)
        assert capabilities, done.stderr
        self.assertFalse(int(capabilities[1], 16) & 1 << CAP_NET_RAW)
        self.assertIn("1 packets transmitted, 1 received", done.stdout, done.stderr)

    @unittest.skipIf(os.geteuid(), "only root can cover a part of /sys")
    def test_where_sysfs_cannot_be_mounted_another_way_is_found(self) -> None:
        """Container runtimes cover parts of /sys, upon which no user namespace may have it anew."""
        covered = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /sys/kernel && exec "$@"', "-"]
        done = self.run_in(covered, "mount -t tmpfs tmpfs /run; ip netns add x; ip netns exec x true")
        if "mount of /sys failed" not in done.stderr:
            self.skipTest("it can be mounted all the same")
        done = self.run_in(covered, '"$@"', sys.executable, NFQ_BENCH, "doctor")
        self.assertRegex(done.stdout, r"(?m)^ok +queue rule ", done.stderr)


class Here(unittest.TestCase):
    def test_status_and_verdict_agree(self) -> None:
        done = nfq_bench("doctor")
        *lines, verdict = done.stdout.splitlines()
        self.assertRegex(verdict, "^A run is")
        missing = any(re.match("missing ", line) for line in lines)
        self.assertEqual(done.returncode, 4 if missing else 0, done.stdout + done.stderr)
