# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of a run, drawn by gnuplot: distribution of the RTT, throughput by block, latency against load.

A row has the same colour in each of them, its twin (controls.py) too, but dashed; rows of one line share a colour.
These are the colours of Okabe and Ito, which colour-blind people can tell, without their yellow, which nobody sees on
white; after seven rows they begin again with another dash.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .gnuplot import Point, data_block, decades_tics, plot_command, reach, svg_draw, text_quote, tics_list
from .record import Cell
from .scenario import Mode
from .stats import percentile
from .store import Run
from .summary import Row
from .grid import figure_format

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ("solid", "(14,5)")
TWIN = "(3,3)"
INVALID = "#b00000"

MOST_LINES = 2 * len(COLOURS)

WIDTH = 900
HEIGHT = 500
BAND = 34  # height of a row, if rows lie below each other
AROUND = 160  # title, axis and small print
SPREAD, MARGIN = 0.3, 0.4  # of the blocks of a row around its middle, and of its mean

SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999)
MARKED = (0.5, 0.99)


@dataclass(frozen=True)
class Series:
    mode: Mode
    row: Row
    cells: tuple[Cell, ...]
    colour: str
    dash: str

    @property
    def valid(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.valid]

    @property
    def rtts_us(self) -> list[float]:
        return sorted(_visible(rtt) for cell in self.valid for rtt in cell.rtts_us)


def _visible(rtt_us: float) -> float:
    """A logarithmic axis has no 0: what took less stands at the least that ping tells."""
    return max(rtt_us, 1)


def plots_render(run: Run) -> dict[str, str]:
    """File name to SVG, of those for which there are figures."""
    every = series_make(run)
    lines = _load_lines(every)
    pinged = [series for series in every if series.row.rtt_us]
    plots = {}
    if pinged:
        readable = len(pinged) <= MOST_LINES and all(series.rtts_us for series in pinged)
        single = readable and not lines
        plots["rtt.svg"] = _distribution_draw(run, pinged, "rtt") if single else _ranges_draw(run, pinged)
        if readable and lines:
            plots["cdf.svg"] = _distribution_draw(run, _tell_apart(pinged), "cdf")
    if any(series.row.gbps for series in every):
        loaded = [series for series in every if run.scenario.iperf_seconds_of(series.mode)]
        plots["throughput.svg"] = _throughput_draw(run, loaded)
    if run.scenario.together and lines:
        plots["load.svg"] = _load_draw(run, lines)
    return plots


