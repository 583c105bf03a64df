# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of a line, which are the same thing at rising rates of datagrams: how many a second pass without a loss, and at
which rate packets begin to wait."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .grid import Grid, figure_format
from .record import Cell
from .scenario import Scenario

WORSE = 2.0  # times the RTT of the slowest row


@dataclass(frozen=True)
class Step:
    """A row, over its valid cells."""

    sent_pps: float
    received_pps: float
    lost: int
    p99_us: float | None  # median over blocks


@dataclass(frozen=True)
class Line:
    line: str
    lossless_pps: float | None  # received, of the fastest row before the first with a loss
    first_loss_pps: float | None  # sent, of the first row with a loss; None = no row has any
    p99_us: float | None  # of the slowest row
    p99_doubles_pps: float | None  # sent; None = in no row
    greatest_pps: float  # sent, of the fastest row


def lines_make(scenario: Scenario, valid: Mapping[str, Sequence[Cell]]) -> tuple[Line, ...]:
    """`valid` holds the valid cells of each row. Empty if the load is no datagrams."""
    steps: dict[str, list[Step]] = {}
    for mode in scenario.modes:
        cells = [cell for cell in valid[mode.name] if cell.sent_pps is not None]
        if mode.line and cells:
            steps.setdefault(mode.line, []).append(_step_make(cells))
    return tuple(_line_make(line, sorted(rows, key=lambda step: step.sent_pps)) for line, rows in steps.items())


def _step_make(cells: Sequence[Cell]) -> Step:
    p99s = [cell.rtt_us.p99 for cell in cells if cell.rtt_us]
    return Step(
        sent_pps=statistics.fmean(cell.sent_pps or 0 for cell in cells),
        received_pps=statistics.fmean(cell.received_pps or 0 for cell in cells),
        lost=sum(cell.udp_lost or 0 for cell in cells),
        p99_us=statistics.median(p99s) if p99s else None,
    )


def _line_make(line: str, steps: Sequence[Step]) -> Line:
    lossy = next((number for number, step in enumerate(steps) if step.lost), len(steps))
    return Line(
        line=line,
        lossless_pps=steps[lossy - 1].received_pps if lossy else None,
        first_loss_pps=steps[lossy].sent_pps if lossy < len(steps) else None,
        p99_us=steps[0].p99_us,
        p99_doubles_pps=_doubling_find(steps),
        greatest_pps=steps[-1].sent_pps,
    )


def _doubling_find(steps: Sequence[Step]) -> float | None:
    """On a straight line between two rows, if both axes are logarithmic."""
    points = [(step.sent_pps, step.p99_us) for step in steps if step.p99_us]
    if not points:
        return None
    limit = WORSE * points[0][1]
    for (rate, p99), (next_rate, next_p99) in zip(points, points[1:]):
        if p99 < limit <= next_p99:
            share = math.log(limit / p99) / math.log(next_p99 / p99)
            return rate * math.exp(share * math.log(next_rate / rate))
    return None


def lines_grid(lines: Sequence[Line]) -> tuple[Grid, list[Grid]]:
    """Labels, and the columns beside them."""
    labels = [["at rising rates"], *([line.line] for line in lines)]
    columns = [["kpps without loss", "first loss at", "RTT p99 us", "p99 doubles at"], *map(_line_texts, lines)]
    return labels, [columns] if lines else []


def _line_texts(line: Line) -> list[str]:
    beyond = f"> {_kilo_format(line.greatest_pps)}"
    return [
        _kilo_format(line.lossless_pps),
        _kilo_format(line.first_loss_pps) if line.first_loss_pps else beyond,
        figure_format(line.p99_us),
        _kilo_format(line.p99_doubles_pps) if line.p99_doubles_pps else beyond,
    ]


def _kilo_format(rate: float | None) -> str:
    return figure_format(None if rate is None else rate / 1000)
