# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells under another kernel: with a stand-in for vm.sh that runs the guest's script here, under a stand-in for cell.sh."""

import json
import unittest
from pathlib import Path
from unittest import mock

from helper import DATA, FolderTest, scenario_recorded
from made import run_made, scenario_made
from nfqbench import paths, vm
from nfqbench.errors import CannotRun, Failure, UsageError
from nfqbench.host import Host
from nfqbench.plan import plan_make
from nfqbench.table import text_render

CELL = f"""#!/usr/bin/env bash
while (($#)); do
    case $1 in
    --out) out=$2 ;;
    esac
    shift
done
case $out in
*-none) cp -r {DATA}/cells/none "$out" ;;
*) echo "cell.sh: no room" >&2; exit 1 ;;
esac
"""
MACHINE = '#!/usr/bin/env bash\necho "$@" >"$0.asked"\nwhile [[ $1 != -- ]]; do shift; done\nshift\nexec "$@"\n'


class Block(FolderTest):
    def measure(self, machine: str) -> list[Path]:
        """Of one block; returns the folders of its cells."""
        scenario, cells = scenario_recorded(), self.folder / "cells"
        cells.mkdir()
        for name, text in (("cell.sh", CELL), ("vm.sh", machine)):
            (self.folder / name).write_text(text, encoding="ascii")
            (self.folder / name).chmod(0o755)
        block = plan_make(scenario.modes, 1, 7)
        with mock.patch.object(paths, "CELL", self.folder / "cell.sh"), mock.patch.object(paths, "VM", self.folder / "vm.sh"):
            vm.block_measure("6.1-rt", block, scenario, self.folder, cells)
        return [cells / planned.folder for planned in block]

    def test_every_cell_is_measured_by_one_machine(self) -> None:
        folders = self.measure(MACHINE)
        self.assertRegex((self.folder / "vm.sh.asked").read_text(encoding="ascii"), r"^run 6\.1-rt --share \S+/cells --timeout \d+ -- bash")
        for folder in folders:
            if folder.name.endswith("-none"):
                self.assertTrue((folder / "iperf3.json").exists())
            else:
                self.assertIn("cell.sh: no room", (folder / "error").read_text(encoding="utf-8"))
        self.assertEqual(sorted(path.suffix for path in folders[0].parent.glob("*.*")), [])

    def test_the_kernel_is_told_by_the_guest(self) -> None:
        cells = self.measure(MACHINE)[0].parent
        described = vm.guest_take(cells)
        assert described
        self.assertEqual(described["release"], Host().line("/proc/sys/kernel/osrelease"))
        self.assertIsNone(vm.guest_take(cells))

    def test_a_machine_that_dies_leaves_errors(self) -> None:
        for folder in self.measure("#!/bin/sh\necho 'vm.sh: Linux 6.1: the machine died: panic' >&2\nexit 125\n"):
            self.assertIn("the machine died: panic", (folder / "error").read_text(encoding="utf-8"))

    def test_a_machine_that_cannot_be_had(self) -> None:
        with self.assertRaisesRegex(CannotRun, "not installed: qemu"):
            self.measure("#!/bin/sh\necho 'vm.sh: not installed: qemu' >&2\nexit 4\n")

    def test_a_machine_that_fails(self) -> None:
        with self.assertRaisesRegex(Failure, "Linux 6.1-rt: vm.sh: what"):
            self.measure("#!/bin/sh\necho 'vm.sh: what' >&2\nexit 1\n")


class Asked(unittest.TestCase):
    def test_kernels(self) -> None:
        for kernel in ("6.1", "6.1-rt", "6.12", "6.12-rt"):
            vm.kernel_check(kernel)
        for kernel in ("6", "six", "6.1-", "../6.1", "6.1-cloud"):
            with self.assertRaisesRegex(UsageError, "6.1, 6.1-rt, 6.12 or 6.12-rt"):
                vm.kernel_check(kernel)

    def test_a_row_that_needs_more_cpus_than_there_are(self) -> None:
        vm.scenario_check_vm(scenario_made(pin="client=0,daemon=1"))
        with self.assertRaisesRegex(CannotRun, "more than the two CPUs"):
            vm.scenario_check_vm(scenario_made(pin="daemon=2"))


class Told(unittest.TestCase):
    def test_nothing_is_concluded(self) -> None:
        run = run_made(scenario_made(), emulated=True)
        text = text_render(run)
        self.assertIn("Emulated: times and rates mean nothing", text)
        self.assertIn("EMULATED machine", text)
        for word in ("faster", "slower", "inconclusive", "equivalent"):
            self.assertNotIn(word, text)
        self.assertNotIn('"faster"', json.dumps(run.summary.json()))
