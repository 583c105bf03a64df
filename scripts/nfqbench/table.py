# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows for people: plain text of at most 100 columns, as it is pasted into a mail; Markdown; CSV for programs."""

import csv
import io
import textwrap
from collections.abc import Mapping

from .document import Node
from .stats import Interval, Ratio
from .store import Run
from .summary import FEW_BLOCKS, Reference, Row, RttRow, Summary

WIDTH = 100
UNKNOWN = "-"

Grid = list[list[str]]  # the first line holds the headings


def figure_format(value: float | None) -> str:
    """Three digits: more are not known."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    return f"{value:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3}f}"


def text_render(run: Run, reference: Reference | None = None) -> str:
    groups = ["", "RTT us", "", "", "Gbit/s", "", ""]
    main, cost = _grid_lines([groups, *_main_grid(run.summary, reference)]), _grid_lines(_cost_grid(run.summary))
    parts = (_header(run.meta), main, cost, _notes(run, reference), _invalid_lines(run))
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def markdown_render(run: Run, reference: Reference | None = None) -> str:
    main, cost = _main_grid(run.summary, reference), _cost_grid(run.summary)
    main[0] = ["", "RTT us, mean (min-max)", "95 %", "ratio", "Gbit/s, mean", "95 %", "ratio"]
    parts = (_header(run.meta), _grid_markdown(main), _grid_markdown(cost), _notes(run, reference), _invalid_lines(run))
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def csv_render(runs: Mapping[str, Run], reference: Reference | None = None) -> str:
    """All figures of the runs of these names, unrounded; an unknown one is an empty field."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    rows = [_csv_row(name, row, reference) for name, run in runs.items() for row in run.summary.rows]
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return output.getvalue()


def _csv_row(name: str, row: Row, reference: Reference | None) -> dict[str, object]:
    rtt, gbps = row.rtt_us, row.gbps
    fields: dict[str, object] = {"run": name, "mode": row.mode, "label": row.label}
    fields.update(valid_cells=row.valid_cells, invalid_cells=row.invalid_cells)
    for key in ("mean", "min", "max", "p50", "p99"):
        fields[f"rtt_us_{key}"] = getattr(rtt, key, None)
    fields["rtt_us_ci95_low"], fields["rtt_us_ci95_high"] = _ends(rtt.ci95 if rtt else None)
    fields["rtt_us_sigma"] = rtt.sigma if rtt else None
    fields["gbps_mean"] = gbps.mean if gbps else None
    fields["gbps_ci95_low"], fields["gbps_ci95_high"] = _ends(gbps.ci95 if gbps else None)
    for key, ratio in (("rtt_vs_baseline", row.rtt_vs_baseline), ("gbps_vs_baseline", row.gbps_vs_baseline)):
        fields[key] = ratio.ratio if ratio else None
        fields[f"{key}_ci95_low"], fields[f"{key}_ci95_high"] = _ends(ratio.ci95 if ratio else None)
    fields.update(us_per_pass=row.us_per_pass, daemon_cpu_s_per_gb=row.daemon_cpu_s_per_gb)
    fields["bytes_per_message"] = row.bytes_per_message
    if reference:
        fields["rtt_of_reference"], fields["gbps_of_reference"] = _shares(row, reference)
    return fields


def _ends(interval: Interval | None) -> Interval | tuple[None, None]:
    return interval or (None, None)


def _shares(row: Row, reference: Reference) -> tuple[float | None, float | None]:
    rtt, gbps = reference.figures.get(row.mode, (None, None))
    return (
        row.rtt_us.mean / rtt if row.rtt_us and rtt else None,
        row.gbps.mean / gbps if row.gbps and gbps else None,
    )


def _main_grid(summary: Summary, reference: Reference | None) -> Grid:
    headings = ["", "mean (min-max)", "95 %", "ratio", "mean", "95 %", "ratio"]
    return [headings, *(_main_row(row, reference) for row in summary.rows)]


def _main_row(row: Row, reference: Reference | None) -> list[str]:
    rtt_share, gbps_share = _shares(row, reference) if reference else (None, None)
    return [
        row.label,
        _rtt_format(row.rtt_us) + _share_format(rtt_share),
        _interval_format(row.rtt_us.ci95 if row.rtt_us else None),
        _ratio_format(row.rtt_vs_baseline),
        figure_format(row.gbps.mean if row.gbps else None) + _share_format(gbps_share),
        _interval_format(row.gbps.ci95 if row.gbps else None),
        _ratio_format(row.gbps_vs_baseline),
    ]


def _rtt_format(rtt: RttRow | None) -> str:
    return f"{figure_format(rtt.mean)} ({rtt.min:.0f}-{rtt.max:.0f})" if rtt else UNKNOWN


