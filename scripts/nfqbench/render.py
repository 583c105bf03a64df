# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of a run that follow from meta.json and runs.jsonl: the same two give the same bytes."""

from pathlib import Path

from .errors import CannotRun
from .page import page_render
from .plot import plots_render
from .store import Run, files_replace, json_render, run_load, run_name
from .table import csv_render, text_render


def files_render(run: Run) -> tuple[dict[str, str], str | None]:
    """The files, and why the pictures among them are missing, if they are."""
    name, missing = run_name(run.meta), None
    try:
        plots = plots_render(run)
    except CannotRun as error:
        plots, missing = {}, str(error)
    files = {
        "summary.json": json_render(run.summary.json()),
        "summary.csv": csv_render({name: run}),
        "table.txt": text_render(run),
        **plots,
        "report.html": page_render(name, run, plots),
    }
    return files, missing


def directory_render(directory: Path) -> str | None:
    """Writes the files of a stored run anew; returns why pictures are missing, if they are."""
    files, missing = files_render(run_load(directory))
    files_replace(directory, files)
    return missing
