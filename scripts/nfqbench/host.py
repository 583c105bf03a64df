# SPDX-License-Identifier: GPL-2.0-or-later
"""What this machine tells of itself, in files and through programs. Whatever cannot be known is None."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


class Host:
    """With another root, the files are those of a machine that was copied or made up."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def text(self, path: str) -> str | None:
        try:
            return (self.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def line(self, path: str) -> str | None:
        """The words of the file, one space between them."""
        text = self.text(path)
        return None if text is None else " ".join(text.split())

    def integer(self, path: str) -> int | None:
        return integer_read(self.line(path))

    def bytes(self, path: str) -> bytes | None:
        try:
            return (self.root / path.lstrip("/")).read_bytes()
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        return (self.root / path.lstrip("/")).exists()

    def paths(self, pattern: str) -> list[str]:
        """Those that match, as this machine names them, in a natural order: cpu2 before cpu10."""
        found = ("/" + str(path.relative_to(self.root)) for path in self.root.glob(pattern.lstrip("/")))
        return sorted(found, key=lambda path: (len(path), path))

    def distinct(self, pattern: str) -> list[str] | None:
        """What the files that match say, each once; None if there is no such file."""
        lines = {line for line in map(self.line, self.paths(pattern)) if line}
        return sorted(lines) or None

    def said(self, command: Sequence[str]) -> str | None:
        """What a program printed, or what it said on its way to failure; None if there is no such program."""
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=10,
                check=False, env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout or done.stderr


def integer_read(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
