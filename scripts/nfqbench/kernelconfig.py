# SPDX-License-Identifier: GPL-2.0-or-later
"""How the kernel was built and told to behave: ticks, preemption, real time. Of its command line only what matters to
figures, for the rest may name disks and people."""

import gzip
import platform
import re

from .cpu import CPU
from .host import Host, integer_read
from .record import Json

COMMAND_LINE = frozenset(
    """
    amd_iommu amd_prefcore amd_pstate apparmor audit cgroup_disable cgroup_no_v1 clocksource
    cpufreq.default_governor cpufreq.off cpuidle.governor cpuidle.off cpuidle_haltpoll.force default_hugepagesz hpet
    hugepages hugepagesz idle init_on_alloc init_on_free intel_idle.max_cstate intel_iommu intel_pstate iommu
    iommu.passthrough iommu.strict irqaffinity isolcpus kpti l1tf maxcpus mds mitigations mmio_stale_data
    nmi_watchdog no_timer_check nohlt nohz nohz_full nopcid nopti nosmp nosmt nosoftlockup
    nospec_store_bypass_disable nospectre_v1 nospectre_v2 nowatchdog nr_cpus numa numa_balancing page_poison
    pcie_aspm preempt processor.max_cstate psi pti rcu_nocb_poll rcu_nocbs rcupdate.rcu_expedited
    rcupdate.rcu_normal retbleed rodata selinux skew_tick slab_debug slab_nomerge slub_debug spec_rstack_overflow
    spec_store_bypass_disable spectre_v2 spectre_v2_user srbds swiotlb threadirqs tick_broadcast
    transparent_hugepage tsc tsx tsx_async_abort workqueue.power_efficient
    """.split()
)
VALUE = re.compile(r"[A-Za-z0-9_.,:+-]{0,60}")

BUILT = ("PREEMPT_RT", "PREEMPT_LAZY", "PREEMPT", "PREEMPT_VOLUNTARY", "PREEMPT_NONE")

Config = dict[str, str]


def kernel_describe(host: Host) -> Json:
    config, line = config_read(host), command_line_read(host)
    version = host.line("/proc/sys/kernel/version") or platform.version()
    return {
        "release": release_read(host),
        "version": version,
        "preemption": _preemption(host, config, line),
        "preempt_dynamic": _built_with(config, "PREEMPT_DYNAMIC"),
        "preempt_rt": True if re.search(r"PREEMPT[_ ]RT", version) else _built_with(config, "PREEMPT_RT"),
        "hz": integer_read(config.get("CONFIG_HZ")),
        "no_hz_full": _built_with(config, "NO_HZ_FULL"),
        "rt_group_sched": _built_with(config, "RT_GROUP_SCHED"),
        "tainted": host.integer("/proc/sys/kernel/tainted"),
        "command_line": line,
        "isolated_cpus": _cpus(host.line(f"{CPU}/isolated")),
        "tickless_cpus": _cpus(host.line(f"{CPU}/nohz_full")),
    }


def release_read(host: Host) -> str:
    return host.line("/proc/sys/kernel/osrelease") or platform.release()


def config_read(host: Host) -> Config:
    """Empty if the kernel does not tell, and its distribution does not either."""
    packed = host.bytes("/proc/config.gz")
    try:
        text = gzip.decompress(packed).decode("utf-8", "replace") if packed else ""
    except (OSError, EOFError):
        text = ""
    text = text or host.text(f"/boot/config-{release_read(host)}") or ""
    return dict(line.split("=", 1) for line in text.splitlines() if line.startswith("CONFIG_") and "=" in line)


def command_line_read(host: Host) -> dict[str, str] | None:
    """A key may stand there more than once. What is behind "--" is for init."""
    line = host.line("/proc/cmdline")
    if line is None:
        return None
    known: dict[str, str] = {}
    for word in line.split(" -- ")[0].split():
        key, given, value = word.partition("=")
        if key in COMMAND_LINE:
            told = (value if VALUE.fullmatch(value) else "(not shown)") if given else "set"
            known[key] = f"{known[key]} {told}" if key in known else told
    return known


def _built_with(config: Config, name: str) -> bool | None:
    return config.get(f"CONFIG_{name}") == "y" if config else None


def _preemption(host: Host, config: Config, line: dict[str, str] | None) -> str | None:
    """The mode in force if the kernel tells root or was told, otherwise the one it was built with."""
    modes = re.search(r"\((\w+)\)", host.text("/sys/kernel/debug/sched/preempt") or "")
    if modes:
        return modes[1]
    if line and line.get("preempt") and config.get("CONFIG_PREEMPT_DYNAMIC") == "y":
        return line["preempt"]
    built = next((name for name in BUILT if config.get(f"CONFIG_{name}") == "y"), None)
    return f"built as {built}" if built else None


def _cpus(text: str | None) -> str | None:
    """The kernel prints a mask that is not there as "(null)"."""
    return "" if text == "(null)" else text
