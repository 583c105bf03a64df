# SPDX-License-Identifier: GPL-2.0-or-later
"""How far a run is: on a terminal one line that is rewritten, otherwise a line a cell. Always on stderr."""

import shutil
import sys
import time
from collections.abc import Sequence

from .plan import PlannedCell
from .record import Cell
from .grid import figure_format

# Namespaces, daemon, warm-up, snapshots: a first guess, replaced by what the cells really take.
OVERHEAD_S = 2.0


class Progress:
    def __init__(self, guesses_s: Sequence[float]) -> None:
        """A guess for each cell that may come."""
        self.guesses_s = guesses_s
        self.total = len(guesses_s)
        self.done = 0
        self.started = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def begin(self, planned: PlannedCell) -> None:
        if self.terminal:
            self._rewrite(f"[{self.done + 1}/{self.total}] block {planned.block}: {planned.mode.label}, {self._left()}")

    def end(self, planned: PlannedCell, cell: Cell) -> None:
        self.done += 1
        text = f"[{self.done}/{self.total}] block {planned.block}: {planned.mode.label}: {_outcome(cell)}"
        if not self.terminal:
            print(f"{text}; {self._left()}", file=sys.stderr, flush=True)
        elif not cell.valid:
            self.close()
            print(text, file=sys.stderr)

    def close(self) -> None:
        if self.terminal:
            self._rewrite("")

    def _left(self) -> str:
        """What is to come takes as much longer than guessed as what is done did."""
        elapsed, guessed = time.monotonic() - self.started, sum(self.guesses_s[: self.done])
        seconds = round(sum(self.guesses_s[self.done :]) * (elapsed / guessed if guessed else 1))
        return f"{seconds // 60} min {seconds % 60:02} s left" if seconds >= 60 else f"{seconds} s left"

    def _rewrite(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\033[K{text[:width]}", end="", file=sys.stderr, flush=True)


def _outcome(cell: Cell) -> str:
    if not cell.valid:
        return "invalid: " + "; ".join(cell.reasons)
    parts = []
    if cell.rtt_us:
        parts.append(f"{figure_format(cell.rtt_us.mean)} us")
    if cell.gbps is not None:
        parts.append(f"{figure_format(cell.gbps)} Gbit/s")
    return ", ".join(parts)
