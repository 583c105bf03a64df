# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs beside each other: first what differs between them, then what forbids a comparison, and only then the rows.

Of two machines only the ratios to each one's own baseline mean something, and these too only with the first two parts
in mind.
"""

from collections.abc import Iterator, Sequence

from .caveats import caveats_find
from .differences import differences_find
from .grid import UNKNOWN, Grid, figure_format, grid_lines, grids_fit, text_wrap
from .stats import Interval, Ratio
from .store import Run
from .summary import RateRow, Row, RttRow

Figure = RttRow | RateRow | Ratio | None


def compare_render(name_a: str, a: Run, name_b: str, b: Run) -> str:
    """Text of at most 100 columns."""
    parts = [
        _titles(name_a, name_b),
        _section("What differs (A | B)", list(differences_find(a, b)), "nothing differs in what is recorded"),
        _section("To be heeded", list(caveats_find(a, b)), "nothing that is known"),
        *_rows_parts(a, b),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _titles(name_a: str, name_b: str) -> list[str]:
    return [line for title, name in (("A", name_a), ("B", name_b)) for line in text_wrap(f"{title}: {_clean(name)}")]


def _clean(name: str) -> str:
    """The name of a directory may hold anything."""
    return "".join(character if character.isprintable() else "?" for character in name)


def _section(title: str, texts: Sequence[str], otherwise: str) -> list[str]:
    return [f"{title}:", *(line for text in texts or [otherwise] for line in text_wrap(text, indent="  "))]


def _rows_parts(a: Run, b: Run) -> Iterator[list[str]]:
    rows_b = {row.mode: row for row in b.summary.rows}
    pairs = [(row, rows_b[row.mode]) for row in a.summary.rows if row.mode in rows_b]
    if pairs:
        for grid in _grids_make(pairs):
            yield grid_lines(grid)
        yield text_wrap(
            "B/A: B in percent of A. Ratio: to each one's own baseline in the same block; only this travels. Overlap: "
            "whether the 95 % intervals meet, so that chance may explain the difference; if not, something does of all "
            "that differs."
        )
    else:
        yield ["No row is in both."]
    yield [line for text in _lonely(a, b) for line in text_wrap(text)]


def _lonely(a: Run, b: Run) -> Iterator[str]:
    labels_a, labels_b = ({row.mode: row.label for row in run.summary.rows} for run in (a, b))
    for title, labels, others in (("A", labels_a, labels_b), ("B", labels_b, labels_a)):
        only = [f"\"{label}\"" for mode, label in labels.items() if mode not in others]
        if only:
            yield f"Only {title} has: {', '.join(only)}."


def _grids_make(pairs: Sequence[tuple[Row, Row]]) -> list[Grid]:
    labels = [[""], [""], *([row.label] for row, _ in pairs)]
    parts = [
        _part("RTT us", [(a.rtt_us, b.rtt_us) for a, b in pairs]),
        _part("Gbit/s", [(a.gbps, b.gbps) for a, b in pairs]),
        _part("RTT ratio", [(_own(a, a.rtt_vs_baseline), _own(b, b.rtt_vs_baseline)) for a, b in pairs]),
        _part("Gbit/s ratio", [(_own(a, a.gbps_vs_baseline), _own(b, b.gbps_vs_baseline)) for a, b in pairs]),
    ]
    known = [part for part in parts if part]
    return grids_fit(labels, known) if known else []


def _own(row: Row, ratio: Ratio | None) -> Ratio | None:
    """A baseline is 1 to itself, which tells nothing."""
    return None if row.mode == row.baseline else ratio


def _part(title: str, pairs: Sequence[tuple[Figure, Figure]]) -> Grid | None:
    """What no row has of either is left out."""
    if not any(figure for pair in pairs for figure in pair):
        return None
    return [[title, "", "", ""], ["A", "B", "B/A", "overlap"], *([*_texts(*pair)] for pair in pairs)]


def _texts(a: Figure, b: Figure) -> Iterator[str]:
    value_a, value_b = _value(a), _value(b)
    yield figure_format(value_a)
    yield figure_format(value_b)
    yield f"{100 * value_b / value_a:.0f} %" if value_a and value_b is not None else UNKNOWN
    yield _overlap(a.ci95 if a else None, b.ci95 if b else None)


def _value(figure: Figure) -> float | None:
    if figure is None:
        return None
    return figure.ratio if isinstance(figure, Ratio) else figure.mean


def _overlap(a: Interval | None, b: Interval | None) -> str:
    if a is None or b is None:
        return UNKNOWN
    return "yes" if a[0] <= b[1] and b[0] <= a[1] else "no"
