# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows over blocks, from valid cells only. A block is one sample, however many pings it has."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from . import SCHEMA
from .daemon import Latency, Percentiles
from .document import Node
from .effects import Effect, effects_make
from .lines import Line, lines_make
from .record import Cell, Json
from .scenario import AGAIN, CONTROL, CONTROL_DELAY_US, Mode, Scenario
from .stats import (
    EQUIVALENT_AT_MOST, FASTER, INCONCLUSIVE, SLOWER, Interval, Ratio, deviation, floor_of, mean_interval, paired_ratio,
    statement_make,
)  # fmt: skip

FEW_BLOCKS = 5

DIFFERENT = "different"  # of twins

# How far the positive control may be from what was put in.
CONTROL_TOLERANCE = 0.15

# Twins are called different only if chance would hardly make them so: a wrong alarm would condemn the whole run.
ALARM = 0.99

Figure = Callable[[Cell], float | None]
Pair = tuple[float, float]

MUTE: dict[str, Any] = {"rtt_says": None, "gbps_says": None}


@dataclass(frozen=True)
class RttRow:
    mean: float
    min: float
    max: float
    p50: float
    p99: float
    ci95: Interval | None
    sigma: float | None
    p999: float | None = None


@dataclass(frozen=True)
class RateRow:
    mean: float
    ci95: Interval | None
    sigma: float | None


@dataclass(frozen=True)
class QueueRow:
    queue: int
    packets: float  # while iperf3 ran, mean over blocks


@dataclass(frozen=True)
class Row:
    mode: str
    label: str
    baseline: str
    valid_cells: int
    invalid_cells: int
    rtt_us: RttRow | None
    gbps: RateRow | None
    rtt_vs_baseline: Ratio | None
    gbps_vs_baseline: Ratio | None
    rtt_says: str | None  # "faster", "slower", "equivalent", "inconclusive" than the baseline
    gbps_says: str | None
    us_per_pass: float | None
    daemon_cpu_s_per_gb: float | None
    bytes_per_message: float | None
    calls_per_packet: float | None
    lost_packets: int  # of valid cells, which only a program that may lose packets has
    cells_with_losses: int
    queues: tuple[QueueRow, ...]
    latency_us: Latency | None


@dataclass(frozen=True)
class Comparison:
    """Of one mode with another, in the blocks in which both are valid."""

    mode: str
    other: str
    blocks: int
    gbps: Ratio | None
    rtt: Ratio | None
    gbps_says: str | None
    rtt_says: str | None


@dataclass(frozen=True)
class Noise:
    """By how much two equal rows differ, as fractions: less than this means nothing."""

    rtt: float | None
    gbps: float | None


@dataclass(frozen=True)
class Control:
    """The row whose packets were held for a known time, and its twin without."""

    mode: str
    other: str
    blocks: int
    expected_us: float
    shown_us: float | None  # median over blocks of the difference of the medians
    blocks_us: tuple[float, ...]  # the difference in each block

    @property
    def is_trusted(self) -> bool:
        return self.shown_us is not None and abs(self.shown_us / self.expected_us - 1) <= CONTROL_TOLERANCE


@dataclass(frozen=True)
class Summary:
    baseline: str
    rows: tuple[Row, ...]
    controls: tuple[Row, ...]  # rows that the scenario does not ask for
    noise_floor: Noise
    again: Comparison | None  # the baseline's twin with it; None in older runs
    control: Control | None
    compare: tuple[Comparison, ...]
    lines: tuple[Line, ...] = ()
    effects: tuple[Effect, ...] = ()

    @property
    def all_rows(self) -> tuple[Row, ...]:
        return (*self.rows, *self.controls)

    @property
    def labels(self) -> dict[str, str]:
        return {row.mode: row.label for row in self.all_rows}

    def json(self) -> Json:
        control = {**asdict(self.control), "trusted": self.control.is_trusted} if self.control else None
        return {"schema": SCHEMA, **asdict(self), "control": control}


@dataclass(frozen=True)
class Reference:
    """Published figures, or another run's: (RTT in us, Gbit/s) of each mode."""

    label: str
    figures: dict[str, tuple[float | None, float | None]]


