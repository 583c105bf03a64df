# SPDX-License-Identifier: GPL-2.0-or-later
"""Published figures of other machines: results/reference/*.json."""

from collections.abc import Iterator
from pathlib import Path

from . import paths
from .document import document_parse, file_parse
from .errors import Failure, Refused, UsageError
from .grid import figure_format
from .scenario import Scenario
from .summary import Reference, reference_parse


def reference_find(name: str) -> Reference:
    path = paths.REFERENCES / f"{name}.json"
    if Path(name).is_dir():
        path = Path(name) / "summary.json"
    elif not path.exists():
        raise UsageError(f"no reference \"{name}\"; there are: {', '.join(references_load())}; or a run directory")
    try:
        return reference_parse(file_parse(path.parent, path.name, document_parse), name)
    except Refused as error:
        raise Failure(str(error)) from None


def references_load() -> dict[str, Reference]:
    return {
        path.stem: reference_parse(file_parse(path.parent, path.name, document_parse), path.stem)
        for path in sorted(paths.REFERENCES.glob("*.json"))
    }


def published_sentences(scenario: Scenario) -> Iterator[str]:
    """What has been published about the scenario's question: a ratio of two rows of a reference each."""
    for name, row, other in scenario.published:
        reference = reference_find(name)
        if not {row, other} <= reference.figures.keys():
            raise Failure(f"published: {name} has no rows \"{row}\" and \"{other}\"")
        (_, gbps), (_, base) = reference.figures[row], reference.figures[other]
        if gbps and base:
            ratio = f"{figure_format(gbps / base)} ({figure_format(gbps)} / {figure_format(base)} Gbit/s)"
            yield f"Published: {reference.label}: \"{row}\" / \"{other}\" {ratio}."
