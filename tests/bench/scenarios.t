#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs scenarios_test.py as all.t runs the others: it takes long, and has a time limit of its own."""

import runpy
import sys
from pathlib import Path

sys.argv[1:] = ["scenarios_test.py"]
runpy.run_path(str(Path(__file__).with_name("all.t")), run_name="__main__")
