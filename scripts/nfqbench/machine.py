# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result depends on: processor, kernel, its settings, the tools. No name, address or path of anybody."""

import gzip
import os
import platform
import re
import subprocess
from pathlib import Path

from .document import document_parse
from .errors import Refused
from .record import Json

SYSCTLS = (
    "kernel.sched_rt_runtime_us", "kernel.sched_rt_period_us", "net.core.rmem_max", "net.core.wmem_max",
    "net.core.netdev_max_backlog", "net.core.netdev_budget", "net.core.busy_read", "net.core.default_qdisc",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control",
)  # fmt: skip

TOOLS = {
    "ping": ["ping", "-V"],
    "iperf3": ["iperf3", "--version"],
    "iproute2": ["ip", "-V"],
    "iptables": ["iptables", "--version"],
    "nft": ["nft", "--version"],
    "ethtool": ["ethtool", "--version"],
}


def machine_describe() -> Json:
    cpu = _lscpu()
    return {
        "cpu": cpu.get("Model name") or cpu.get("Vendor ID") or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "threads_per_core": _integer(cpu.get("Thread(s) per core")),
        "virtualized": _virtualized(cpu),
        "hypervisor": cpu.get("Hypervisor vendor"),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "distribution": _distribution(),
        "kernel": {
            "release": platform.release(),
            "version": platform.version(),
            "preemption": _preemption(),
            "hz": _integer(_kernel_config().get("CONFIG_HZ")),
            "tainted": _integer(_read("/proc/sys/kernel/tainted")),
        },
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clocksource": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "mitigations": _mitigations(),
        "sysctls": {name: _read("/proc/sys/" + name.replace(".", "/")) for name in SYSCTLS},
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


def _read(path: str) -> str | None:
    try:
        return " ".join(Path(path).read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError):
        return None


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _lscpu() -> dict[str, str]:
    try:
        done = subprocess.run(
            ["lscpu", "-J"], capture_output=True, text=True, timeout=10, check=True, env={**os.environ, "LC_ALL": "C"}
        )
        fields: dict[str, str] = {}
        for entry in document_parse(done.stdout, "lscpu")["lscpu"]:
            _lscpu_collect(entry.mapping(), fields)
        return fields
    except (OSError, subprocess.SubprocessError, Refused):
        return {}


def _lscpu_collect(entry: dict[str, object], fields: dict[str, str]) -> None:
    """Newer versions nest their fields."""
    if entry.get("data"):
        fields[str(entry["field"]).rstrip(":")] = str(entry["data"])
    children = entry.get("children")
    for child in children if isinstance(children, list) else ():
        _lscpu_collect(child, fields)


def _virtualized(cpu: dict[str, str]) -> bool | None:
    """x86 says it in a flag; elsewhere only a known hypervisor is a proof."""
    if "Hypervisor vendor" in cpu or "hypervisor" in cpu.get("Flags", "").split():
        return True
    return False if platform.machine() in ("x86_64", "i686") and cpu.get("Flags") else None


def _distribution() -> str | None:
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', _text("/etc/os-release"), re.MULTILINE)
    return match[1] if match else None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _kernel_config() -> dict[str, str]:
    try:
        text = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode("utf-8", "replace")
    except OSError:
        text = _text(f"/boot/config-{platform.release()}")
    return dict(line.split("=", 1) for line in text.splitlines() if line.startswith("CONFIG_") and "=" in line)


def _preemption() -> str | None:
    """The mode in force if the kernel tells root, otherwise the one it was built with."""
    modes = re.search(r"\((\w+)\)", _text("/sys/kernel/debug/sched/preempt"))
    if modes:
        return modes[1]
    config = _kernel_config()
    known = ("PREEMPT_RT", "PREEMPT_LAZY", "PREEMPT", "PREEMPT_VOLUNTARY", "PREEMPT_NONE")
    built = next((name for name in known if config.get(f"CONFIG_{name}") == "y"), None)
    return f"built as {built}" if built else None


def _mitigations() -> dict[str, str | None]:
    """Of what the processor is affected by."""
    told = {path.name: _read(str(path)) for path in sorted(Path("/sys/devices/system/cpu/vulnerabilities").glob("*"))}
    return {name: state for name, state in told.items() if state != "Not affected"}