def summary_make(scenario: Scenario, cells: Sequence[Cell]) -> Summary:
    total = Counter(cell.mode for cell in cells)
    valid = {mode.name: [cell for cell in cells if cell.mode == mode.name and cell.valid] for mode in scenario.modes}
    again = _again_make(scenario, valid)
    noise = Noise(floor_of(again.rtt), floor_of(again.gbps)) if again else _baseline_noise(valid[scenario.baseline])
    rows = {mode.name: _row_make(scenario, mode, total[mode.name], valid, noise) for mode in scenario.modes}
    return Summary(
        baseline=scenario.baseline,
        rows=tuple(rows[mode.name] for mode in scenario.modes if not mode.role),
        controls=tuple(rows[mode.name] for mode in scenario.modes if mode.role),
        noise_floor=noise,
        again=again,
        control=_control_make(scenario, valid),
        compare=tuple(_comparison_make(mode, other, valid, noise) for mode, other in scenario.compare),
        lines=lines_make(scenario, valid),
        effects=effects_make(scenario, valid, noise.rtt, noise.gbps),
    )


def summary_mute(summary: Summary) -> Summary:
    """Without statements, for figures that mean nothing."""
    return replace(
        summary,
        rows=tuple(replace(row, **MUTE) for row in summary.rows),
        controls=tuple(replace(row, **MUTE) for row in summary.controls),
        again=replace(summary.again, **MUTE) if summary.again else None,
        compare=tuple(replace(pair, **MUTE) for pair in summary.compare),
        effects=tuple(replace(effect, **MUTE) for effect in summary.effects),
    )


def is_enough(scenario: Scenario, cells: Sequence[Cell], blocks: int, precision: float) -> bool:
    """Whether a run may end after so many blocks."""
    measured = [cell for cell in cells if cell.block <= blocks]
    return blocks >= FEW_BLOCKS and is_precise(summary_make(scenario, measured), precision)


def is_precise(summary: Summary, precision: float) -> bool:
    """Whether every ratio between rows is known well enough: half of its interval is not wider than `precision`."""
    rows = [ratio for row in summary.rows for ratio in (row.rtt_vs_baseline, row.gbps_vs_baseline)]
    pairs = [ratio for pair in summary.compare for ratio in (pair.rtt, pair.gbps)]
    ends = [ratio.ci95 for ratio in (*rows, *pairs) if ratio]
    return bool(ends) and all(end and math.log(end[1] / end[0]) / 2 <= math.log1p(precision) for end in ends)


def _row_make(scenario: Scenario, mode: Mode, total: int, valid_of: Mapping[str, Sequence[Cell]], noise: Noise) -> Row:
    baseline = scenario.baseline_of(mode)
    valid, base = valid_of[mode.name], valid_of[baseline]
    rtt, base_rtt = _rtt_row(valid), _rtt_row(base)
    rtts, rates = (paired_ratio(_pairs(valid, base, figure)) for figure in (_rtt_of, _gbps_of))
    compared = mode.name != baseline and not mode.role
    adds_us = (rtt.mean - base_rtt.mean) / scenario.network_of(mode).directions if rtt and base_rtt else None
    return Row(
        mode=mode.name,
        label=mode.label,
        baseline=baseline,
        valid_cells=len(valid),
        invalid_cells=total - len(valid),
        rtt_us=rtt,
        gbps=_rate_row(valid),
        rtt_vs_baseline=rtts,
        gbps_vs_baseline=rates,
        rtt_says=statement_make(rtts, noise.rtt, more_is_faster=False) if compared else None,
        gbps_says=statement_make(rates, noise.gbps, more_is_faster=True) if compared else None,
        us_per_pass=adds_us if mode.queue and mode.name != baseline else None,
        daemon_cpu_s_per_gb=_mean(cell.daemon_cpu_s_per_gb for cell in valid),
        bytes_per_message=_mean(cell.bytes_per_message for cell in valid),
        calls_per_packet=_mean(cell.calls_per_packet for cell in valid),
        lost_packets=sum(cell.lost_packets for cell in valid),
        cells_with_losses=sum(cell.lost_packets > 0 for cell in valid),
        queues=_queue_rows(valid),
        latency_us=_latency_row([cell.latency_us for cell in valid if cell.latency_us]),
    )


def _rtt_of(cell: Cell) -> float | None:
    return cell.rtt_us.mean if cell.rtt_us else None


def _rtt_median_of(cell: Cell) -> float | None:
    return cell.rtt_us.p50 if cell.rtt_us else None


def _gbps_of(cell: Cell) -> float | None:
    return cell.gbps


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
        p999=_median_known([rtt.p999 for rtt in rtts]),
    )


