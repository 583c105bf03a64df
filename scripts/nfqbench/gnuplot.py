# SPDX-License-Identifier: GPL-2.0-or-later
"""Has gnuplot draw SVG: the same bytes for the same script, and ids that do not clash within one page."""

import math
import os
import re
import subprocess
from collections.abc import Iterable, Sequence

from .errors import CannotRun

LIMIT_S = 60
PACKAGE = "package gnuplot-nox of Debian, gnuplot elsewhere"

Point = Sequence[float | str]


def text_quote(text: str) -> str:
    """In single quotes nothing is special but these; a text is a line."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"


def tics_list(tics: Iterable[tuple[str, float]]) -> str:
    """("label" position, ...). Such a label is a format."""
    return "(" + ", ".join(f"{text_quote(label.replace('%', '%%'))} {place:.6g}" for label, place in tics) + ")"


def data_block(name: str, points: Iterable[Point]) -> list[str]:
    lines = [" ".join(part if isinstance(part, str) else f"{part:.6g}" for part in point) for point in points]
    return [f"${name} << END", *lines, "END"]


def plot_command(parts: Sequence[str]) -> str:
    return "plot " + ", \\\n  ".join(parts)


def reach(values: Iterable[float]) -> tuple[float, float]:
    """Of a logarithmic axis, with some room."""
    known = list(values)
    return min(known) / 1.2, max(known) * 1.2


def decades_tics(low: float, high: float) -> str:
    """1, 2, 5 of each decade; of many decades only 1."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 4 else (1,)
    places = [step * 10.0**decade for decade in range(first, last + 1) for step in steps]
    return tics_list((f"{place:g}", place) for place in places)


def svg_draw(name: str, width: int, height: int, script: Sequence[str]) -> str:
    """`name` makes the ids of the picture its own."""
    terminal = (
        f"set terminal svg noenhanced dynamic size {width},{height} name '{name}' "
        "font 'sans-serif,12' background '#ffffff' linewidth 1"
    )
    text = "\n".join(["set encoding utf8", terminal, *script, ""])
    return _ids_rename(_gnuplot_run(text), name)


def _gnuplot_run(script: str) -> str:
    """-d: without the settings of whoever calls it."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            ["gnuplot", "-d"], input=script, capture_output=True, encoding="utf-8", errors="replace",
            timeout=LIMIT_S, check=False, env=environment,
        )  # fmt: skip
    except FileNotFoundError:
        raise CannotRun(f"cannot draw: gnuplot is not here; install it ({PACKAGE})") from None
    except OSError as error:
        raise CannotRun(f"cannot draw: gnuplot does not start: {error.strerror}; install it ({PACKAGE})") from None
    except subprocess.TimeoutExpired:
        raise CannotRun(f"cannot draw: gnuplot did not end within {LIMIT_S} s; try another one ({PACKAGE})") from None
    if done.returncode != 0 or not done.stdout.rstrip().endswith("</svg>"):
        last = (done.stderr.strip().splitlines() or ["no picture, and no message"])[-1].strip()
        raise CannotRun(f"cannot draw: gnuplot failed: {last}; 5.4 is known to work ({PACKAGE})")
    return done.stdout


def _ids_rename(svg: str, name: str) -> str:
    """Markers and filters are called the same in every picture. Texts hold no "<", so that only tags are changed.
    Titles, which browsers show beside the mouse, tell nothing but such ids."""
    svg = re.sub(r"<title>[^<]*</title>\n?", "", svg)
    return re.sub(r"<[^>]*>", lambda tag: _tag_rename(tag[0], name), svg)


def _tag_rename(tag: str, name: str) -> str:
    tag = re.sub(r"(\sid=['\"])", rf"\g<1>{name}-", tag)
    return re.sub(r"(href=['\"]#|url\(#)", rf"\g<1>{name}-", tag)