def series_make(run: Run) -> list[Series]:
    rows = {row.mode: row for row in run.summary.all_rows}
    places = list(dict.fromkeys(mode.line or mode.name for mode in run.scenario.modes if not mode.role))
    every = []
    for mode in run.scenario.modes:
        twin = run.scenario.mode(mode.name.removesuffix(f"-{mode.role}")) if mode.role else mode
        place = places.index(twin.line or twin.name)
        dash = TWIN if mode.role else DASHES[place // len(COLOURS) % len(DASHES)]
        cells = tuple(cell for cell in run.cells if cell.mode == mode.name)
        every.append(Series(mode, rows[mode.name], cells, _colour(place), dash))
    return every


def _tell_apart(every: Sequence[Series]) -> list[Series]:
    """Rows of one line, too."""
    return [
        replace(series, colour=_colour(place), dash=DASHES[place // len(COLOURS) % len(DASHES)])
        for place, series in enumerate(every)
    ]


def _colour(place: int) -> str:
    return f"lc rgb '{COLOURS[place % len(COLOURS)]}'"


def _frame(run: Run, title: str, height: int) -> list[str]:
    machine = run.meta["machine"]
    small = (
        f"{run.meta['started'].text()}, host \"{run.meta['host'].text()}\": {machine['cpu'].text()}, "
        f"Linux {machine['kernel']['release'].text()}"
    )
    return [
        f"set label {text_quote(f'{run.scenario.name}: {title}')} at screen 0.015,{1 - 22 / height:.6g} font ',15'",
        f"set label {text_quote(small)} at screen 0.985,{10 / height:.6g} right font ',10' textcolor rgb '#606060'",
        "set grid xtics ytics lc rgb '#d8d8d8' lw 1 dt solid",
        "set border 3 lc rgb '#606060'",
        "set tics nomirror",
        "set tmargin 3.5",
        "set bmargin 5",
    ]


def _key(title: str) -> str:
    """Beside the plot, so that it hides nothing."""
    place = "outside right top vertical maxcols 1"
    return f"set key {place} Left reverse samplen 3 spacing 1.2 title {text_quote(title)} left"


def _key_above(height: int) -> str:
    """Below the title, in one line."""
    return f"set key at screen 0.985,{1 - 44 / height:.6g} right top horizontal maxrows 1 Left reverse samplen 2"


# --- distribution of the RTT ---


def _distribution_draw(run: Run, every: Sequence[Series], name: str) -> str:
    low, high = reach(rtt for series in every for rtt in (series.rtts_us[0], series.rtts_us[-1]))
    most = max(len(series.rtts_us) for series in every)
    top = _logit(1 - 0.4 / most)
    script = [
        *_frame(run, "round trip time of each ping", HEIGHT),
        _key("row: p50, p99 of all pings, us"),
        "set logscale x 10",
        f"set xrange [{low:.6g}:{high:.6g}]",
        f"set yrange [{_logit(SHARES[0]):.6g}:{top:.6g}]",
        f"set xtics {decades_tics(low, high)}",
        f"set ytics {tics_list((f'{100 * share:g} %', _logit(share)) for share in SHARES)}",
        "set xlabel 'round trip time in us, logarithmic'",
        "set ylabel 'share of the pings that took no longer; tails stretched'",
        *(_share_mark(share) for share in MARKED),
    ]
    plots = []
    for number, series in enumerate(every):
        rtts = series.rtts_us
        script += data_block(f"d{number}", steps_of(rtts))
        p50, p99 = (figure_format(percentile(rtts, share)) for share in MARKED)
        title = text_quote(f"{series.row.label}: {p50}, {p99}")
        plots.append(f"$d{number} using 1:2 with steps lw 2 {series.colour} dt {series.dash} title {title}")
    return svg_draw(f"nfqbench_{name}", WIDTH, HEIGHT, [*script, plot_command(plots)])


def _share_mark(share: float) -> str:
    place = f"{_logit(share):.6g}"
    return f"set arrow from graph 0, first {place} to graph 1, first {place} nohead back lc rgb '#909090' lw 1.5"


def _logit(share: float) -> float:
    return math.log10(share / (1 - share))


def steps_of(rtts: Sequence[float]) -> list[Point]:
    """Of sorted values: a step at each value that occurs. The greatest of n stands for the share 1 - 1/2n, since 1 is
    at infinity."""
    points: list[Point] = [(rtts[0], _logit(0.5 / len(rtts)))]
    for number, rtt in enumerate(rtts, start=1):
        if number == len(rtts) or rtts[number] != rtt:
            points.append((rtt, _logit((number - 0.5) / len(rtts))))
    return points


# --- rows below each other ---


def _bands_frame(run: Run, title: str, every: Sequence[Series]) -> list[str]:
    labels = ((series.row.label, -number) for number, series in enumerate(every))
    return [
        *_frame(run, title, _bands_height(every)),
        "set tmargin 6",
        _key_above(_bands_height(every)),
        f"set yrange [{0.4 - len(every):.6g}:0.6]",
        f"set ytics {tics_list(labels)} scale 0",
        "set grid noytics",
        "set border 1",
    ]


def _bands_height(every: Sequence[Series]) -> int:
    return AROUND + BAND * len(every)


def _ranges_draw(run: Run, every: Sequence[Series]) -> str:
    """Of older runs, which do not have the single pings, and of more rows than can be told apart in one place."""
    ranges: list[Point] = []
    for number, series in enumerate(every):
        if series.row.rtt_us:
            rtt = series.row.rtt_us
            ranges.append((-number, *map(_visible, (rtt.min, rtt.p50, rtt.p99, rtt.max))))
    low, high = reach(float(value) for line in ranges for value in (line[1], line[4]))
    script = [
        *_bands_frame(run, "round trip time", every),
        "set logscale x 10",
        f"set xrange [{low:.6g}:{high:.6g}]",
        f"set xtics {decades_tics(low, high)}",
        "set xlabel 'round trip time in us, logarithmic'",
        *data_block("ranges", ranges),
        plot_command([
            "$ranges using 2:1:($5-$2):(0) with vectors nohead lw 1.5 lc rgb '#56b4e9' title 'least to greatest'",
            "$ranges using 3:1:($4-$3):(0) with vectors nohead lw 6 lc rgb '#0072b2' title 'p50 to p99'",
            "$ranges using 3:1 with points pt 7 ps 0.8 lc rgb '#000000' title 'p50'",
        ]),
    ]  # fmt: skip
    return svg_draw("nfqbench_rtt", WIDTH, _bands_height(every), script)


def _throughput_draw(run: Run, every: Sequence[Series]) -> str:
    script = [
        *_bands_frame(run, "throughput of each block", every),
        "set xrange [0:*]",
        "set xlabel 'Gbit/s'",
        "set style fill solid 1 noborder",
    ]
    means, invalid = _rate_means(every), []
    plots = []
    if means:
        script += data_block("means", means)
        edges = f"($1-{MARGIN}):($1+{MARGIN})"
        plots += [
            f"$means using 2:1:3:4:{edges} with boxxyerror lc rgb '#dddddd' title '95 % interval of the mean'",
            f"$means using 2:($1-{MARGIN}):(0):({2 * MARGIN}) with vectors nohead lw 3 lc rgb '#606060' title 'mean'",
        ]
    for number, series in enumerate(every):
        script += data_block(f"d{number}", _rate_points(series, -number, valid=True))
        title = "title 'blocks, the first on top'" if number == 0 else "notitle"
        if any(cell.gbps is not None for cell in series.valid):
            plots.append(f"$d{number} using 1:2 with linespoints pt 7 ps 0.5 lw 0.7 {series.colour} {title}")
        invalid += _rate_points(series, -number, valid=False)
    if invalid:
        script += data_block("invalid", invalid)
        plots.append(f"$invalid using 1:2 with points pt 2 ps 0.8 lw 2 lc rgb '{INVALID}' title 'invalid: not counted'")
    return svg_draw("nfqbench_throughput", WIDTH, _bands_height(every), [*script, plot_command(plots)])


def _rate_means(every: Sequence[Series]) -> list[Point]:
    """Place, mean, and the ends of its interval. Of a single block nothing is known but the mean."""
    rates = [(-number, series.row.gbps) for number, series in enumerate(every)]
    return [(place, rate.mean, *(rate.ci95 or ("NaN", "NaN"))) for place, rate in rates if rate]


def _rate_points(series: Series, middle: float, valid: bool) -> list[Point]:
    """Blocks from top to bottom. An invalid cell has no figure: it stands at 0."""
    blocks = max(cell.block for cell in series.cells)
    places = {block: middle + SPREAD * (1 - 2 * (block - 0.5) / blocks) for block in range(1, blocks + 1)}
    if valid:
        return [(cell.gbps, places[cell.block]) for cell in series.valid if cell.gbps is not None]
    return [(0, places[cell.block]) for cell in series.cells if not cell.valid]


# --- latency against load ---


def _load_lines(every: Sequence[Series]) -> dict[str, list[Series]]:
    """Rows in the order of the scenario: as the load asked for rises, the one that is reached may fall."""
    lines: dict[str, list[Series]] = {}
    for series in every:
        if series.mode.line and not series.mode.role and series.row.rtt_us and series.row.gbps:
            lines.setdefault(series.mode.line, []).append(series)
    return lines


def _load_draw(run: Run, lines: dict[str, list[Series]]) -> str:
    points = {line: [_load_point(series) for series in rows] for line, rows in lines.items()}
    values = [float(value) for line in points.values() for point in line for value in point[1:]]
    low, high = reach(values)
    script = [
        *_frame(run, "latency against load", HEIGHT),
        _key("p50 solid, p99 dashed; bars: blocks"),
        "set logscale y 10",
        "set errorbars 0",
        "set xrange [0:*]",
        f"set yrange [{low:.6g}:{high:.6g}]",
        f"set ytics {decades_tics(low, high)}",
        "set xlabel 'throughput reached in Gbit/s'",
        "set ylabel 'round trip time under load in us, logarithmic'",
    ]
    plots = []
    for number, (line, its_points) in enumerate(points.items()):
        script += data_block(f"d{number}", its_points)
        colour = _colour(number)
        plots += [
            f"$d{number} using 1:5:6:7 with yerrorbars pt 0 lw 0.7 {colour} notitle",
            f"$d{number} using 1:2:3:4 with yerrorbars pt 0 lw 0.7 {colour} notitle",
            f"$d{number} using 1:5 with linespoints pt 6 ps 0.6 lw 2 dt (6,4) {colour} notitle",
            f"$d{number} using 1:2 with linespoints pt 7 ps 0.6 lw 2 dt solid {colour} title {text_quote(line)}",
        ]
    return svg_draw("nfqbench_load", WIDTH, HEIGHT, [*script, plot_command(plots)])


def _load_point(series: Series) -> Point:
    """Load; p50, p99: each the median over blocks, and the least and the greatest of the blocks."""
    point = [statistics.fmean(cell.gbps for cell in series.valid if cell.gbps is not None)]
    for key in ("p50", "p99"):
        blocks = [_visible(getattr(cell.rtt_us, key)) for cell in series.valid if cell.rtt_us]
        point += [statistics.median(blocks), min(blocks), max(blocks)]
    return point
