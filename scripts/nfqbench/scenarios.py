# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of scenarios: TOML, in which unknown keys are refused."""

import itertools
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from . import paths
from .check import scenario_check
from .document import Node
from .errors import Refused, UsageError
from .network import KEYS
from .scenario import Factor, Mode, Scenario

T = TypeVar("T")

# Keys of a row that are Mode's fields, but for those that the program sets.
MODE_KEYS = tuple(field.name for field in fields(Mode) if field.name not in ("role", "levels"))
REQUIRED_KEYS = ("name", "label", "queue")


def scenario_load(path: Path) -> Scenario:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    try:
        return _scenario_parse(Node(document, str(path)))
    except Refused as error:
        raise UsageError(str(error)) from None


def scenario_find(name: str) -> Scenario:
    if name.endswith(".toml") or "/" in name:
        return scenario_load(Path(name))
    path = paths.SCENARIOS / f"{name}.toml"
    if not path.exists():
        raise UsageError(f"no scenario \"{name}\"; there are: {', '.join(scenario_names())}")
    return scenario_load(path)


def scenario_names() -> list[str]:
    return sorted(path.stem for path in paths.SCENARIOS.glob("*.toml"))


def _scenario_parse(root: Node) -> Scenario:
    root.only("name", "question", "proof", "baseline", "blocks", "sched", "pin", "cc", "together", "prepare", "compare",
              "published", "ping", "iperf", "udp", "factor", "design", "mode", *KEYS)  # fmt: skip
    root["ping"].only("count", "interval_ms")
    root["iperf"].only("seconds", "args")
    scenario = Scenario(
        name=root["name"].text(),
        question=_prose(root["question"]),
        topology=root["topology"].text(),
        baseline=root["baseline"].text(),
        sched=root["sched"].text(),
        cc=root["cc"].text(),
        ping_count=root["ping"]["count"].count(),
        ping_interval_ms=root["ping"]["interval_ms"].count(),
        iperf_seconds=root["iperf"]["seconds"].count(),
        iperf_args=root["iperf"]["args"].text(),
        modes=(*(_mode_parse(node) for node in root.get("mode") or ()), *_design_parse(root)),
        factors=tuple(_factor_parse(node) for node in root.get("factor") or ()),
        proof=_optional(root, "proof", _prose, ""),
        published=_optional(root, "published", _triples, ()),
        **_known(root, {"blocks": Node.count, "pin": Node.text, "together": Node.boolean}),
        **_known(root, {"prepare": _texts, "compare": _pairs}),
        **_known(root, {key: _reader(key) for key in KEYS if key != "topology"}),
        **_udp_parse(root.get("udp")),
    )
    scenario_check(scenario, root.source)
    return scenario


def _prose(node: Node) -> str:
    return " ".join(node.text().split())


def _known(node: Node, readers: dict[str, Callable[[Node], Any]]) -> dict[str, Any]:
    """Of the keys that are there the values."""
    values = {key: (node.get(key), read) for key, read in readers.items()}
    return {key: read(value) for key, (value, read) in values.items() if value}


def _optional(node: Node, key: str, read: Callable[[Node], T], default: T) -> T:
    value = node.get(key)
    return read(value) if value else default


def _reader(key: str) -> Callable[[Node], Any]:
    """By the type of the field of a row."""
    if key in ("queue", "gso", "may_drop", "aggregates"):
        return Node.boolean
    return Node.count if key in ("queues", "udp_pps", "family", "mtu", "gso_max") else Node.text


def _udp_parse(node: Node | None) -> dict[str, Any]:
    if node is None:
        return {}
    node.only("pps", "bytes", "segments")
    return {f"udp_{key}": node[key].count() for key in ("pps", "bytes", "segments")}


def _mode_parse(node: Node) -> Mode:
    node.only(*MODE_KEYS)
    for key in REQUIRED_KEYS:
        node[key]
    return _mode_make(_known(node, {key: _reader(key) for key in MODE_KEYS}))


def _mode_make(values: dict[str, Any]) -> Mode:
    values.setdefault("gso", None)
    return Mode(**values)


def _factor_parse(node: Node) -> Factor:
    node.only("name", "low", "high")
    return Factor(node["name"].text(), (node["low"]["label"].text(), node["high"]["label"].text()))


def _design_parse(root: Node) -> Iterator[Mode]:
    """A row for each combination of the levels of all factors. What levels say adds up, options of nfq-noop too."""
    factors = list(root.get("factor") or ())
    if not factors:
        return
    common = root.get("design") or Node({}, root.source, "design")
    common.only(*(key for key in MODE_KEYS if key not in ("name", "label")))
    for levels in itertools.product((0, 1), repeat=len(factors)):
        parts = [factor[("low", "high")[level]] for factor, level in zip(factors, levels)]
        yield _combination_make(common, parts, levels)


def _combination_make(common: Node, parts: list[Node], levels: tuple[int, ...]) -> Mode:
    keys = [key for key in MODE_KEYS if key not in ("name", "label")]
    values: dict[str, Any] = {"queue": True, **_known(common, {key: _reader(key) for key in keys})}
    noop = [values.pop("noop", "")]
    for part in parts:
        part.only("label", *keys)
        own = _known(part, {key: _reader(key) for key in keys})
        noop.append(own.pop("noop", ""))
        values.update(own)
    label = " ".join(part["label"].text() for part in parts)
    name = label.lower().replace(" ", "-")
    return _mode_make({**values, "noop": " ".join(filter(None, noop)), "name": name, "label": label, "levels": levels})


def _texts(node: Node) -> tuple[str, ...]:
    return tuple(item.text() for item in node)


def _pairs(node: Node) -> tuple[tuple[str, str], ...]:
    return tuple(_pair(item) for item in node)


def _triples(node: Node) -> tuple[tuple[str, str, str], ...]:
    return tuple(_triple(item) for item in node)


def _triple(node: Node) -> tuple[str, str, str]:
    texts = _texts(node)
    if len(texts) != 3:
        raise node.refuse("should be a reference and two of its rows")
    return texts[0], texts[1], texts[2]


def _pair(node: Node) -> tuple[str, str]:
    texts = _texts(node)
    if len(texts) != 2:
        raise node.refuse("should be a pair of modes")
    return texts[0], texts[1]
