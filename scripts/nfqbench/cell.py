# SPDX-License-Identifier: GPL-2.0-or-later
"""Has cell.sh measure one cell, and removes what is left of cells whose nfq-bench died.

cell.sh runs in a session of its own, so that Ctrl-C reaches only us; we end it by SIGTERM, upon which it takes its
namespaces down. If we are killed, setpriv has the kernel send it that signal. If it is killed too, its namespaces carry
our process id in their names, and the next run finds them.
"""

import os
import re
import shlex
import subprocess
from pathlib import Path

from . import paths
from .errors import CannotRun, Failure, UsageError
from .plan import PlannedCell
from .scenario import Mode, Scenario

# Set-up, warm-up and tear-down together, with everything that may be waited for in vain.
OVERHEAD_LIMIT_S = 120
TERMINATE_LIMIT_S = 30

NAMESPACE = re.compile(r"(nfqb(\d+))-(?:client|router|server)")


def prefix_ours() -> str:
    return f"nfqb{os.getpid()}"


def cell_measure(planned: PlannedCell, scenario: Scenario, prepared: Path, folder: Path) -> None:
    """Fills `folder`. A cell that could not be completed has a file "error" in it; only what makes every further cell
    pointless is raised. `prepared` is {work} in a processor's command."""
    limit_s = scenario.ping_count * scenario.ping_interval_ms / 1000 + scenario.iperf_seconds + OVERHEAD_LIMIT_S
    command = ["setpriv", "--pdeathsig", "TERM", "--", *cell_command(planned, scenario, prepared, folder)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        _, stderr = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Failure(f"cell.sh did not end within {limit_s:.0f} s: {planned.folder}") from None
    finally:
        if process.poll() is None:
            _cell_end(process)
    status_check(process.returncode, stderr, folder)


def cell_command(planned: PlannedCell, scenario: Scenario, prepared: Path, folder: Path) -> list[str]:
    options = {"out": str(folder), "prefix": prefix_ours(), **_options(scenario, planned.mode)}
    if planned.mode.queue:
        options.update(_queue_options(scenario, planned.mode, prepared))
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [str(paths.CELL), *words, *(["--together"] if scenario.together else [])]


def work_insert(command: str, prepared: Path) -> str:
    """For a shell: {work} becomes the folder in which `prepare` ran."""
    return command.replace("{work}", shlex.quote(str(prepared)))


def _options(scenario: Scenario, mode: Mode) -> dict[str, str]:
    options = {
        **scenario.network_of(mode).options(),
        "mode": "queue" if mode.queue else "none",
        "ping": f"{scenario.ping_count}@{scenario.ping_interval_ms}" if scenario.ping_count else "0",
        "iperf": str(scenario.iperf_seconds_of(mode)),
        "iperf-args": scenario.iperf_args_of(mode),
        "cc": scenario.cc,
        "pin": scenario.pin_of(mode),
    }
    if scenario.udp_bytes:
        options["udp"] = str(scenario.udp_pps_of(mode))
        options["udp-bytes"], options["udp-segments"] = str(scenario.udp_bytes), str(scenario.udp_segments)
    if mode.rps:
        options["rps"] = mode.rps
    if mode.busy:
        options["busy"] = mode.busy
    return options


def _queue_options(scenario: Scenario, mode: Mode, prepared: Path) -> dict[str, str]:
    options = {"sched": scenario.sched_of(mode), "queues": str(mode.queues)}
    if mode.fanout:
        options["fanout"] = mode.fanout
    return {**options, "processor": work_insert(mode.processor, prepared), "noop-args": mode.noop}


def _cell_end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.communicate(timeout=TERMINATE_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
    namespaces_remove(prefix_ours())


def status_check(status: int, stderr: str, folder: Path) -> None:
    last = (stderr.strip().splitlines() or ["no message"])[-1]
    if status == 2:
        raise UsageError(last)
    if status == 4:
        raise CannotRun(last)
    if status != 0 and not (folder / "error").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "error").write_text(f"cell.sh ended with status {status}: {last}\n", encoding="utf-8")


def namespaces_remove(prefix: str) -> None:
    subprocess.run([paths.NETNS, "down", "--prefix", prefix, "--quiet"], stdin=subprocess.DEVNULL, check=False)


def stale_namespaces_remove() -> list[str]:
    """Those named after a process that is gone."""
    try:
        names = os.listdir("/run/netns")
    except OSError:
        return []
    owners = {match[1]: int(match[2]) for match in map(NAMESPACE.fullmatch, names) if match}
    stale = sorted(prefix for prefix, pid in owners.items() if not process_is_alive(pid))
    for prefix in stale:
        namespaces_remove(prefix)
    return stale


def process_is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
