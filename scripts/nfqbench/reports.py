# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that look at stored runs: report, compare, verify, list."""

import argparse
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import paths
from .compare import compare_render
from .errors import INVALID_RESULTS, Failure, Refused, UsageError
from .flent import flent_render
from .machines import machine_line, machines_render
from .page import page_render
from .plot import plots_render
from .references import reference_find, references_load
from .render import directory_render
from .scenarios import scenario_find, scenario_names
from .store import Run, jsonl_render, run_load
from .summary import Reference
from .table import csv_render, markdown_render, text_render
from .verify import Verified, run_verify

VIEW_BOX = re.compile(r'viewBox="0 0 (\d+) (\d+)"')
FORMATS = ("text", "md", "csv", "json", "html", "svg", "flent", "machines")


def report_show(options: argparse.Namespace, _: Sequence[str]) -> int:
    if options.write:
        return _report_write(options.runs)
    reference = reference_find(options.ref) if options.ref else None
    runs = _runs_load(options.runs)
    if options.format == "flent":
        return _flent_write(runs)
    print(_runs_render(options.format, runs, reference), end="")
    return 0


def _runs_load(directories: Sequence[Path]) -> dict[str, Run]:
    """By the names of their directories; if two have the same, by the whole path."""
    names = Counter(path.resolve().name for path in directories)
    return {
        path.resolve().name if names[path.resolve().name] == 1 else str(path): run_load(path) for path in directories
    }


def _report_write(directories: Sequence[Path]) -> int:
    for directory in directories:
        missing = directory_render(directory)
        print(f"nfq-bench: {directory}: {missing or 'written anew'}", file=sys.stderr)
    return 0


def _flent_write(runs: Mapping[str, Run]) -> int:
    """Into the current directory: flent reads files."""
    for name, run in runs.items():
        for file, content in flent_render(name, run).items():
            Path(file).write_bytes(content)
            print(file)
    return 0


def _runs_render(form: str, runs: Mapping[str, Run], reference: Reference | None) -> str:
    if form == "csv":
        return csv_render(runs, reference)
    if form == "json":
        return jsonl_render([{"run": name, **run.summary.json()} for name, run in runs.items()])
    if form in ("html", "svg"):
        return _page_render(form, runs)
    if form == "machines":
        return machines_render(runs, references_load())
    render = markdown_render if form == "md" else text_render
    return "\n".join(render(run, reference) for run in runs.values())


def _page_render(form: str, runs: Mapping[str, Run]) -> str:
    if len(runs) > 1:
        raise UsageError(f"--format {form}: a page is about one run; give one directory")
    ((name, run),) = runs.items()
    plots = plots_render(run)
    return page_render(name, run, plots) if form == "html" else _plots_join(plots)


def _plots_join(plots: Mapping[str, str]) -> str:
    """One picture, the plots below each other."""
    width, height, parts = 0, 0, []
    for svg in plots.values():
        size = VIEW_BOX.search(svg)
        if size is None:
            raise Failure("a plot without a size came from gnuplot")
        place = f'<svg y="{height}" width="{size[1]}" height="{size[2]}"'
        parts.append(svg[svg.index("<svg") :].replace("<svg", place, 1))
        width, height = max(width, int(size[1])), height + int(size[2])
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    return "\n".join([head, *parts, "</svg>\n"])


def compare_show(options: argparse.Namespace, _: Sequence[str]) -> int:
    first, second = (run_load(path) for path in (options.first, options.second))
    print(compare_render(options.first.resolve().name, first, options.second.resolve().name, second), end="")
    return 0


def verify_show(options: argparse.Namespace, _: Sequence[str]) -> int:
    """All of them, whatever is wrong with one."""
    statuses = {_verify_one(directory) for directory in options.runs}
    return Failure.status if Failure.status in statuses else max(statuses)


def _verify_one(directory: Path) -> int:
    try:
        verified = run_verify(directory)
    except Refused as error:
        print(error)
        return INVALID_RESULTS
    except Failure as error:
        print(f"nfq-bench: {error}", file=sys.stderr)
        return Failure.status
    for fault in verified.faults:
        print(f"{directory}: {fault}")
    print(f"{directory}: {_verified_format(verified)}")
    return INVALID_RESULTS if verified.faults else 0


def _verified_format(verified: Verified) -> str:
    if not verified.judged:
        text = "NOT PROVEN: no cell can be judged again, for evidence was not kept (by older versions); the rest"
    else:
        text = f"{verified.judged} of {verified.cells} cells judged again: everything"
    count = len(verified.faults)
    return f"{text} follows from runs.jsonl" if not count else f"{count} fault{'s' if count > 1 else ''}"


def _run_describe(directory: Path) -> str:
    """A run that cannot be read does not hide the others."""
    try:
        run = run_load(directory)
        valid = sum(cell.valid for cell in run.cells)
        return f"{machine_line(run)}; {valid} of {len(run.cells)} cells valid"
    except Failure as error:
        return str(error).removeprefix(f"{directory}: ")


def list_show(options: argparse.Namespace, _: Sequence[str]) -> int:
    scenarios = {name: scenario_find(name).question for name in scenario_names()}
    references = {name: reference.label for name, reference in references_load().items()}
    parent = options.out or paths.results_default()
    runs = {str(path.parent): _run_describe(path.parent) for path in sorted(parent.glob("[!.]*/meta.json"))}
    for title, entries in (("Scenarios", scenarios), ("References (report --ref)", references), ("Runs", runs)):
        print(f"{title}:")
        for name, text in (entries or {"none": ""}).items():
            line = f"{name}: {text}" if text else name
            print(textwrap.fill(line, 100, initial_indent="  ", subsequent_indent="    "))
    return 0
