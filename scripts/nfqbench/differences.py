# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between two runs in all that a result depends on. Unknown is not the same as equal, and is said."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from .document import Node
from .scenario import Mode, Scenario
from .store import Run

# What each run has of its own, and what is shown elsewhere.
INCIDENTAL = frozenset({"thermal_throttles", "cgroup.throttled_periods", "memory_bytes"})
SCENARIO_OTHER = frozenset({"question", "modes", "compare"})
DEEPEST = 5  # a machine is described by nested objects, but by no deeper ones

# Objects whose keys are there only if there is something to tell, and what it means if they are not.
SPARSE = {"kernel.command_line.": "not given", "mitigations.": "not told"}
NAMED_AT_MOST = 3  # of one object; of more only the number is told

ABSENT = object()  # older versions did not ask; None is what could not be known

Leaves = dict[str, object]


def differences_find(a: Run, b: Run) -> Iterator[str]:
    """A line each, "what: A | B"; and what only one of them has recorded in one line more."""
    unrecorded: dict[str, list[str]] = {"A": [], "B": []}
    yield from _leaves_differ(_machine_leaves(a), _machine_leaves(b), unrecorded)
    tools_a, tools_b = (_leaves(run.meta.get("tools"), "tools.") for run in (a, b))
    yield from _leaves_differ(tools_a, tools_b, unrecorded)
    yield from _leaves_differ(_settings(a), _settings(b), unrecorded)
    yield from _rows_differ(a.scenario, b.scenario)
    yield from _offloads_differ(a, b)
    for title, names in unrecorded.items():
        if names:
            yield f"not recorded by {title}: {', '.join(_names_shorten(names))}"


def _leaves_differ(a: Leaves, b: Leaves, unrecorded: dict[str, list[str]]) -> Iterator[str]:
    for name in dict.fromkeys([*a, *b]):
        values = _value_in(a, name), _value_in(b, name)
        if ABSENT in values:
            if not name.endswith("."):
                unrecorded["A" if values[0] is ABSENT else "B"].append(name)
        elif values[0] != values[1]:
            yield f"{name}: {_text(values[0])} | {_text(values[1])}"


def _value_in(leaves: Leaves, name: str) -> object:
    parent = next((parent for parent in SPARSE if name.startswith(parent) and parent in leaves), None)
    return leaves.get(name, SPARSE[parent] if parent else ABSENT)


def _names_shorten(names: Sequence[str]) -> Iterator[str]:
    objects: dict[str, list[str]] = {}
    for name in names:
        objects.setdefault(name.partition(".")[0], []).append(name)
    for parent, inside in objects.items():
        yield from inside if len(inside) <= NAMED_AT_MOST else [f"{parent} ({len(inside)} values)"]


def _text(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "none"


def _machine_leaves(run: Run) -> Leaves:
    machine = run.meta.get("machine")
    leaves = {name: value for name, value in _leaves(machine).items() if name not in INCIDENTAL}
    memory = machine.get("memory_bytes") if machine else None
    leaves["memory"] = f"{memory.count() / 2**30:.1f} GiB" if memory else None
    return leaves


def _leaves(node: Node | None, prefix: str = "") -> Leaves:
    """Named by their paths, lists as one text. An object itself is there with a dot, and empty."""
    if node is None:
        return {}
    _depth_check(node, DEEPEST)
    leaves: Leaves = {}
    for key in node.mapping():
        name = f"{prefix}{Node(key, node.source, 'a key').text()}"
        child = node.get(key)
        if child is not None and isinstance(child.value, dict):
            leaves[f"{name}."] = ""
            leaves.update(_leaves(child, f"{name}."))
        else:
            leaves[name] = _leaf(child)
    return leaves


def _depth_check(node: Node, deepest: int) -> None:
    if deepest == 0:
        raise node.refuse("is nested too deeply")
    if isinstance(node.value, dict):
        for key in node.mapping():
            child = node.get(key)
            if child is not None:
                _depth_check(child, deepest - 1)


def _leaf(node: Node | None) -> object:
    if node is None:
        return None
    if isinstance(node.value, list):
        return ", ".join(str(_leaf(item)) for item in node) if _is_flat(node.value) else "a list of lists"
    if isinstance(node.value, (bool, int)):
        return node.value
    return node.number() if isinstance(node.value, float) else node.text()


def _is_flat(values: list[object]) -> bool:
    return not any(isinstance(value, (list, dict)) for value in values)


def _settings(run: Run) -> Leaves:
    """Of the whole run; what a setting was before it existed is its default."""
    scenario, meta = run.scenario, run.meta
    leaves: Leaves = {
        f"scenario {field.name}": _setting(getattr(scenario, field.name))
        for field in fields(Scenario) if field.name not in SCENARIO_OTHER
    }  # fmt: skip
    leaves["scenario blocks"] = meta["blocks"].count()
    for name in ("version", "processor", "root", "backend"):
        leaves[name] = _leaf(meta.get(name))
    sched = meta.get("sched")
    leaves["scheduling in force"] = _leaf(sched.get("in_force")) if sched else None
    return leaves


def _setting(value: object) -> object:
    return "; ".join(map(str, value)) if isinstance(value, tuple) else value


def _rows_differ(a: Scenario, b: Scenario) -> Iterator[str]:
    """Rows of one name that are not the same measurement."""
    modes_b = {mode.name: mode for mode in b.modes}
    for mode in a.modes:
        other = modes_b.get(mode.name)
        for field in fields(Mode) if other else ():
            values = getattr(mode, field.name), getattr(other, field.name)
            if values[0] != values[1]:
                texts = [_row_text(value) for value in values]
                yield f"row \"{mode.name}\", {field.name}: {' | '.join(texts)}"


def _row_text(value: object) -> str:
    return "as the scenario says" if value is None else _text(value)


def _offloads_differ(a: Run, b: Run) -> Iterator[str]:
    """One line for all devices that differ alike."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    offloads_a, offloads_b = _offloads(a), _offloads(b)
    for device in sorted(offloads_a.keys() & offloads_b.keys()):
        ours, theirs = offloads_a[device], offloads_b[device]
        for feature in sorted(ours.keys() | theirs.keys()):
            states = _text(ours.get(feature)), _text(theirs.get(feature))
            if states[0] != states[1]:
                alike.setdefault((feature, *states), []).append(device)
    for (feature, state_a, state_b), devices in alike.items():
        yield f"offload {feature} of {', '.join(devices)}: {state_a} | {state_b}"
    if offloads_a.keys() != offloads_b.keys():
        yield f"devices: {', '.join(sorted(offloads_a)) or 'unknown'} | {', '.join(sorted(offloads_b)) or 'unknown'}"


def _offloads(run: Run) -> Mapping[str, Leaves]:
    node = run.meta.get("offloads")
    found: dict[str, Leaves] = {}
    for device in node.mapping() if node else ():
        name = Node(device, run.meta.source, "a device").text()
        found[name] = _leaves(node.get(device) if node else None)
    return found
