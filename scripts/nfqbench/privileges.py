# SPDX-License-Identifier: GPL-2.0-or-later
"""What we may do: root, a user namespace of our own instead, real-time scheduling."""

import os
import subprocess
import sys
from collections.abc import Sequence

from .errors import CannotRun

ROOTLESS = ["unshare", "-Urnm"]

ROOT_REMEDY = (
    "run it with sudo, or let users have user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces)"
)


def user_namespace_is_ours() -> bool:
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return file.read().split() != ["0", "0", "4294967295"]


def command_succeeds(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def root_become(arguments: Sequence[str]) -> None:
    """Unless we are root: begins again, as the same process, as root of a user namespace of its own, if permitted."""
    if os.geteuid() != 0 and command_succeeds([*ROOTLESS, "true"]):
        os.execvp(ROOTLESS[0], [*ROOTLESS, "--", sys.executable, *arguments])


def root_ensure(arguments: Sequence[str]) -> None:
    root_become(arguments)
    if os.geteuid() != 0:
        raise CannotRun(f"may not make network namespaces: {ROOT_REMEDY}")


def sched_is_permitted(sched: str) -> bool:
    policy, _, priority = sched.partition(":")
    return not priority or command_succeeds(["chrt", "-r" if policy == "rr" else "-f", priority, "true"])


def sched_choose(wanted: str, asked: bool) -> tuple[str, str | None]:
    """The policy to measure under and, if it is not the wanted one, a sentence that says so.

    What the user asked for is never replaced.
    """
    if sched_is_permitted(wanted):
        return wanted, None
    if asked:
        raise CannotRun(f"--sched {wanted}: not permitted here: {realtime_remedy()}")
    return "other", f"Real-time scheduling ({wanted}) is not permitted here: measured under SCHED_OTHER."


def realtime_remedy() -> str:
    if user_namespace_is_ours():
        return "real-time scheduling needs root outside a user namespace: run it with sudo"
    return "needs CAP_SYS_NICE, and with CONFIG_RT_GROUP_SCHED a cgroup that has a real-time budget (cpu.rt_runtime_us)"