def _median_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def _rate_row(cells: Iterable[Cell]) -> RateRow | None:
    rates = [cell.gbps for cell in cells if cell.gbps is not None]
    return RateRow(statistics.fmean(rates), mean_interval(rates), deviation(rates)) if rates else None


def _queue_rows(cells: Iterable[Cell]) -> tuple[QueueRow, ...]:
    packets: dict[int, list[int]] = {}
    for cell in cells:
        for share in cell.queues:
            packets.setdefault(share.queue, []).append(share.packets)
    return tuple(QueueRow(queue, statistics.fmean(counts)) for queue, counts in sorted(packets.items()))


def _latency_row(latencies: Sequence[Latency]) -> Latency | None:
    if not latencies:
        return None
    return Latency(
        _percentiles_row([latency.receive_to_verdict for latency in latencies]),
        _percentiles_row([latency.verdict_call for latency in latencies]),
    )


def _percentiles_row(blocks: Sequence[Percentiles]) -> Percentiles:
    """Of percentiles the median over blocks, of the greatest the greatest."""
    return Percentiles(
        p50=statistics.median(block.p50 for block in blocks),
        p99=statistics.median(block.p99 for block in blocks),
        p999=statistics.median(block.p999 for block in blocks),
        max=max(block.max for block in blocks),
    )


def _comparison_make(mode: str, other: str, valid: Mapping[str, Sequence[Cell]], noise: Noise) -> Comparison:
    gbps, rtt = (paired_ratio(_pairs(valid[mode], valid[other], figure)) for figure in (_gbps_of, _rtt_of))
    return Comparison(
        mode, other, _blocks_shared(valid[mode], valid[other]), gbps, rtt,
        gbps_says=statement_make(gbps, noise.gbps, more_is_faster=True),
        rtt_says=statement_make(rtt, noise.rtt, more_is_faster=False),
    )  # fmt: skip


def _blocks_shared(cells: Iterable[Cell], others: Iterable[Cell]) -> int:
    return len({cell.block for cell in cells} & {cell.block for cell in others})


def _again_make(scenario: Scenario, valid: Mapping[str, Sequence[Cell]]) -> Comparison | None:
    """The twins are no measure of themselves: they are compared with an interval that is wider, and with 1."""
    twin = next((mode.name for mode in scenario.modes if mode.role == AGAIN), None)
    if twin is None:
        return None
    alike = Noise(EQUIVALENT_AT_MOST, EQUIVALENT_AT_MOST)
    again = _comparison_make(twin, scenario.baseline, valid, alike)
    pairs = [_pairs(valid[twin], valid[scenario.baseline], figure) for figure in (_gbps_of, _rtt_of)]
    gbps, rtt = (statement_make(paired_ratio(figures, ALARM), 0, more_is_faster=True) for figures in pairs)
    return replace(again, gbps_says=_alarm(gbps, again.gbps_says), rtt_says=_alarm(rtt, again.rtt_says))


def _alarm(strict: str | None, usual: str | None) -> str | None:
    if strict in (FASTER, SLOWER):
        return DIFFERENT
    return INCONCLUSIVE if usual in (FASTER, SLOWER) else usual


def _baseline_noise(cells: Sequence[Cell]) -> Noise:
    """Without twins: how much the baseline varies from block to block."""
    return Noise(_relative(_rtt_row(cells)), _relative(_rate_row(cells)))


def _control_make(scenario: Scenario, valid: Mapping[str, Sequence[Cell]]) -> Control | None:
    held = next((mode for mode in scenario.modes if mode.role == CONTROL), None)
    if held is None:
        return None
    mode, expected_us = held.name, scenario.network_of(held).directions * CONTROL_DELAY_US
    other = mode.removesuffix(f"-{CONTROL}")
    pairs = _pairs(valid[mode], valid[other], _rtt_median_of)
    blocks_us = tuple(value - twin for value, twin in pairs)
    shown_us = statistics.median(blocks_us) if blocks_us else None
    return Control(mode, other, len(pairs), expected_us, shown_us, blocks_us)


def _pairs(cells: Iterable[Cell], base: Iterable[Cell], figure: Figure) -> list[Pair]:
    """The figures of the cells of each block; a block in which either is invalid says nothing."""
    baselines = {cell.block: figure(cell) for cell in base}
    pairs = []
    for cell in cells:
        value, baseline = figure(cell), baselines.get(cell.block)
        if value and baseline:
            pairs.append((value, baseline))
    return pairs


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
