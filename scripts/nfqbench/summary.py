# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows over blocks, from valid cells only. A block is one sample, however many pings it has."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from . import SCHEMA
from .document import Node
from .record import Cell, Json
from .stats import Interval, Ratio, deviation, mean_interval, paired_ratio

FEW_BLOCKS = 5


@dataclass(frozen=True)
class RttRow:
    mean: float
    min: float
    max: float
    p50: float
    p99: float
    ci95: Interval | None
    sigma: float | None


@dataclass(frozen=True)
class RateRow:
    mean: float
    ci95: Interval | None
    sigma: float | None


@dataclass(frozen=True)
class Row:
    mode: str
    label: str
    valid_cells: int
    invalid_cells: int
    rtt_us: RttRow | None
    gbps: RateRow | None
    rtt_vs_baseline: Ratio | None
    gbps_vs_baseline: Ratio | None
    us_per_pass: float | None
    daemon_cpu_s_per_gb: float | None
    bytes_per_message: float | None


@dataclass(frozen=True)
class Noise:
    """How much the baseline varies from block to block, relative: less than this cannot be told from chance."""

    rtt: float | None
    gbps: float | None


@dataclass(frozen=True)
class Summary:
    baseline: str
    rows: tuple[Row, ...]
    noise_floor: Noise

    def json(self) -> Json:
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class Reference:
    """Published figures, or another run's: (RTT in us, Gbit/s) of each mode."""

    label: str
    figures: dict[str, tuple[float | None, float | None]]


def summary_make(modes: Sequence[tuple[str, str]], baseline: str, directions: int, cells: Sequence[Cell]) -> Summary:
    """`modes` are (name, label); `directions` says how often a ping and its reply together pass the queue."""
    base = [cell for cell in cells if cell.mode == baseline and cell.valid]
    rows = tuple(
        _row_make(name, label, [cell for cell in cells if cell.mode == name], base, directions) for name, label in modes
    )
    noise = Noise(_relative(_rtt_row(base)), _relative(_rate_row(base)))
    return Summary(baseline, rows, noise)


def _row_make(name: str, label: str, cells: Sequence[Cell], base: Sequence[Cell], directions: int) -> Row:
    valid = [cell for cell in cells if cell.valid]
    rtt, base_rtt = _rtt_row(valid), _rtt_row(base)
    return Row(
        mode=name,
        label=label,
        valid_cells=len(valid),
        invalid_cells=len(cells) - len(valid),
        rtt_us=rtt,
        gbps=_rate_row(valid),
        rtt_vs_baseline=_ratio(valid, base, lambda cell: cell.rtt_us.mean if cell.rtt_us else None),
        gbps_vs_baseline=_ratio(valid, base, lambda cell: cell.gbps),
        us_per_pass=(rtt.mean - base_rtt.mean) / directions if rtt and base_rtt and valid != base else None,
        daemon_cpu_s_per_gb=_mean(cell.daemon_cpu_s_per_gb for cell in valid),
        bytes_per_message=_mean(cell.bytes_per_message for cell in valid),
    )


def _rtt_row(cells: Iterable[Cell]) -> RttRow | None:
    rtts = [cell.rtt_us for cell in cells if cell.rtt_us]
    if not rtts:
        return None
    means = [rtt.mean for rtt in rtts]
    return RttRow(
        mean=statistics.fmean(means),
        min=min(rtt.min for rtt in rtts),
        max=max(rtt.max for rtt in rtts),
        p50=statistics.median(rtt.p50 for rtt in rtts),
        p99=statistics.median(rtt.p99 for rtt in rtts),
        ci95=mean_interval(means),
        sigma=deviation(means),
    )


def _rate_row(cells: Iterable[Cell]) -> RateRow | None:
    rates = [cell.gbps for cell in cells if cell.gbps is not None]
    return RateRow(statistics.fmean(rates), mean_interval(rates), deviation(rates)) if rates else None


def _ratio(cells: Iterable[Cell], base: Iterable[Cell], figure: Callable[[Cell], float | None]) -> Ratio | None:
    """Pairs the cells of each block; a block in which either is invalid says nothing."""
    baselines = {cell.block: figure(cell) for cell in base}
    pairs = []
    for cell in cells:
        value, baseline = figure(cell), baselines.get(cell.block)
        if value and baseline:
            pairs.append((value, baseline))
    return paired_ratio(pairs)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _relative(row: RttRow | RateRow | None) -> float | None:
    return row.sigma / row.mean if row and row.sigma is not None and row.mean else None


def reference_parse(node: Node, name: str) -> Reference:
    """results/reference/*.json, or a run's summary.json: both have rows[] with mode, rtt_us.mean and gbps.mean."""
    figures = {}
    for row in node["rows"]:
        rtt, gbps = row.get("rtt_us"), row.get("gbps")
        figures[row["mode"].text()] = (rtt["mean"].number() if rtt else None, gbps["mean"].number() if gbps else None)
    label = node.get("label")
    return Reference(label.text() if label else name, figures)
