# SPDX-License-Identifier: GPL-2.0-or-later
"""Grids of text: aligned by spaces and no wider than a mail, or in Markdown."""

import textwrap
from collections.abc import Sequence

WIDTH = 100
GAP = 2

Grid = list[list[str]]  # the first line holds the headings
UNKNOWN = "-"


def grid_join(parts: Sequence[Grid]) -> Grid:
    """Side by side."""
    return [[text for line in lines for text in line] for lines in zip(*parts)]


def grids_fit(labels: Grid, parts: Sequence[Grid]) -> list[Grid]:
    """Parts side by side, with the labels before them, in as few grids as fit the width."""
    grids = [grid_join([labels, parts[0]])]
    for part in parts[1:]:
        joined = grid_join([grids[-1], part])
        if grid_width(joined) <= WIDTH:
            grids[-1] = joined
        else:
            grids.append(grid_join([labels, part]))
    return grids


def grid_width(grid: Grid) -> int:
    return sum(_widths(grid)) + GAP * (len(grid[0]) - 1)


def grid_lines(grid: Grid) -> list[str]:
    widths = _widths(grid)
    return [(" " * GAP).join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in grid]


def grid_markdown(grid: Grid) -> list[str]:
    lines = ["| " + " | ".join(line) + " |" for line in grid]
    return [lines[0], "|---" * len(grid[0]) + "|", *lines[1:]]


def text_wrap(text: str, indent: str = "", further: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + further)


def _widths(grid: Grid) -> list[int]:
    return [max(map(len, column)) for column in zip(*grid)]


def figure_format(value: float | None) -> str:
    """Three digits: more are not known."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    return f"{value:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3}f}"
