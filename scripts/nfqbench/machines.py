# SPDX-License-Identifier: GPL-2.0-or-later
"""The table across machines: for each scenario and each of its rows, what every run and every published reference says
of it. Only ratios to a machine's own baseline travel; the figures stand beside them."""

from collections.abc import Mapping, Sequence

from .grid import UNKNOWN, Grid, figure_format, grid_lines
from .stats import Ratio
from .store import Run
from .summary import Reference, Row

EXPLANATION = "Ratio: to the machine's own baseline in the same block, with its 95 % interval; only this travels."
HEADINGS = ["", "RTT us", "ratio", "95 %", "Gbit/s", "ratio", "95 %", "cells"]


def machines_render(runs: Mapping[str, Run], references: Mapping[str, Reference]) -> str:
    """`runs` by the names of their directories."""
    scenarios = dict.fromkeys(run.scenario.name for run in runs.values())
    groups = [{name: run for name, run in runs.items() if run.scenario.name == scenario} for scenario in scenarios]
    told = [_references_of(group, references) for group in groups]
    parts = [_legend(runs, {name: reference for found in told for name, reference in found.items()})]
    for scenario, group, found in zip(scenarios, groups, told):
        parts.append([f"{scenario}: {_setting(group)}", "", *grid_lines(_grid(group, found))])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _legend(runs: Mapping[str, Run], references: Mapping[str, Reference]) -> list[str]:
    lines = [[name, machine_line(run)] for name, run in runs.items()]
    lines += [[name, f"{reference.label}, published"] for name, reference in references.items()]
    return [EXPLANATION, "", *grid_lines(lines)]


def machine_line(run: Run) -> str:
    machine = run.meta["machine"]
    emulated = run.meta.get("emulated")
    kernel = f"Linux {machine['kernel']['release'].text()}{', emulated' if emulated and emulated.boolean() else ''}"
    return f"{machine['cpu'].text()}, {machine['cpus'].count()} CPUs, {kernel}"


def _setting(group: Mapping[str, Run]) -> str:
    run = list(group.values())[-1]
    return f"{run.scenario.topology}, IPv{run.scenario.family}"


def _references_of(group: Mapping[str, Run], references: Mapping[str, Reference]) -> dict[str, Reference]:
    """Those that are about the same rows."""
    modes = {row.mode for run in group.values() for row in run.summary.rows}
    return {name: reference for name, reference in references.items() if reference.figures.keys() == modes}


def _grid(group: Mapping[str, Run], references: Mapping[str, Reference]) -> Grid:
    grid = [HEADINGS]
    labels = {row.mode: row.label for run in group.values() for row in run.summary.rows}
    baseline = next(iter(group.values())).summary.baseline
    for mode, label in labels.items():
        grid.append([label, *[""] * (len(HEADINGS) - 1)])
        grid += [_reference_line(name, reference, mode, baseline) for name, reference in references.items()]
        grid += [_run_line(name, row) for name, run in group.items() for row in run.summary.rows if row.mode == mode]
    return grid


def _run_line(name: str, row: Row) -> list[str]:
    return [
        f"  {name}",
        figure_format(row.rtt_us.mean if row.rtt_us else None), *_ratio_texts(row.rtt_vs_baseline),
        figure_format(row.gbps.mean if row.gbps else None), *_ratio_texts(row.gbps_vs_baseline),
        f"{row.valid_cells} of {row.valid_cells + row.invalid_cells}",
    ]  # fmt: skip


def _ratio_texts(ratio: Ratio | None) -> Sequence[str]:
    if ratio is None or ratio.ratio == 1:
        return ["1" if ratio else UNKNOWN, UNKNOWN]
    ends = "-".join(map(figure_format, ratio.ci95)) if ratio.ci95 else UNKNOWN
    return [figure_format(ratio.ratio), ends]


def _reference_line(name: str, reference: Reference, mode: str, baseline: str) -> list[str]:
    """Its ratio is of two means, without an interval."""
    texts = []
    for figure, base in zip(reference.figures[mode], reference.figures[baseline]):
        ratio = figure / base if figure and base else None
        texts += [figure_format(figure), "1" if ratio == 1 else figure_format(ratio), UNKNOWN]
    return [f"  {name}", *texts, UNKNOWN]
