# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result depends on: processor, kernel, its settings, the tools. No name, address or path of anybody, unless
that is asked for.
"""

import os
import platform
import pwd
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict

from .cgroup import cgroup_read
from .cpu import (
    cpu_is_virtual, cpu_model, frequency_describe, idle_describe, lscpu_read, mitigations_describe, throttles_count,
    topology_describe,
)  # fmt: skip
from .document import document_parse
from .errors import Refused
from .host import Host, integer_read
from .kernelconfig import kernel_describe
from .record import Json

SYSCTLS = (
    "kernel.sched_rt_runtime_us", "kernel.sched_rt_period_us", "net.core.rmem_max", "net.core.wmem_max",
    "net.core.netdev_max_backlog", "net.core.netdev_budget", "net.core.busy_read", "net.core.default_qdisc",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control", "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled", "kernel.sched_rr_timeslice_ms", "kernel.timer_migration", "kernel.watchdog",
    "net.core.bpf_jit_enable", "net.core.bpf_jit_harden", "net.core.busy_poll", "net.core.dev_weight",
    "net.core.dev_weight_rx_bias", "net.core.dev_weight_tx_bias", "net.core.flow_limit_cpu_bitmap",
    "net.core.gro_normal_batch", "net.core.high_order_alloc_disable", "net.core.netdev_budget_usecs",
    "net.core.netdev_tstamp_prequeue", "net.core.optmem_max", "net.core.rmem_default", "net.core.rps_default_mask",
    "net.core.rps_sock_flow_entries", "net.core.skb_defer_max", "net.core.wmem_default",
)  # fmt: skip

# A namespace that is made anew has some of these from the kernel, and some from its first namespace.
SYSCTLS_OF_NAMESPACES = (
    "net.bridge.bridge-nf-call-iptables", "net.ipv4.ip_early_demux", "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_backlog_ack_defer", "net.ipv4.tcp_early_demux", "net.ipv4.tcp_ecn", "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_min_tso_segs", "net.ipv4.tcp_moderate_rcvbuf", "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_notsent_lowat", "net.ipv4.tcp_recovery", "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack", "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_tso_rtt_log",
    "net.ipv4.tcp_tso_win_divisor", "net.ipv4.tcp_window_scaling", "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_checksum", "net.netfilter.nf_hooks_lwtunnel",
)  # fmt: skip

TOOLS = {
    "ping": ["ping", "-V"],
    "iperf3": ["iperf3", "--version"],
    "iproute2": ["ip", "-V"],
    "ss": ["ss", "-V"],
    "tc": ["tc", "-V"],
    "iptables": ["iptables", "--version"],
    "nft": ["nft", "--version"],
    "ethtool": ["ethtool", "--version"],
    "gnuplot": ["gnuplot", "--version"],
    "bash": ["bash", "--version"],
}

DMI = (
    "sys_vendor", "product_name", "product_version", "board_vendor", "board_name", "bios_vendor", "bios_version",
    "bios_date",
)  # fmt: skip

LABEL_LENGTH = 40


def machine_describe(host: Host = Host()) -> Json:
    lscpu, architecture = lscpu_read(host), platform.machine()
    return {
        "cpu": cpu_model(host, lscpu) or architecture,
        "cpu_vendor": lscpu.get("Vendor ID"),
        "cpus": len(os.sched_getaffinity(0)),
        "architecture": architecture,
        "threads_per_core": integer_read(lscpu.get("Thread(s) per core")),
        "topology": topology_describe(host),
        "virtualized": cpu_is_virtual(architecture, lscpu),
        "hypervisor": lscpu.get("Hypervisor vendor"),
        "virtualization": _virtualization(host, "vm"),
        "container": _virtualization(host, "container"),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "transparent_hugepages": _chosen(host.text("/sys/kernel/mm/transparent_hugepage/enabled")),
        "distribution": _distribution(host),
        "kernel": kernel_describe(host),
        "governor": host.line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "frequency": frequency_describe(host),
        "idle": idle_describe(host),
        "thermal_throttles": throttles_count(host),
        "cgroup": asdict(cgroup_read(host)),
        "clocksource": host.line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "mitigations": mitigations_describe(host),
        "sysctls": {name: host.line(_sysctl_path(name)) for name in SYSCTLS},
        "namespace_sysctls": _namespace_sysctls(host),
    }


def machine_extended(host: Host = Host()) -> Json:
    """What identifies a machine, its owner and its network."""
    return {
        "host": host.line("/proc/sys/kernel/hostname") or platform.node(),
        "uname": " ".join(os.uname()),
        "command_line": host.line("/proc/cmdline"),
        "dmi": {name: host.line(f"/sys/class/dmi/id/{name}") for name in DMI},
        "device_tree": (host.line("/proc/device-tree/model") or "").rstrip("\0") or None,
        "interfaces": [_interface_describe(host, path) for path in _interfaces_real(host)],
        "user": _user_name(),
    }


def tools_describe() -> Json:
    versions: Json = {name: version_read(command) for name, command in TOOLS.items()}
    return {**versions, "python": platform.python_version()}


def version_read(command: list[str]) -> str | None:
    """The first line that a program says about itself."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines else None


