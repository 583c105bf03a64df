# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows over blocks, from valid cells only. A block is one sample, however many pings it has."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from . import SCHEMA
from .daemon import Latency, Percentiles
from .document import Node
from .record import Cell, Json, Rtt
from .stats import Interval, Ratio, deviation, mean_interval, paired_ratio

FEW_BLOCKS = 5


Figure = Callable[[Cell], float | None]
Pair = tuple[float, float]


@dataclass(frozen=True)
class Plan:
    """What a row is about, before anything was measured."""

    mode: str
    label: str
    queue: bool
    baseline: str

    @property
    def adds_queue(self) -> bool:
        """To what it is compared with."""
        return self.queue and self.mode != self.baseline


@dataclass(frozen=True)
class RttRow(Rtt):
    ci95: Interval | None
    sigma: float | None


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
    us_per_pass: float | None
    daemon_cpu_s_per_gb: float | None
    bytes_per_message: float | None
    calls_per_packet: float | None
    lost_packets: int  # of valid cells, which only a program that may lose packets has
    cells_with_losses: int
    queues: tuple[QueueRow, ...]
    latency_us: Latency | None


@dataclass(frozen=True)
class PairRow:
    median: float
    ratio: float
    ci95: Interval | None


@dataclass(frozen=True)
class Comparison:
    """Ratios of one mode to another, in the blocks in which both are valid."""

    mode: str
    other: str
    blocks: int
    gbps: PairRow | None
    rtt: PairRow | None

    def json(self) -> Json:
        figures = {key: asdict(row) if row else None for key, row in (("gbps", self.gbps), ("rtt", self.rtt))}
        return {"mode": self.mode, "with": self.other, "blocks": self.blocks, **figures}


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
    compare: tuple[Comparison, ...]

    def json(self) -> Json:
        return {"schema": SCHEMA, **asdict(self), "compare": [comparison.json() for comparison in self.compare]}


@dataclass(frozen=True)
class Reference:
    """Published figures, or another run's: (RTT in us, Gbit/s) of each mode."""

    label: str
    figures: dict[str, tuple[float | None, float | None]]


def summary_make(
    plans: Sequence[Plan], baseline: str, compare: Sequence[tuple[str, str]], directions: int, cells: Sequence[Cell]
) -> Summary:
    """`directions` says how often a ping and its reply together pass the queue."""
    total = Counter(cell.mode for cell in cells)
    valid = {plan.mode: [cell for cell in cells if cell.mode == plan.mode and cell.valid] for plan in plans}
    rows = tuple(_row_make(plan, total[plan.mode], valid, directions) for plan in plans)
    noise = Noise(_relative(_rtt_row(valid[baseline])), _relative(_rate_row(valid[baseline])))
    return Summary(baseline, rows, noise, tuple(_comparison_make(mode, other, valid) for mode, other in compare))


def _row_make(plan: Plan, total: int, valid_of: Mapping[str, Sequence[Cell]], directions: int) -> Row:
    valid, base = valid_of[plan.mode], valid_of[plan.baseline]
    rtt, base_rtt = _rtt_row(valid), _rtt_row(base)
    return Row(
        mode=plan.mode,
        label=plan.label,
        baseline=plan.baseline,
        valid_cells=len(valid),
        invalid_cells=total - len(valid),
        rtt_us=rtt,
        gbps=_rate_row(valid),
        rtt_vs_baseline=paired_ratio(_pairs(valid, base, _rtt_of)),
        gbps_vs_baseline=paired_ratio(_pairs(valid, base, _gbps_of)),
        us_per_pass=(rtt.mean - base_rtt.mean) / directions if rtt and base_rtt and plan.adds_queue else None,
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
    )


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


def _comparison_make(mode: str, other: str, valid: Mapping[str, Sequence[Cell]]) -> Comparison:
    blocks = {cell.block for cell in valid[mode]} & {cell.block for cell in valid[other]}
    gbps, rtt = (_pair_row(_pairs(valid[mode], valid[other], figure)) for figure in (_gbps_of, _rtt_of))
    return Comparison(mode, other, len(blocks), gbps, rtt)


def _pair_row(pairs: Sequence[Pair]) -> PairRow | None:
    ratio = paired_ratio(pairs)
    return PairRow(statistics.median(a / b for a, b in pairs), ratio.ratio, ratio.ci95) if ratio else None


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
