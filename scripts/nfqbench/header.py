# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands over a table: what was measured, where, and under which conditions. Of older runs less is known."""

from collections.abc import Callable

from .document import Node
from .grid import text_wrap


def header_lines(meta: Node) -> list[str]:
    return [line for text in (_measured(meta), _machine(meta), _conditions(meta)) for line in text_wrap(text)]


def _measured(meta: Node) -> str:
    scenario = meta["scenario"]
    family, gso_max = scenario.get("family"), scenario.get("gso_max")
    text = f"{scenario['name'].text()}: {_network(scenario, family.count() if family else 4)}"
    if gso_max and gso_max.count():
        text += f", gso_max {gso_max.count()}"
    if scenario["ping_count"].count():
        text += f"; ping -c {scenario['ping_count'].count()} -i {scenario['ping_interval_ms'].count() / 1000:g}"
    if scenario["iperf_seconds"].count():
        together = scenario.get("together")
        text += " during" if together and together.boolean() else ";"
        text += f" {_load(scenario)}"
    return f"{text}; blocks {meta['blocks'].count()}{_limit(meta)}, seed {meta['seed'].integer()}"


def _network(scenario: Node, family: int) -> str:
    """As the rows have it: those that differ are told by their labels."""
    modes = list(scenario["modes"])
    topologies = _of_rows(modes, "topology", Node.text, scenario["topology"].text())
    families = _of_rows(modes, "family", lambda node: str(node.count()), str(family))
    return f"{' and '.join(sorted(topologies))}, IPv{' and IPv'.join(sorted(families))}"


def _load(scenario: Node) -> str:
    seconds, size = scenario["iperf_seconds"].count(), scenario.get("udp_bytes")
    if size and size.count():
        return f"nfq-udp -t {seconds} -l {size.count()} -g {scenario['udp_segments'].count()}, rate per row"
    return f"iperf3 -t {seconds} -C {scenario['cc'].text()}{_iperf_args(scenario)}"


def _limit(meta: Node) -> str:
    precision = meta.get("precision")
    if not precision:
        return ""
    most = meta["scenario"]["blocks"].count()
    return f" of at most {most} (until ratios are known to {100 * precision.number():g} %)"


def _iperf_args(scenario: Node) -> str:
    arguments = _of_rows(list(scenario["modes"]), "iperf_args", Node.text, scenario["iperf_args"].text())
    return f" {arguments.pop()}".rstrip() if len(arguments) == 1 else " and more, per row"


def _machine(meta: Node) -> str:
    machine = meta["machine"]
    text = f"{meta['started'].text()}, host \"{meta['host'].text()}\": {machine['cpu'].text()}, "
    emulated = meta.get("emulated")
    if emulated and emulated.boolean():
        return f"{text}EMULATED machine, Linux {machine['kernel']['release'].text()}"
    return f"{text}{machine['cpus'].count()} CPUs{_virtual(machine)}, Linux {machine['kernel']['release'].text()}"


def _virtual(machine: Node) -> str:
    hypervisor, virtualized = machine.get("hypervisor"), machine.get("virtualized")
    if hypervisor:
        return f", virtualized ({hypervisor.text()})"
    return ", virtualized" if virtualized and virtualized.boolean() else ""


def _conditions(meta: Node) -> str:
    parts = [f"{meta['processor'].text()}, {_sched(meta)}", *_placement(meta)]
    backend = meta.get("backend")
    if backend:
        parts.append(f"rules by {backend.text()}")
    return "; ".join(parts)


def _sched(meta: Node) -> str:
    queued = [mode for mode in meta["scenario"]["modes"] if mode["queue"].boolean()]
    scheds = _of_rows(queued, "sched", Node.text, meta["sched"]["in_force"].text())
    if len(scheds) > 1:
        return "scheduling per row"
    policy, _, priority = (scheds.pop() if scheds else "inherit").partition(":")
    return f"SCHED_{policy.upper()} {priority}".rstrip() if policy != "inherit" else "scheduling inherited"


def _placement(meta: Node) -> list[str]:
    modes, whole = list(meta["scenario"]["modes"]), meta.get("pin")
    pins = _of_rows(modes, "pin", Node.text, whole.text() if whole else "")
    steered = _of_rows(modes, "rps", Node.text, "")
    parts = []
    if pins != {""}:
        parts.append(f"pinned {pins.pop()}" if len(pins) == 1 else "pinned per row")
    if steered != {""}:
        parts.append(f"RPS {steered.pop()}" if len(steered) == 1 else "RPS per row")
    return parts


def _of_rows(modes: list[Node], key: str, read: Callable[[Node], str], default: str) -> set[str]:
    """What holds for the rows: their own or the default."""
    own = [mode.get(key) for mode in modes]
    return {read(node) if node else default for node in own}
