# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows for people: plain text of at most 100 columns, as it is pasted into a mail; Markdown; CSV for programs."""

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence

from .daemon import Percentiles
from .grid import UNKNOWN, WIDTH, Grid, figure_format, grid_join, grid_lines, grid_markdown, grids_fit, text_wrap
from .effects import Effect
from .header import header_lines
from .lines import lines_grid
from .references import published_sentences
from .stats import FASTER, SLOWER, Interval, Ratio
from .store import Run
from .summary import DIFFERENT, FEW_BLOCKS, Comparison, QueueRow, Reference, Row, RttRow, Summary

GAIN_TOLD_MAX = 1000.0  # %: what is more than that, the ratio tells better


def text_render(run: Run, reference: Reference | None = None) -> str:
    groups = ["", "RTT us", "", "", "Gbit/s", "", ""]
    grids = [[groups, *main_grid(run.summary, reference)]]
    for labels, parts in further_grids(run.summary):
        grids += grids_fit(labels, parts)
    return _parts_join(run, reference, [grid_lines(grid) for grid in grids])


def markdown_render(run: Run, reference: Reference | None = None) -> str:
    main = main_grid(run.summary, reference)
    main[0] = ["", "RTT us, mean (min-max)", "95 %", "ratio", "Gbit/s, mean", "95 %", "ratio"]
    grids = [main, *(grid_join([labels, *parts]) for labels, parts in further_grids(run.summary))]
    return _parts_join(run, reference, [grid_markdown(grid) for grid in grids])


def _parts_join(run: Run, reference: Reference | None, grids: Sequence[list[str]]) -> str:
    parts = (header_lines(run.meta), *grids, notes_lines(run, reference), _invalid_lines(run))
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def further_grids(summary: Summary) -> list[tuple[Grid, list[Grid]]]:
    """Those for which there are figures: of each the labels, and the columns that stay together."""
    grids = [
        _compare_grid(summary), _effects_grid(summary), lines_grid(summary.lines), _cost_grid(summary),
        _queues_grid(summary.rows), _latency_grid(summary.rows),
    ]  # fmt: skip
    return [(labels, parts) for labels, parts in grids if len(labels) > 1 and parts]