def machine_label(machine: Mapping[str, object]) -> str:
    """A name for a machine that names nobody, such as "intel-core-i7-8650u-x8"."""
    model, vendor, cpus = (str(machine.get(key) or "") for key in ("cpu", "cpu_vendor", "cpus"))
    model = re.sub(r"\((r|tm|c)\)|@.*|\bwith\b.*|\b(cpu|processor|\d+-core)\b", " ", model.lower())
    if vendor == "ARM":  # whose names are those of cores only
        model = f"arm {model}"
    words = re.sub(r"[^a-z0-9.]+", "-", model).strip("-.") or "cpu"
    number = f"-x{cpus}" if re.fullmatch(r"[0-9]{1,6}", cpus) else ""
    return words[: LABEL_LENGTH - len(number)].rstrip("-.") + number


def _virtualization(host: Host, kind: str) -> str | None:
    """As systemd tells it: "none" on the bare machine."""
    said = host.said(["systemd-detect-virt", f"--{kind}"])
    return said.strip() if said and re.fullmatch(r"[a-z0-9-]+\n", said) else None


def _distribution(host: Host) -> str | None:
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', host.text("/etc/os-release") or "", re.MULTILINE)
    return match[1] if match else None


def _chosen(text: str | None) -> str | None:
    """Of "always [madvise] never" the one in force."""
    match = re.search(r"\[(\w+)\]", text or "")
    return match[1] if match else None


def _sysctl_path(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "/")


def _namespace_sysctls(host: Host) -> Json | None:
    """Those of a network namespace made for this question."""
    said = host.said(["unshare", "--net", "sysctl", "-e", *SYSCTLS_OF_NAMESPACES]) or ""
    told = dict(re.findall(r"^([\w.-]+) = (.*)$", said, re.MULTILINE))
    if not told:
        return None
    return {name: " ".join(told[name].split()) if name in told else None for name in SYSCTLS_OF_NAMESPACES}


def _interfaces_real(host: Host) -> list[str]:
    """Those behind which there is a device."""
    return [path.rpartition("/")[0] for path in host.paths("/sys/class/net/*/device")]


def _interface_describe(host: Host, path: str) -> Json:
    name = path.rpartition("/")[2]
    driver = next((line[7:] for line in _lines(host, f"{path}/device/uevent") if line.startswith("DRIVER=")), None)
    return {"name": name, "driver": driver, "mac": host.line(f"{path}/address"), "addresses": _addresses(host, name)}


def _lines(host: Host, path: str) -> list[str]:
    return (host.text(path) or "").splitlines()


def _addresses(host: Host, name: str) -> list[str] | None:
    try:
        links = document_parse(host.said(["ip", "-j", "addr", "show", "dev", name]) or "", "ip")
        found = [info["local"].text() for link in links for info in link.get("addr_info") or () if info.get("local")]
    except Refused:
        return None
    return found


def _user_name() -> str | None:
    """Whoever called sudo, if it was used."""
    try:
        return os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
