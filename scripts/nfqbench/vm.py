# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells under another kernel: vm.sh boots it, cell.sh measures inside, and the raw folders are parsed and judged here
as any other. A block is measured by one boot.

Emulation is single-threaded and 40 to 60 times slower: what is counted holds, what is timed means nothing.
"""

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import paths
from .cell import cell_command, status_check
from .errors import CannotRun, Failure, UsageError
from .host import Host
from .kernelconfig import kernel_describe
from .plan import PlannedCell
from .record import Json
from .scenario import Scenario

KERNEL = re.compile(r"[1-9][0-9]*\.[0-9]+(-rt)?")

# What a row may ask for at most, so that a block ends within an hour; and what is usual.
PING, IPERF_SECONDS, BLOCKS = "10@50", 5, 1

BOOT_LIMIT_S = 120
SLOWNESS = 4  # of what a cell waits for
CELL_LIMIT_S = 180  # of all else: processes start slowly
CANNOT_RUN, LATE, DIED = 4, 124, 125

# What tells of the guest's kernel; later blocks say the same.
GUEST_FILES = ("/proc/sys/kernel/osrelease", "/proc/sys/kernel/version", "/proc/sys/kernel/tainted", "/proc/cmdline")


def kernel_check(kernel: str) -> None:
    if not KERNEL.fullmatch(kernel):
        raise UsageError(f"--vm {kernel}: 6.1, 6.1-rt, 6.12 or 6.12-rt")


def scenario_check_vm(scenario: Scenario) -> None:
    """A guest has two CPUs."""
    for mode in scenario.modes:
        words = f"{scenario.pin_of(mode)} {mode.rps} {mode.busy}"
        if set(re.findall(r"\d+", words)) - {"0", "1"}:
            raise CannotRun(f"row \"{mode.label}\" needs more than the two CPUs of an emulated machine")
    if scenario.prepare:
        raise CannotRun(f"{scenario.name}: what it prepares on this machine need not run under another kernel")


def block_measure(kernel: str, block: Sequence[PlannedCell], scenario: Scenario, prepared: Path, cells: Path) -> None:
    """Fills the folders of the cells; one that was not measured gets an "error"."""
    script = cells / "guest.sh"
    script.write_text("".join(_script_lines(block, scenario, prepared, cells)), encoding="utf-8")
    waited_s = scenario.ping_count * scenario.ping_interval_ms / 1000 + scenario.iperf_seconds
    limit_s = BOOT_LIMIT_S + len(block) * (CELL_LIMIT_S + SLOWNESS * waited_s)
    options = ["--share", str(cells), "--timeout", str(int(limit_s))]
    done = subprocess.run(
        [paths.VM, "run", kernel, *options, "--", "bash", script], stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    why = (done.stderr.strip().splitlines() or [f"vm.sh ended with status {done.returncode}"])[-1]
    if done.returncode == CANNOT_RUN:
        raise CannotRun(why)
    if done.returncode not in (0, LATE, DIED):
        raise Failure(f"Linux {kernel}: {why}")
    for planned in block:
        _cell_check(cells / planned.folder, cells, why)
    script.unlink()


def _script_lines(block: Sequence[PlannedCell], scenario: Scenario, prepared: Path, cells: Path) -> list[str]:
    lines = [f"mkdir -p {shlex.quote(str(cells / 'guest'))}\n"]
    for file in GUEST_FILES:
        target = cells / "guest" / file.lstrip("/")
        lines.append(f"mkdir -p {shlex.quote(str(target.parent))}; cat {file} >{shlex.quote(str(target))}\n")
    lines.append("modprobe -q br_netfilter || true\n")  # the guest is ours
    for planned in block:
        folder = cells / planned.folder
        command = shlex.join(cell_command(planned, scenario, prepared, folder))
        words, code = (shlex.quote(f"{folder}.{kind}") for kind in ("err", "code"))
        lines.append(f"{command} >/dev/null 2>{words}; echo $? >{code}\n")
    return lines


def _cell_check(folder: Path, cells: Path, why: str) -> None:
    code, words = (folder.with_name(f"{folder.name}.{kind}") for kind in ("code", "err"))
    if code.exists():
        status_check(int(code.read_text(encoding="ascii")), words.read_text(encoding="utf-8"), folder)
    else:
        status_check(1, why, folder)
    for path in (code, words):
        path.unlink(missing_ok=True)


def guest_take(cells: Path) -> Json | None:
    """Of the guest's kernel what it told; removes the files."""
    guest = cells / "guest"
    if not guest.exists():
        return None
    described = kernel_describe(Host(guest))
    shutil.rmtree(guest)
    return described