def csv_render(runs: Mapping[str, Run], reference: Reference | None = None) -> str:
    """All figures of the runs of these names, unrounded; an unknown one is an empty field."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    rows = [_csv_row(name, row, reference) for name, run in runs.items() for row in run.summary.all_rows]
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return output.getvalue()


def _csv_row(name: str, row: Row, reference: Reference | None) -> dict[str, object]:
    rtt, gbps = row.rtt_us, row.gbps
    fields: dict[str, object] = {"run": name, "mode": row.mode, "label": row.label, "baseline": row.baseline}
    fields.update(valid_cells=row.valid_cells, invalid_cells=row.invalid_cells)
    for key in ("mean", "min", "max", "p50", "p99", "p999"):
        fields[f"rtt_us_{key}"] = getattr(rtt, key, None)
    fields["rtt_us_ci95_low"], fields["rtt_us_ci95_high"] = _ends(rtt.ci95 if rtt else None)
    fields["rtt_us_sigma"] = rtt.sigma if rtt else None
    fields["gbps_mean"] = gbps.mean if gbps else None
    fields["gbps_ci95_low"], fields["gbps_ci95_high"] = _ends(gbps.ci95 if gbps else None)
    for key, ratio in (("rtt_vs_baseline", row.rtt_vs_baseline), ("gbps_vs_baseline", row.gbps_vs_baseline)):
        fields[key] = ratio.ratio if ratio else None
        fields[f"{key}_ci95_low"], fields[f"{key}_ci95_high"] = _ends(ratio.ci95 if ratio else None)
    fields.update(rtt_says=row.rtt_says, gbps_says=row.gbps_says)
    fields.update(us_per_pass=row.us_per_pass, daemon_cpu_s_per_gb=row.daemon_cpu_s_per_gb)
    fields.update(bytes_per_message=row.bytes_per_message, calls_per_packet=row.calls_per_packet)
    fields["lost_packets"] = row.lost_packets
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


def main_grid(summary: Summary, reference: Reference | None) -> Grid:
    headings = ["", "mean (min-max)", "95 %", "ratio", "mean", "95 %", "ratio"]
    return [headings, *(_main_row(row, reference) for row in summary.all_rows)]


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


def _compare_grid(summary: Summary) -> tuple[Grid, list[Grid]]:
    """Ratios between rows, and what may be said of them. What was not measured in any row is left out."""
    labels = summary.labels
    pairs = pairs_told(summary)
    names = [[f"{labels[pair.mode]} / {labels[pair.other]}"] for pair in pairs]
    return [["within a block"], *names], _ratios_grids(pairs)


def _effects_grid(summary: Summary) -> tuple[Grid, list[Grid]]:
    """Of a design, in the place of the ratios of its rows."""
    return [["effects"], *([effect.label] for effect in summary.effects)], _ratios_grids(summary.effects)


def _ratios_grids(pairs: Sequence[Comparison | Effect]) -> list[Grid]:
    figures = (("RTT", [(pair.rtt, pair.rtt_says) for pair in pairs]),
               ("Gbit/s", [(pair.gbps, pair.gbps_says) for pair in pairs]))  # fmt: skip
    return [
        [[f"{name}: ratio", "95 %", "median", "statement"], *(_pair_texts(*pair) for pair in told)]
        for name, told in figures if any(ratio for ratio, _ in told)
    ]  # fmt: skip


def pairs_told(summary: Summary) -> list[Comparison]:
    """Each row with its baseline, what else the scenario asks for, the twins. Rows of a design are told by effects."""
    rows = [
        Comparison(row.mode, row.baseline, row.valid_cells, row.gbps_vs_baseline, row.rtt_vs_baseline, row.gbps_says,
                   row.rtt_says)
        for row in summary.rows if row.mode != row.baseline and not summary.effects
    ]  # fmt: skip
    pairs = [*rows, *summary.compare, *([summary.again] if summary.again else [])]
    return list({(pair.mode, pair.other): pair for pair in pairs}.values())


def _pair_texts(ratio: Ratio | None, says: str | None) -> list[str]:
    if ratio is None:
        return [UNKNOWN, UNKNOWN, UNKNOWN, ""]
    ends = "-".join(map(figure_format, ratio.ci95)) if ratio.ci95 else UNKNOWN
    return [figure_format(ratio.ratio), ends, figure_format(ratio.median), _statement_format(ratio, says)]


def _statement_format(ratio: Ratio, says: str | None) -> str:
    if says not in (FASTER, SLOWER):
        return says or ""
    gain = 100 * (ratio.ratio - 1)
    if gain >= GAIN_TOLD_MAX:
        return says
    return f"{says}, {'+' if gain > 0 else '-'}{figure_format(abs(gain))} %"


def _cost_grid(summary: Summary) -> tuple[Grid, list[Grid]]:
    """What a pass through the queue costs, and how many cells stand behind a row."""
    rows = summary.all_rows
    costs = [["us a pass", "CPU s/GB", "bytes a message"], *(_cost_texts(row) for row in rows)]
    calls = [["calls a packet"], *([figure_format(row.calls_per_packet)] for row in rows)]
    tails = any(row.rtt_us and row.rtt_us.p999 is not None for row in rows)
    rtts = [["RTT p50", "p99", "p99.9"], *(_rtt_texts(row.rtt_us) for row in rows)]
    rtts = rtts if tails else [texts[:2] for texts in rtts]
    cells = [["cells"], *([f"{row.valid_cells} of {row.valid_cells + row.invalid_cells}"] for row in rows)]
    known = any(row.calls_per_packet is not None for row in rows)
    return _labels(rows), [costs, *([calls] if known else []), rtts, cells]


def _cost_texts(row: Row) -> list[str]:
    return [figure_format(figure) for figure in (row.us_per_pass, row.daemon_cpu_s_per_gb, row.bytes_per_message)]


def _rtt_texts(rtt: RttRow | None) -> list[str]:
    figures = (rtt.p50, rtt.p99, rtt.p999) if rtt else (None, None, None)
    return [figure_format(figure) for figure in figures]


def _labels(rows: Sequence[Row], heading: str = "") -> Grid:
    return [[heading], *([row.label] for row in rows)]


def _queues_grid(rows: Sequence[Row]) -> tuple[Grid, list[Grid]]:
    """For rows with several queues."""
    labels, shares = [[""]], [["packets by queue"]]
    for row in rows:
        if len(row.queues) > 1:
            lines = textwrap.wrap(_shares_text(row.queues), WIDTH - 26)
            labels += [[row.label], *([[""]] * (len(lines) - 1))]
            shares += [[line] for line in lines]
    return labels, [shares]


def _shares_text(queues: Sequence[QueueRow]) -> str:
    total = sum(queue.packets for queue in queues) or 1
    return ", ".join(f"{queue.queue}: {queue.packets:.0f} ({100 * queue.packets / total:.0f} %)" for queue in queues)


def _latency_grid(rows: Sequence[Row]) -> tuple[Grid, list[Grid]]:
    known = [(row.label, row.latency_us) for row in rows if row.latency_us]
    labels = [["latency in the daemon us"], *([label] for label, _ in known)]
    parts = [
        [["to verdict p50", "p99", "max"], *(_latency_texts(latency.receive_to_verdict) for _, latency in known)],
        [["verdict call p50", "p99", "max"], *(_latency_texts(latency.verdict_call) for _, latency in known)],
    ]
    return labels, parts


def _latency_texts(latency: Percentiles) -> list[str]:
    return [figure_format(figure) for figure in (latency.p50, latency.p99, latency.max)]


def notes_lines(run: Run, reference: Reference | None) -> list[str]:
    summary = run.summary
    labels = summary.labels
    legend = f"95 %: of the mean over blocks; ratio: to \"{labels[summary.baseline]}\" of the same block"
    legend += _others_format(summary) + (f"; [%]: of {reference.label}." if reference else ".")
    notes = [*_emulated_notes(run), legend, *_losses_notes(summary), *controls_sentences(summary)]
    notes += published_sentences(run.scenario)
    few = min((row.valid_cells for row in summary.rows if row.valid_cells), default=0)
    if 0 < few < FEW_BLOCKS:
        notes.append(f"Few blocks ({few}): the intervals are themselves uncertain.")
    if run.meta["sched"].get("note"):
        notes.append(run.meta["sched"]["note"].text())
    return [line for note in notes for line in text_wrap(note)]


def _emulated_notes(run: Run) -> list[str]:
    emulated = run.meta.get("emulated")
    if not emulated or not emulated.boolean():
        return []
    return ["Emulated: times and rates mean nothing, and nothing is concluded from them; what was counted holds."]


def controls_sentences(summary: Summary) -> list[str]:
    """How far this run can be believed."""
    labels = summary.labels
    baseline, noise = labels[summary.baseline], summary.noise_floor
    floors = ((noise.rtt, "RTT"), (noise.gbps, "Gbit/s"))
    known = [(floor, name) for floor, name in floors if floor is not None]
    if summary.again is None:
        varies = " and ".join(f"+-{_percent_format(floor)} ({name})" for floor, name in known)
        return [f"No controls; \"{baseline}\" varies from block to block by {varies}." if known else "No controls."]
    differs = " and ".join(f"{_percent_format(floor)} ({name})" for floor, name in known)
    sentences = [f"Noise floor: \"{baseline}\" differs from itself by {differs}; less means nothing."]
    if not known:
        sentences = [f"Noise floor unknown: \"{baseline}\" and its twin do not have two valid blocks."]
    for says, name in ((summary.again.rtt_says, "RTT"), (summary.again.gbps_says, "Gbit/s")):
        if says == DIFFERENT:
            sentences.append(f"NOT TO BE TRUSTED for {name}: \"{baseline}\" differs from itself; see the ratios.")
    return [*sentences, *_control_sentences(summary)]


def _control_sentences(summary: Summary) -> list[str]:
    control = summary.control
    if control is None:
        return ["No positive control: no row whose packets could be held for a known time."]
    put_in = f"Positive control: {control.expected_us:.0f} us more were put in"
    if control.shown_us is None:
        return [f"{put_in}, but no block has both cells: NOT TO BE TRUSTED for RTT."]
    found = f"{put_in}, {figure_format(control.shown_us)} us came out"
    if control.is_trusted:
        return [f"{found}."]
    return [f"{found}: this machine is NOT TO BE TRUSTED for RTT."]


def _percent_format(fraction: float) -> str:
    return f"{figure_format(100 * fraction)} %"


def _others_format(summary: Summary) -> str:
    """Of rows that are compared with another row than most."""
    labels = summary.labels
    others = [row for row in summary.rows if row.baseline != summary.baseline]
    return "".join(f"; of \"{row.label}\": to \"{labels[row.baseline]}\"" for row in others)


def _losses_notes(summary: Summary) -> list[str]:
    return [
        f"\"{row.label}\" lost {row.lost_packets} packets in {row.cells_with_losses} of {row.valid_cells} cells: "
        "they count for the row, because the row is about a program that loses packets."
        for row in summary.rows if row.lost_packets
    ]  # fmt: skip


def _invalid_lines(run: Run) -> list[str]:
    invalid = [cell for cell in run.cells if not cell.valid]
    if not invalid:
        return []
    labels = run.summary.labels
    lines = [f"Invalid, not counted: {len(invalid)} of {len(run.cells)} cells"]
    for cell in invalid:
        text = f"block {cell.block}, {labels[cell.mode]}: {'; '.join(cell.reasons)}"
        lines += text_wrap(text, indent="  ")
    return lines
