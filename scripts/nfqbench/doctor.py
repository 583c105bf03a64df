# SPDX-License-Identifier: GPL-2.0-or-later
"""What is missing on this machine, all at once and with the remedy, before anything is measured."""

import os
import platform
import re
import socket
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .cell import namespaces_remove, prefix_ours
from .cgroup import cgroup_read
from .cpu import CPU, cpu_is_virtual, lscpu_read
from .errors import Refused
from .host import Host
from .kernel import settings_parse
from .privileges import ROOT_REMEDY, command_succeeds, realtime_remedy, sched_is_permitted, user_namespace_is_ours
from .scenario import Scenario

OK, MISSING, LIMITED = "ok", "missing", "limited"

TCP_CONGESTION = 13  # linux/tcp.h

# Without privileges net.core.rmem_max caps the socket buffer, of which a full packet of 64 KiB takes 64.5 KB: room for
# what TCP has in flight by default (net.ipv4.tcp_wmem: 4 MB), of which the kernel grants twice.
BUFFER_NEEDED = 4 << 20

# What a run does without, and what is missing then.
OPTIONAL = {"gnuplot": "no pictures without it"}

LOAD_IDLE = 0.5  # processes that run or wait for a CPU, on average of a minute


@dataclass(frozen=True)
class Finding:
    state: str
    what: str
    remedy: str = ""


def doctor_examine(scenario: Scenario) -> list[Finding]:
    """For the runs of a scenario."""
    findings = [*_tools_examine(), _noop_examine(), *_privileges_examine()]
    if os.geteuid() == 0:
        findings += _namespaces_examine()
        findings += [_sched_examine(scenario.sched), _congestion_examine(scenario.cc)]
    return [*findings, _queue_examine(), *_quiet_examine(Host())]


def findings_render(findings: list[Finding]) -> str:
    width = max(len(finding.what) for finding in findings)
    lines = []
    for finding in findings:
        head = f"{finding.state:8} {finding.what:{width}}  "
        lines += textwrap.wrap(head + finding.remedy, 100, subsequent_indent=" " * len(head))
    return "\n".join(lines) + "\n"


def run_is_possible(findings: list[Finding]) -> bool:
    return all(finding.state != MISSING for finding in findings)


