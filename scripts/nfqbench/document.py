# SPDX-License-Identifier: GPL-2.0-or-later
"""Strict reading of JSON and TOML: a Node is a value that knows where it stands, so that a refusal can name it.

Refused are: text around the document, a second document, a cut one, NaN and Infinity, a key with two values, a
missing key, a value of another type.
"""

import json
import math
import types
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from .errors import Refused

T = TypeVar("T")


class Node:
    def __init__(self, value: object, source: str, path: str = "") -> None:
        self.value = value
        self.source = source
        self.path = path

    def refuse(self, why: str) -> Refused:
        return Refused(f"{self.source}: {self.path + ' ' if self.path else ''}{why}")

    def mapping(self) -> dict[str, object]:
        if not isinstance(self.value, dict):
            raise self.refuse("should be an object")
        return self.value

    def only(self, *known: str) -> None:
        """Refuses keys that are not known: a misspelt key must not be ignored."""
        for key in self.mapping():
            if key not in known:
                raise self.refuse(f"has an unknown key \"{key}\"; known: {', '.join(known)}")

    def get(self, key: str) -> "Node | None":
        """The value at `key`; None if it is missing or null."""
        value = self.mapping().get(key)
        return None if value is None else Node(value, self.source, f"{self.path}.{key}".lstrip("."))

    def __getitem__(self, key: str) -> "Node":
        node = self.get(key)
        if node is None:
            raise self.refuse(f"has no \"{key}\"")
        return node

    def __iter__(self) -> Iterator["Node"]:
        if not isinstance(self.value, (list, tuple)):
            raise self.refuse("should be a list")
        for index, value in enumerate(self.value):
            yield Node(value, self.source, f"{self.path}[{index}]")

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.refuse("should be text")
        if not self.value.replace("\n", "").replace("\t", "").isprintable():
            raise self.refuse("holds characters that do not belong on a terminal")
        return self.value

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.refuse("should be true or false")
        return self.value

    def integer(self) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.refuse("should be an integer")
        return self.value

    def count(self) -> int:
        number = self.integer()
        if number < 0:
            raise self.refuse(f"is {number}: a count cannot be negative")
        return number

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)) or not math.isfinite(self.value):
            raise self.refuse("should be a finite number")
        return float(self.value)


def value_read(node: Node, kind: Any) -> Any:
    """The value of type `kind` that dataclasses.asdict has written: dataclasses, tuples, dictionaries, None, plain
    values. A field that has a default may be missing: older runs know less."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is types.UnionType:
        inner = next(argument for argument in arguments if argument is not types.NoneType)
        return None if node.value is None else value_read(node, inner)
    if origin is tuple:
        return _tuple_read(node, arguments)
    if origin is dict:
        return {key: value_read(_child(node, key), arguments[1]) for key in node.mapping()}
    if is_dataclass(kind):
        return _dataclass_read(node, kind)
    readers = {str: Node.text, bool: Node.boolean, int: Node.integer, float: Node.number}
    return readers[kind](node)


def _child(node: Node, key: str) -> Node:
    return Node(node.mapping()[key], node.source, f"{node.path}.{key}".lstrip("."))


def _tuple_read(node: Node, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    items = list(node)
    if kinds[-1] is Ellipsis:
        return tuple(value_read(item, kinds[0]) for item in items)
    if len(items) != len(kinds):
        raise node.refuse(f"should have {len(kinds)} values")
    return tuple(value_read(item, kind) for item, kind in zip(items, kinds))


def _dataclass_read(node: Node, kind: Any) -> Any:
    hints, value = get_type_hints(kind), node.mapping()
    wanted = [field for field in fields(kind) if field.name in value or not _has_default(field)]
    missing = [field.name for field in wanted if field.name not in value]
    if missing:
        raise node.refuse(f"has no \"{missing[0]}\"")
    return kind(**{field.name: value_read(_child(node, field.name), hints[field.name]) for field in wanted})


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING


def document_parse(text: str, source: str) -> Node:
    if not text.strip():
        raise Refused(f"{source}: empty")
    try:
        value = json.loads(text, parse_constant=_constant_refuse, object_pairs_hook=_pairs_unique)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{source}: not one JSON document: {error}") from None
    return Node(value, source)


def documents_parse(text: str, source: str) -> list[Node]:
    """One document a line."""
    if not text.strip():
        raise Refused(f"{source}: empty")
    return [document_parse(line, f"{source}:{number}") for number, line in enumerate(text.splitlines(), start=1)]


def file_parse(folder: Path, name: str, parse: Callable[[str, str], T]) -> T:
    """Parses a file that is to be called `name` in refusals."""
    try:
        text = (folder / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Refused(f"{name}: not there") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{name}: cannot be read: {error}") from None
    return parse(text, name)


def _constant_refuse(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _pairs_unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """iperf3 -R repeats some keys with the same value; two values for one key are a contradiction."""
    result: dict[str, object] = {}
    for key, value in pairs:
        if result.setdefault(key, value) != value:
            raise ValueError(f"\"{key}\" is given twice, with different values")
    return result
