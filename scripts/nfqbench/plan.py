# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of the cells. A machine drifts, so every block holds every mode once and only blocks are compared.

Blocks follow a Latin square: over as many blocks as there are modes, each mode stands once in each place. Which
square is drawn from the seed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .scenario import Mode


@dataclass(frozen=True)
class PlannedCell:
    block: int  # from 1
    position: int  # in the block, from 1
    mode: Mode

    @property
    def folder(self) -> str:
        return f"{self.block:02}-{self.position}-{self.mode.name}"


def plan_make(modes: Sequence[Mode], blocks: int, seed: int) -> list[PlannedCell]:
    generator = random.Random(seed)
    rows: list[list[Mode]] = []
    while len(rows) < blocks:
        rows.extend(_square_draw(modes, generator))
    return [
        PlannedCell(block, position, mode)
        for block, row in enumerate(rows[:blocks], start=1)
        for position, mode in enumerate(row, start=1)
    ]


def _square_draw(modes: Sequence[Mode], generator: random.Random) -> list[list[Mode]]:
    first = generator.sample(modes, len(modes))
    square = [[*first[shift:], *first[:shift]] for shift in range(len(first))]
    generator.shuffle(square)
    return square
