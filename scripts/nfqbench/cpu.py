# SPDX-License-Identifier: GPL-2.0-or-later
"""The processor: what it is, how fast it may run, how deep it may sleep, what it must be protected from."""

import re

from .document import Node, document_parse
from .errors import Refused
from .host import Host, integer_read
from .record import Json

CPU = "/sys/devices/system/cpu"


def lscpu_read(host: Host) -> dict[str, str]:
    try:
        fields: dict[str, str] = {}
        for entry in document_parse(host.said(["lscpu", "-J"]) or "", "lscpu")["lscpu"]:
            _lscpu_collect(entry, fields)
        return fields
    except Refused:
        return {}


def _lscpu_collect(entry: Node, fields: dict[str, str]) -> None:
    """Newer versions nest their fields."""
    data = entry.get("data")
    if data:
        fields[entry["field"].text().rstrip(":")] = data.text()
    for child in entry.get("children") or ():
        _lscpu_collect(child, fields)


def cpu_model(host: Host, lscpu: dict[str, str]) -> str | None:
    """lscpu knows what the numbers of ARM mean; others tell their names themselves."""
    match = re.search(r"^(?:model name|cpu model|uarch)\s*: (.+)", host.text("/proc/cpuinfo") or "", re.MULTILINE)
    return lscpu.get("Model name") or (match[1].strip() if match else None) or lscpu.get("Vendor ID")


def cpu_is_virtual(architecture: str, lscpu: dict[str, str]) -> bool | None:
    """x86 says it in a flag; elsewhere only a known hypervisor is a proof."""
    if "Hypervisor vendor" in lscpu or "hypervisor" in lscpu.get("Flags", "").split():
        return True
    return False if architecture in ("x86_64", "i686") and lscpu.get("Flags") else None


def topology_describe(host: Host) -> Json:
    nodes = host.paths("/sys/devices/system/node/node[0-9]*")
    threads = host.distinct(f"{CPU}/cpu[0-9]*/topology/thread_siblings_list")
    packages = host.distinct(f"{CPU}/cpu[0-9]*/topology/physical_package_id")
    return {
        "online": host.line(f"{CPU}/online"),
        "sockets": len(packages) if packages else None,
        "cores": len(threads) if threads else None,
        "numa_nodes": len(nodes) or None,
        "capacities": host.distinct(f"{CPU}/cpu[0-9]*/cpu_capacity"),  # more than one: cores of different kinds
        "caches": _caches_describe(host),
        "smt": host.line(f"{CPU}/smt/control"),
    }


def _caches_describe(host: Host) -> list[str] | None:
    """Of the first CPU, such as "L1 Data 32K"."""
    caches = []
    for path in host.paths(f"{CPU}/cpu0/cache/index[0-9]*"):
        level, kind, size = (host.line(f"{path}/{name}") for name in ("level", "type", "size"))
        if level and kind and size:
            caches.append(f"L{level} {kind} {size}")
    return caches or None


def frequency_describe(host: Host) -> Json:
    """All of it is unknown where the hypervisor keeps it to itself."""
    policy = f"{CPU}/cpu[0-9]*/cpufreq"
    return {
        "driver": host.line(f"{CPU}/cpu0/cpufreq/scaling_driver"),
        "status": host.line(f"{CPU}/intel_pstate/status") or host.line(f"{CPU}/amd_pstate/status"),
        "governors": host.distinct(f"{policy}/scaling_governor"),
        "preferences": host.distinct(f"{policy}/energy_performance_preference"),
        "lowest_khz": _extreme(host.distinct(f"{policy}/cpuinfo_min_freq"), first=True),
        "highest_khz": _extreme(host.distinct(f"{policy}/cpuinfo_max_freq"), first=False),
        "floor_khz": _extreme(host.distinct(f"{policy}/scaling_min_freq"), first=True),
        "ceiling_khz": _extreme(host.distinct(f"{policy}/scaling_max_freq"), first=False),
        "boost": _boost_read(host),
    }


def _extreme(texts: list[str] | None, first: bool) -> int | None:
    known = [number for number in map(integer_read, texts or ()) if number is not None]
    return (min if first else max)(known) if known else None


def _boost_read(host: Host) -> bool | None:
    """intel_pstate says it the other way round."""
    off = host.integer(f"{CPU}/intel_pstate/no_turbo")
    if off is not None:
        return off == 0
    boost = host.integer(f"{CPU}/cpufreq/boost")
    if boost is None:
        boost = host.integer(f"{CPU}/cpufreq/policy0/boost")
    return None if boost is None else boost != 0


def idle_describe(host: Host) -> Json:
    """Waking a CPU costs the exit latency of the state that it sleeps in."""
    driver = host.line(f"{CPU}/cpuidle/current_driver")
    governor = host.line(f"{CPU}/cpuidle/current_governor_ro") or host.line(f"{CPU}/cpuidle/current_governor")
    states = [_state_describe(host, path) for path in host.paths(f"{CPU}/cpu0/cpuidle/state[0-9]*")]
    return {"driver": driver, "governor": governor, "states": states or None}


def _state_describe(host: Host, path: str) -> str:
    name, latency, off = (host.line(f"{path}/{file}") for file in ("name", "latency", "disable"))
    return f"{name or 'unknown'} {latency or 'unknown'} us{' disabled' if off == '1' else ''}"


def mitigations_describe(host: Host) -> Json:
    """Of what the processor is affected by."""
    told = {path.rpartition("/")[2]: host.line(path) for path in host.paths(f"{CPU}/vulnerabilities/*")}
    return {name: state for name, state in sorted(told.items()) if state != "Not affected"}


def throttles_count(host: Host) -> int | None:
    """How often heat slowed a CPU down since the machine came up."""
    paths = host.paths(f"{CPU}/cpu[0-9]*/thermal_throttle/*_throttle_count")
    counts = [count for count in map(host.integer, paths) if count is not None]
    return sum(counts) if counts else None
