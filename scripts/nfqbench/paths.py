# SPDX-License-Identifier: GPL-2.0-or-later
"""Where things are. An installation keeps the layout of the source tree."""

import os
import shutil
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
ROOT = SCRIPTS.parent
CELL = SCRIPTS / "cell.sh"
NETNS = SCRIPTS / "netns.sh"
VM = SCRIPTS / "vm.sh"
INSTALL_DEPS = SCRIPTS / "install-deps"
SCENARIOS = SCRIPTS / "scenarios"
REFERENCES = ROOT / "results" / "reference"


def results_default() -> Path:
    """results/ of the source tree, otherwise of the current directory."""
    return ROOT / "results" if (ROOT / "Makefile").exists() else Path("results")


def noop_find() -> str | None:
    """As cell.sh finds it."""
    return shutil.which(os.environ.get("NFQ_NOOP") or str(ROOT / "nfq-noop")) or shutil.which("nfq-noop")
