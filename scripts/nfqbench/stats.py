# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics over blocks, small samples: Student's t, paired ratios on the logarithmic scale.

The quantile comes from the finite series of Student's distribution for an integer number of degrees of freedom
(Abramowitz and Stegun, 26.7.3 and 26.7.4), inverted by bisection: exact, and short enough to be checked by hand.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Interval = tuple[float, float]


@dataclass(frozen=True)
class Ratio:
    ratio: float
    ci95: Interval | None


def t_probability(t: float, degrees: int) -> float:
    """P(|T| <= t)."""
    theta = math.atan(t / math.sqrt(degrees))
    if degrees == 1:
        return 2 * theta / math.pi
    cosine_squared = math.cos(theta) ** 2
    odd = degrees % 2
    term = math.cos(theta) if odd else 1.0
    total = term
    for k in range(2 + odd, degrees - 1, 2):
        term *= cosine_squared * (k - 1) / k
        total += term
    if odd:
        return 2 / math.pi * (theta + math.sin(theta) * total)
    return math.sin(theta) * total


def t_quantile(degrees: int, probability: float = 0.95) -> float:
    """The t for which P(|T| <= t) is `probability`."""
    low, high = 0.0, 1.0
    while t_probability(high, degrees) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if t_probability(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return high


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The 95 % interval of the mean; None from a single value, which tells nothing about the next one."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    half = t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def deviation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def paired_ratio(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """The geometric mean of value/baseline over (value, baseline) pairs of one block each, and its interval."""
    if not pairs:
        return None
    logs = [math.log(value / baseline) for value, baseline in pairs]
    interval = mean_interval(logs)
    ci95 = None if interval is None else (math.exp(interval[0]), math.exp(interval[1]))
    return Ratio(math.exp(statistics.fmean(logs)), ci95)


def percentile(values: Sequence[float], fraction: float) -> float:
    """Linear between the closest ranks, so that 0 is the least and 1 the greatest value."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
