# SPDX-License-Identifier: GPL-2.0-or-later
"""Other programs in the place of nfq-noop, in any scenario.

Rows that differ only in what nfq-noop is told are one row to another program: it stands in each place once. What it
does about GSO is its own affair, and nothing is claimed.
"""

from collections.abc import Sequence
from dataclasses import astuple, replace
from itertools import pairwise
from pathlib import Path

from .errors import UsageError
from .scenario import LABEL_LENGTH, Mode, Scenario

NOOP = "nfq-noop"  # the word for the program that is replaced, to be measured beside others


def processors_replace(scenario: Scenario, commands: Sequence[str]) -> Scenario:
    """Several programs are compared, each with the one before it."""
    for command in commands:
        if command != NOOP and "{queue}" not in command:
            raise UsageError(f"--processor \"{command}\": has no {{queue}}, which becomes the number of the queue")
    if len(set(commands)) < len(commands):
        raise UsageError("--processor: the same program twice")
    unqueued = [mode for mode in scenario.modes if not mode.queue]
    rows = [_rows_make(place, commands, len(places)) for places in [_places(scenario)] for place in places]
    names = {mode.name for mode in unqueued}
    return replace(
        scenario,
        modes=(*unqueued, *(row for place in rows for row in place)),
        factors=(),
        prepare=scenario.prepare if any("{work}" in command for command in commands) else (),
        compare=(
            *(pair for pair in scenario.compare if set(pair) <= names),
            *((later.name, earlier.name) for place in rows for earlier, later in pairwise(place)),
        ),
    )


def _places(scenario: Scenario) -> list[list[Mode]]:
    """Rows with a queue, by everything but the processor."""
    places: dict[tuple[object, ...], list[Mode]] = {}
    for mode in scenario.modes:
        if mode.queue:
            places.setdefault(astuple(_bare(mode)), []).append(mode)
    return list(places.values())


def _bare(mode: Mode) -> Mode:
    return replace(mode, name="", label="", noop="", processor="", may_drop=False, gso=None, place="", levels=())


def _rows_make(place: list[Mode], commands: Sequence[str], places: int) -> list[Mode]:
    return [_row_make(place, command, *_names(place, command, commands, places)) for command in commands]


def _row_make(place: list[Mode], command: str, name: str, label: str) -> Mode:
    if command == NOOP:
        floor = next((mode for mode in place if not mode.processor and "--no-gso" not in mode.noop), place[0])
        return replace(floor, name=name, label=label, levels=())
    return replace(_bare(place[0]), name=name, label=label, processor=command, place=place[0].place)


def _names(place: list[Mode], command: str, commands: Sequence[str], places: int) -> tuple[str, str]:
    """Name and label of a row."""
    program = Path(command.split()[0]).name
    number = "" if len(commands) == 1 else str(commands.index(command) + 1)
    if places == 1:
        return f"processor{number}", program[:LABEL_LENGTH]
    where = place[0].place or place[0].label
    label = where if len(commands) == 1 else f"{program}: {where}"
    return f"{place[0].name[:28]}-processor{number}", label[:LABEL_LENGTH]
