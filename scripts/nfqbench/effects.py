# SPDX-License-Identifier: GPL-2.0-or-later
"""What each factor of a full design does, and whether that depends on another factor.

All combinations of two levels of each factor are measured in every block. The effect of a factor is the ratio of the
geometric means of the rows in which it is high and of those in which it is low, whatever the other factors are: every
row counts for every effect, which is why so few blocks tell so much. An interaction of two is the ratio of the effect
that one has where the other is high to the effect that it has where the other is low, to the power of a half: 1 if
neither minds the other.

Ratios are made within blocks, in which all rows of the design are valid, and then stated over blocks as others are. Of
twenty effects that do not exist, one has an interval without 1; the noise floor is a second hurdle.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .record import Cell
from .scenario import Mode, Scenario
from .stats import Ratio, paired_ratio, statement_make

ORDER = 2  # factors that an interaction has at most
Figure = Callable[[Cell], float | None]


@dataclass(frozen=True)
class Effect:
    label: str  # "GSO: on / off", or "GSO x wait"
    factors: tuple[str, ...]
    gbps: Ratio | None
    rtt: Ratio | None
    gbps_says: str | None
    rtt_says: str | None


def effects_make(
    scenario: Scenario, valid: Mapping[str, Sequence[Cell]], rtt_floor: float | None, gbps_floor: float | None
) -> tuple[Effect, ...]:
    """Empty if the scenario is no design. `valid` holds the valid cells of each row."""
    rows = [mode for mode in scenario.modes if mode.levels]
    effects = []
    for order in range(1, ORDER + 1 if rows else 1):
        for places in itertools.combinations(range(len(scenario.factors)), order):
            gbps, rtt = (paired_ratio(_contrasts(rows, valid, places, figure)) for figure in (_gbps_of, _rtt_of))
            effects.append(Effect(
                label=_label_make(scenario, places),
                factors=tuple(scenario.factors[place].name for place in places),
                gbps=gbps, rtt=rtt,
                gbps_says=statement_make(gbps, gbps_floor, more_is_faster=True),
                rtt_says=statement_make(rtt, rtt_floor, more_is_faster=False),
            ))  # fmt: skip
    return tuple(effects)


def _label_make(scenario: Scenario, places: Sequence[int]) -> str:
    factors = [scenario.factors[place] for place in places]
    if len(factors) > 1:
        return " x ".join(factor.name for factor in factors)
    low, high = factors[0].levels
    return f"{factors[0].name}: {high} / {low}"


def _gbps_of(cell: Cell) -> float | None:
    return cell.gbps


def _rtt_of(cell: Cell) -> float | None:
    return cell.rtt_us.mean if cell.rtt_us else None


def _contrasts(
    rows: Sequence[Mode], valid: Mapping[str, Sequence[Cell]], places: Sequence[int], figure: Figure
) -> list[tuple[float, float]]:
    """Of each complete block the geometric means of the figures on both sides of the contrast."""
    figures = {mode.name: {cell.block: figure(cell) for cell in valid[mode.name]} for mode in rows}
    blocks = set.intersection(*(set(known) for known in figures.values())) if rows else set()
    return [pair for block in sorted(blocks) if (pair := _contrast(rows, figures, places, block))]


def _contrast(
    rows: Sequence[Mode], figures: Mapping[str, Mapping[int, float | None]], places: Sequence[int], block: int
) -> tuple[float, float] | None:
    sides: tuple[list[float], list[float]] = ([], [])
    for mode in rows:
        value = figures[mode.name][block]
        if not value:
            return None
        lows = sum(1 - mode.levels[place] for place in places)
        sides[lows % 2].append(math.log(value))
    high, low = (math.exp(sum(side) / len(side)) for side in sides)
    return high, low