def _tools_examine() -> Iterator[Finding]:
    try:
        done = subprocess.run(
            [paths.INSTALL_DEPS, "--list", "bench"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding(LIMITED, "tools", f"not examined: {paths.INSTALL_DEPS.name}: {error}")
        return
    missing = [line.partition("\t") for line in done.stdout.splitlines() if "\t" in line]
    for item, _, package in missing:
        remedy = f"install the package {package} (scripts/install-deps installs all)"
        state = LIMITED if item in OPTIONAL else MISSING
        yield Finding(state, item, f"{OPTIONAL[item]}: {remedy}" if item in OPTIONAL else remedy)
    if not missing and done.returncode == 0:
        yield Finding(OK, "tools and libraries")
    elif not missing:
        yield Finding(LIMITED, "tools", f"not examined: {(done.stderr.strip() or 'no message').splitlines()[-1]}")


def _noop_examine() -> Finding:
    noop = paths.noop_find()
    if noop is None:
        return Finding(MISSING, "nfq-noop", "build it: make")
    if not command_succeeds([noop, "-V"]):
        return Finding(MISSING, "nfq-noop", f"{noop} does not run: build it anew with make")
    return Finding(OK, "nfq-noop")


def _privileges_examine() -> Iterator[Finding]:
    if os.geteuid() != 0:
        yield Finding(MISSING, "privileges", ROOT_REMEDY)
        return
    if not user_namespace_is_ours():
        yield Finding(OK, "privileges")
        return
    yield Finding(LIMITED, "privileges", "root of a user namespace only; without these limits: sudo")
    granted = int(Path("/proc/sys/net/core/rmem_max").read_text(encoding="ascii"))
    if granted < BUFFER_NEEDED:
        remedy = f"{granted} bytes at most: packets will be dropped; sudo, or sysctl net.core.rmem_max={BUFFER_NEEDED}"
        yield Finding(LIMITED, "socket buffer", remedy)


def _namespaces_examine() -> Iterator[Finding]:
    if not command_succeeds(["unshare", "--net", "true"]):
        yield Finding(MISSING, "network namespaces", "needs CAP_SYS_ADMIN (in a container too) and CONFIG_NET_NS")
        return
    yield Finding(OK, "network namespaces")
    if not command_succeeds(["unshare", "--net", "ip", "link", "add", "type", "veth"]):
        yield Finding(MISSING, "veth", "needs CONFIG_VETH (module veth)")
        return
    yield Finding(OK, "veth")
    yield _topology_examine()


def _topology_examine() -> Finding:
    """Builds what a run builds, since only that proves that it can be built."""
    prefix = prefix_ours()
    try:
        up = _netns_run("up", "--quiet", prefix=prefix)
        if up.returncode != 0:
            return Finding(MISSING, "queue rule", (up.stderr.strip() or "no message").splitlines()[-1])
        status = settings_parse(_netns_run("status", prefix=prefix).stdout, "netns.sh status")
        return Finding(OK, "queue rule", f"by {status['backend']}")
    except (OSError, subprocess.TimeoutExpired, Refused) as error:
        return Finding(MISSING, "queue rule", str(error))
    finally:
        namespaces_remove(prefix)


def _netns_run(command: str, *options: str, prefix: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [paths.NETNS, command, "--prefix", prefix, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace", timeout=120, check=False,
    )  # fmt: skip


def _queue_examine() -> Finding:
    """The module is loaded on first use, so a missing file alone proves nothing."""
    if os.path.exists("/proc/net/netfilter/nfnetlink_queue") or command_succeeds(["modinfo", "nfnetlink_queue"]):
        return Finding(OK, "nfnetlink_queue")
    return Finding(MISSING, "nfnetlink_queue", "a kernel with CONFIG_NETFILTER_NETLINK_QUEUE (module nfnetlink_queue)")


def _sched_examine(sched: str) -> Finding:
    if sched_is_permitted(sched):
        return Finding(OK, f"scheduling {sched}")
    return Finding(LIMITED, f"scheduling {sched}", f"runs use SCHED_OTHER; {realtime_remedy()}")


def _congestion_examine(name: str) -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, name.encode())
        except OSError:
            remedy = f"a kernel with CONFIG_TCP_CONG_{name.upper()} (module tcp_{name})"
            return Finding(MISSING, f"congestion control {name}", remedy)
    return Finding(OK, f"congestion control {name}")


def _quiet_examine(host: Host) -> Iterator[Finding]:
    """What does not forbid a run, but makes its figures worse or those of something else. Nothing is said if all is
    well."""
    load = (host.line("/proc/loadavg") or "").partition(" ")[0]
    if re.fullmatch(r"\d+\.\d+", load) and float(load) > LOAD_IDLE:
        yield Finding(LIMITED, "not idle", f"a load of {load} over the last minute: end what else runs, or wait")
    governors = host.distinct(f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor") or ()
    sleepy = [name for name in governors if name != "performance"]
    if sleepy:
        remedy = "figures of a sleeping CPU; cpupower frequency-set -g performance"
        yield Finding(LIMITED, f"governor {', '.join(sleepy)}", remedy)
    if cpu_is_virtual(platform.machine(), lscpu_read(host)):
        yield Finding(LIMITED, "virtual machine", f"{_stolen_format(host)}compare ratios only, and many blocks")
    yield from _cgroup_examine(host)


def _stolen_format(host: Host) -> str:
    """By the first line of /proc/stat, in which the eighth figure is what the hypervisor gave to others."""
    words = (host.line("/proc/stat") or "").split()[1:9]
    ticks = [int(word) for word in words if word.isdecimal()]
    if len(ticks) < 8 or not sum(ticks):
        return ""
    return f"others took {100 * ticks[7] / sum(ticks):.1f} % of its CPU time since it came up; "


def _cgroup_examine(host: Host) -> Iterator[Finding]:
    cgroup = cgroup_read(host)
    if cgroup.cpus_limit is not None:
        remedy = f"{cgroup.cpus_limit:g} CPUs by our control group: it stops us in between; run outside of it"
        yield Finding(LIMITED, "CPU time", remedy)
    if cgroup.rt_runtime_us == 0:
        remedy = "none for our control group (RT_GROUP_SCHED): echo 900000 into its cpu.rt_runtime_us"
        yield Finding(LIMITED, "real-time budget", remedy)
