# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics over blocks: paired ratios on the logarithmic scale, their intervals, and what may be said of them.

Few blocks: Student's t. Many: the bootstrap, which asks nothing of the shape of the distribution; it draws from a fixed
seed, so that the same blocks give the same interval.

The quantile comes from the finite series of Student's distribution for an integer number of degrees of freedom
(Abramowitz and Stegun, 26.7.3 and 26.7.4), inverted by bisection: exact, and short enough to be checked by hand.
"""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Interval = tuple[float, float]

MANY = 20  # values from which on the bootstrap is used
RESAMPLES = 4000

# No noise floor is taken to be lower.
FINEST = 0.01

# Rows that differ by more are not called equivalent, however wide the noise floor.
EQUIVALENT_AT_MOST = 0.10

FASTER, SLOWER, EQUIVALENT, INCONCLUSIVE = "faster", "slower", "equivalent", "inconclusive"


@dataclass(frozen=True)
class Ratio:
    """The geometric mean of ratios within blocks, their median, and the 95 % interval of the mean."""

    ratio: float
    ci95: Interval | None
    median: float
    blocks: int


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


def mean_interval(values: Sequence[float], probability: float = 0.95) -> Interval | None:
    """The interval of the mean; None from a single value, which tells nothing about the next one."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    half = t_quantile(len(values) - 1, probability) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def bootstrap_interval(values: Sequence[float], probability: float = 0.95) -> Interval:
    """The interval of the mean, by percentiles of the means of samples that are drawn from the values."""
    draw, count = random.Random(len(values)).random, len(values)
    means = [sum(values[int(draw() * count)] for _ in values) / count for _ in range(RESAMPLES)]
    tail = (1 - probability) / 2
    return percentile(means, tail), percentile(means, 1 - tail)


def deviation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def paired_ratio(pairs: Sequence[tuple[float, float]], probability: float = 0.95) -> Ratio | None:
    """Of value/baseline over (value, baseline) pairs of one block each."""
    if not pairs:
        return None
    logs = [math.log(value / baseline) for value, baseline in pairs]
    interval = bootstrap_interval if len(logs) >= MANY else mean_interval
    ends = interval(logs, probability)
    ratio = math.exp(statistics.fmean(logs))
    median = statistics.median(value / baseline for value, baseline in pairs)
    return Ratio(ratio, None if ends is None else (math.exp(ends[0]), math.exp(ends[1])), median, len(pairs))


def floor_of(twins: Ratio | None) -> float | None:
    """By how much two equal rows were seen to differ, as a fraction. That they scatter is no part of it: so do the rows
    that are compared, and their intervals tell."""
    if twins is None or twins.ci95 is None:
        return None
    return max(FINEST, math.exp(abs(math.log(twins.ratio))) - 1)


def statement_make(ratio: Ratio | None, floor: float | None, more_is_faster: bool) -> str | None:
    """What may be said of two rows. A difference is one if chance does not explain it (its interval leaves out 1) and
    if it is greater than that of twins. Equality is one if the whole interval is within the floor, and near 1."""
    if ratio is None:
        return None
    if ratio.ci95 is None or floor is None:
        return INCONCLUSIVE
    low, high = ratio.ci95
    if not low <= 1 <= high and not _is_within(ratio.ratio, floor):
        return FASTER if (ratio.ratio > 1) == more_is_faster else SLOWER
    near = min(floor, EQUIVALENT_AT_MOST)
    return EQUIVALENT if _is_within(low, near) and _is_within(high, near) else INCONCLUSIVE


def _is_within(ratio: float, floor: float) -> bool:
    return abs(math.log(ratio)) <= math.log1p(floor)


def percentile(values: Sequence[float], fraction: float) -> float:
    """Linear between the closest ranks, so that 0 is the least and 1 the greatest value."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