def _interval_format(interval: Interval | None) -> str:
    """Student's interval is symmetric."""
    return f"+-{figure_format((interval[1] - interval[0]) / 2)}" if interval else UNKNOWN


def _ratio_format(ratio: Ratio | None) -> str:
    if ratio is None:
        return UNKNOWN
    return "1" if ratio.ratio == 1 else figure_format(ratio.ratio)


def _share_format(share: float | None) -> str:
    return "" if share is None else f" [{100 * share:.0f} %]"


def _cost_grid(summary: Summary) -> Grid:
    """What a pass through the queue costs, and how many cells stand behind a row."""
    grid = [["", "us a pass", "CPU s/GB", "bytes a message", "RTT p50", "p99", "cells"]]
    for row in summary.rows:
        rtt = row.rtt_us
        figures = [row.us_per_pass, row.daemon_cpu_s_per_gb, row.bytes_per_message]
        figures += [rtt.p50, rtt.p99] if rtt else [None, None]
        total = row.valid_cells + row.invalid_cells
        grid.append([row.label, *(figure_format(figure) for figure in figures), f"{row.valid_cells} of {total}"])
    return grid


def _grid_lines(grid: Grid) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*grid)]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in grid]


def _grid_markdown(grid: Grid) -> list[str]:
    lines = ["| " + " | ".join(line) + " |" for line in grid]
    return [lines[0], "|---" * len(grid[0]) + "|", *lines[1:]]


def _header(meta: Node) -> list[str]:
    scenario, machine = meta["scenario"], meta["machine"]
    first = f"{scenario['name'].text()}: {scenario['topology'].text()}, IPv4"
    if scenario["ping_count"].count():
        first += f"; ping -c {scenario['ping_count'].count()} -i {scenario['ping_interval_ms'].count() / 1000:g}"
    if scenario["iperf_seconds"].count():
        arguments = f" {scenario['iperf_args'].text()}".rstrip()
        first += f"; iperf3 -t {scenario['iperf_seconds'].count()} -C {scenario['cc'].text()}{arguments}"
    first += f"; blocks {meta['blocks'].count()}, seed {meta['seed'].integer()}"
    host = f"{meta['started'].text()}, host \"{meta['host'].text()}\": {machine['cpu'].text()}, "
    host += f"{machine['cpus'].count()} CPUs{_virtual_format(machine)}, Linux {machine['kernel']['release'].text()}"
    processor = f"{meta['processor'].text()}, {_sched_format(meta['sched']['in_force'].text())}"
    backend = meta.get("backend")
    processor += f"; rules by {backend.text()}" if backend else ""
    return [line for text in (first, host, processor) for line in textwrap.wrap(text, WIDTH, subsequent_indent="  ")]


def _virtual_format(machine: Node) -> str:
    hypervisor, virtualized = machine.get("hypervisor"), machine.get("virtualized")
    if hypervisor:
        return f", virtualized ({hypervisor.text()})"
    return ", virtualized" if virtualized and virtualized.boolean() else ""


def _sched_format(sched: str) -> str:
    policy, _, priority = sched.partition(":")
    return f"SCHED_{policy.upper()} {priority}".rstrip() if policy != "inherit" else "scheduling inherited"


def _notes(run: Run, reference: Reference | None) -> list[str]:
    meta, summary = run.meta, run.summary
    baseline = next(row.label for row in summary.rows if row.mode == summary.baseline)
    legend = f"95 %: of the mean over blocks; ratio: to \"{baseline}\" of the same block"
    notes = [legend + (f"; [%]: of {reference.label}." if reference else ".")]
    noise = summary.noise_floor
    if noise.rtt is not None and noise.gbps is not None:
        varies = f"{100 * noise.rtt:.0f} % (RTT) and {100 * noise.gbps:.0f} % (Gbit/s)"
        notes.append(f"\"{baseline}\" itself varies from block to block by {varies}.")
    few = min((row.valid_cells for row in summary.rows if row.valid_cells), default=0)
    if 0 < few < FEW_BLOCKS:
        notes.append(f"Few blocks ({few}): the intervals are themselves uncertain.")
    if meta["sched"].get("note"):
        notes.append(meta["sched"]["note"].text())
    return [line for note in notes for line in textwrap.wrap(note, WIDTH, subsequent_indent="  ")]


def _invalid_lines(run: Run) -> list[str]:
    invalid = [cell for cell in run.cells if not cell.valid]
    if not invalid:
        return []
    labels = {row.mode: row.label for row in run.summary.rows}
    lines = [f"Invalid, not counted: {len(invalid)} of {len(run.cells)} cells"]
    for cell in invalid:
        text = f"block {cell.block}, {labels[cell.mode]}: {'; '.join(cell.reasons)}"
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines
