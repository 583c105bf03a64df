# SPDX-License-Identifier: GPL-2.0-or-later
"""What the control groups that we are in leave us of the CPUs."""

from collections.abc import Iterator
from dataclasses import dataclass

from .host import Host, integer_read


@dataclass(frozen=True)
class Cgroup:
    """`cpus_limit` without `limited` is unknown; with limited = False there is none."""

    version: int | None
    limited: bool | None
    cpus_limit: float | None
    throttled_periods: int | None
    rt_runtime_us: int | None  # what real-time threads may take of a period; only version 1 has it


UNKNOWN = Cgroup(None, None, None, None, None)


def cgroup_read(host: Host) -> Cgroup:
    mounts = [line.split() for line in (host.text("/proc/self/mounts") or "").splitlines()]
    found = _folders_find(host, mounts, version=1) or _folders_find(host, mounts, version=2)
    if found is None:
        return UNKNOWN
    version, folders = found
    limits = [limit for limit in (_limit_read(host, folder, version) for folder in folders) if limit is not None]
    return Cgroup(
        version=version,
        limited=bool(limits),
        cpus_limit=min(limits, default=None),
        throttled_periods=_throttled_read(host, folders[0]),
        rt_runtime_us=host.integer(f"{folders[0]}/cpu.rt_runtime_us"),
    )


def _folders_find(host: Host, mounts: list[list[str]], version: int) -> tuple[int, list[str]] | None:
    """Ours and those above it, ours first. In a container the path may be one of the outside, which is not there."""
    path = next(_paths_ours(host, version), None)
    mount = next((words[1] for words in mounts if len(words) > 3 and _is_mount(words, version)), None)
    if path is None or mount is None:
        return None
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        parts = []
    folders = ["/".join([mount, *parts[:count]]) for count in range(len(parts), -1, -1)]
    there = [folder for folder in folders if host.exists(folder)]
    return (version, there) if there else None


def _paths_ours(host: Host, version: int) -> Iterator[str]:
    for line in (host.text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
        if path and (not controllers if version == 2 else "cpu" in controllers.split(",")):
            yield path


def _is_mount(words: list[str], version: int) -> bool:
    return words[2] == "cgroup2" if version == 2 else words[2] == "cgroup" and "cpu" in words[3].split(",")


def _limit_read(host: Host, folder: str, version: int) -> float | None:
    if version == 2:
        quota, _, period = (host.line(f"{folder}/cpu.max") or "").partition(" ")
    else:
        quota, period = (host.line(f"{folder}/cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    granted, of = integer_read(quota), integer_read(period)
    return granted / of if granted and of and granted > 0 else None


def _throttled_read(host: Host, folder: str) -> int | None:
    for line in (host.text(f"{folder}/cpu.stat") or "").splitlines():
        name, _, count = line.partition(" ")
        if name == "nr_throttled":
            return integer_read(count)
    return None
