# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as one HTML page that needs nothing else: no script, no other file, no network. Everything that comes from a
run passes `html.escape`, except for the pictures, in which gnuplot has done that."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from .grid import UNKNOWN, Grid, figure_format, grid_join
from .header import header_lines
from .ledger import NAMES, PHASES, Ledger
from .processors import NOOP
from .scenario import Scenario
from .stats import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER, Ratio
from .store import Run
from .summary import DIFFERENT, Comparison, Summary
from .table import controls_sentences, further_grids, main_grid, notes_lines, pairs_told

STYLE = """
:root { color-scheme: light dark; --line: #ccc; --soft: #f3f3f3; --alarm: #b00000; }
@media (prefers-color-scheme: dark) { :root { --line: #555; --soft: #262626; --alarm: #ff8a80; } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 0 1rem 3rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .2rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
thead th, td { white-space: nowrap; }
figure { margin: 1.5rem 0; break-inside: avoid; }
figure svg { display: block; min-width: 40rem; max-width: 60rem; border-radius: 4px; }
figcaption { font-size: .9rem; }
pre { background: var(--soft); padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .1rem 1rem; margin: 0; }
section > dl { font-size: .9rem; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
dd > dl { grid-column: 1 / -1; }
.alarm { color: var(--alarm); font-weight: 600; }
summary { cursor: pointer; }
@media (min-width: 40rem) { tbody th { white-space: nowrap; } }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-left: 1rem; } }
@media print { body { max-width: none; } .wide { overflow: visible; } figure svg { min-width: 0; } }
"""

FIGURES = {
    "rtt.svg": "Round trip times of all valid cells. Further to the left is better.",
    "throughput.svg": "Throughput of each block, and its mean. Further to the right is better.",
    "cdf.svg": "Round trip times of all valid cells, each row by itself. Further to the left is better.",
    "load.svg": "Round trip time while iperf3 runs, against the throughput that it reaches; medians over blocks.",
}

SENTENCES = {
    FASTER: "“{a}” is faster than “{b}”",
    SLOWER: "“{a}” is slower than “{b}”",
    EQUIVALENT: "“{a}” and “{b}” are equivalent",
    INCONCLUSIVE: "“{a}” and “{b}” are shown neither to differ nor to be equal",
    DIFFERENT: "“{a}” and “{b}” differ, though they are the same",
}


def page_render(name: str, run: Run, plots: Mapping[str, str]) -> str:
    """`plots` as plots_render makes them; without gnuplot there are none."""
    sections = (
        _section("What was measured", _measured(run)),
        _section("Verdict", _verdict(run)),
        _section("Tables", _tables(run)),
        _section("Pictures", "".join(_figure(plots[file], text) for file, text in FIGURES.items() if file in plots)),
        _section("Controls", _controls(run.summary)),
        _section("Invalid cells", _invalid_cells(run)),
        _section("Ledgers", _ledgers(run)),
        _section("Machine", _machine(run)),
        _section("How to reproduce", _reproduce(run)),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(name)}</h1></header>\n<main>\n{''.join(sections)}</main>\n"
        f"<footer><p>nfq-bench {escape(run.meta['version'].text())}</p></footer>\n</body>\n</html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}</section>\n" if body else ""


def _paragraph(text: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>\n"


def _list(items: Sequence[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{escape(item)}</li>\n" for item in items) + "</ul>\n" if items else ""


def _measured(run: Run) -> str:
    proof = f"What a valid cell has shown: {run.scenario.proof}" if run.scenario.proof else ""
    lines = [run.scenario.question, *([proof] if proof else []), *_unwrap(header_lines(run.meta))]
    return "".join(map(_paragraph, lines))


def _unwrap(lines: Sequence[str]) -> list[str]:
    """What was made to fit a terminal: lines that go on are indented."""
    return "\n".join(lines).replace("\n  ", " ").splitlines()


# --- verdict ---


def _verdict(run: Run) -> str:
    summary, valid = run.summary, sum(cell.valid for cell in run.cells)
    text = _paragraph(f"{valid} of {len(run.cells)} cells are valid.", "" if valid == len(run.cells) else "alarm")
    alarms = [sentence for sentence in controls_sentences(summary) if "NOT TO BE TRUSTED" in sentence]
    text += "".join(_paragraph(sentence, "alarm") for sentence in alarms)
    labels = summary.labels
    pairs = [pair for pair in pairs_told(summary) if pair != summary.again]
    return text + _list([line for pair in pairs for line in _pair_sentences(pair, labels)])


def _pair_sentences(pair: Comparison, labels: Mapping[str, str]) -> Iterator[str]:
    told = (("Round trip time", pair.rtt, pair.rtt_says), ("Throughput", pair.gbps, pair.gbps_says))
    for figure, ratio, says in told:
        if ratio and says:
            sentence = SENTENCES[says].format(a=labels[pair.mode], b=labels[pair.other])
            yield f"{figure}: {sentence}: {_ratio_format(ratio)}."


def _ratio_format(ratio: Ratio) -> str:
    ends = f"95 %: {'-'.join(map(figure_format, ratio.ci95))}; " if ratio.ci95 else ""
    return f"{figure_format(ratio.ratio)} times ({ends}{ratio.blocks} blocks)"


# --- tables and pictures ---


def _tables(run: Run) -> str:
    groups = "".join(f'<th scope="colgroup" colspan="3">{group}</th>' for group in ("RTT us", "Gbit/s"))
    text = _table("Round trip time and throughput", main_grid(run.summary, None), f"<tr><td></td>{groups}</tr>")
    text += _list(_unwrap(notes_lines(run, None)))
    for labels, parts in further_grids(run.summary):
        grid = grid_join([labels, *parts])
        text += _table(_caption(grid[0]), [["", *grid[0][1:]], *grid[1:]])
    return text


def _caption(headings: Sequence[str]) -> str:
    text = headings[0] or (headings[1] if len(headings) == 2 else "cost, and percentiles of the round trip time")
    return text[0].upper() + text[1:]


def _table(caption: str, grid: Grid, above: str = "") -> str:
    """The first line holds the headings, the first column those of the lines."""
    heads = "".join(f'<th scope="col">{escape(text)}</th>' if text else "<td></td>" for text in grid[0])
    lines = "".join(
        f'<tr><th scope="row">{escape(line[0])}</th>{"".join(f"<td>{escape(text)}</td>" for text in line[1:])}</tr>\n'
        for line in grid[1:]
    )
    return (
        f'<div class="wide"><table>\n<caption>{escape(caption)}</caption>\n'
        f"<thead>\n{above}<tr>{heads}</tr>\n</thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n"
    )


def _figure(svg: str, text: str) -> str:
    """Without what stands before the picture, which belongs to a file."""
    picture = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{escape(text)}"', 1)
    return f'<figure>\n<div class="wide">{picture}</div>\n<figcaption>{escape(text)}</figcaption>\n</figure>\n'


def _controls(summary: Summary) -> str:
    labels, control = summary.labels, summary.control
    twins = _pair_sentences(summary.again, labels) if summary.again else ()
    text = _list([*controls_sentences(summary), *twins])
    if control:
        head = ["", f"“{labels[control.mode]}” less “{labels[control.other]}”, RTT p50 in us"]
        lines = [[f"pair {number}", figure_format(us)] for number, us in enumerate(control.blocks_us, start=1)]
        ends = [["expected", figure_format(control.expected_us)], ["shown (median)", figure_format(control.shown_us)]]
        text += _table("Positive control, block by block", [head, *lines, *ends])
    return text


def _invalid_cells(run: Run) -> str:
    invalid = [cell for cell in run.cells if not cell.valid]
    labels = run.summary.labels
    lines = [f"block {cell.block}, “{labels[cell.mode]}”: {'; '.join(cell.reasons)}" for cell in invalid]
    return _list(lines) or _paragraph("None.")


# --- ledgers ---


def _ledgers(run: Run) -> str:
    """Folded: who doubts a cell looks at its own."""
    labels = run.summary.labels
    return "".join(
        f"<details>\n<summary>block {cell.block}, “{escape(labels[cell.mode])}”: "
        f"{'valid' if cell.valid else 'invalid'}</summary>\n{_ledger_table(cell.ledger)}</details>\n"
        for cell in run.cells if cell.ledger
    )  # fmt: skip


def _ledger_table(ledger: Ledger) -> str:
    """A line a station, a column a phase."""
    stations = dict.fromkeys(station for counts in ledger.values() for station in counts)
    lines = [
        [NAMES.get(station, station.replace("_", " ")), *(_count_format(counts, station) for counts in ledger.values())]
        for station in stations
    ]
    return _table("Packets, unless bytes are named", [["", *(PHASES.get(phase, phase) for phase in ledger)], *lines])


def _count_format(counts: Mapping[str, int | None], station: str) -> str:
    count = counts.get(station)
    return UNKNOWN if count is None else str(count)


# --- machine ---


def _machine(run: Run) -> str:
    """All that meta.json tells of it, by the names it has there; what identifies a machine stays there."""
    known = ("machine", "tools", "rules", "offloads")
    return _definitions({name: node.value for name, node in ((name, run.meta.get(name)) for name in known) if node})


def _definitions(values: Mapping[str, object]) -> str:
    lines = (f"<dt>{escape(name)}</dt><dd>{_definition(value)}</dd>\n" for name, value in values.items())
    return f"<dl>\n{''.join(lines)}</dl>\n"


def _definition(value: object) -> str:
    if isinstance(value, dict):
        return _definitions(value) if value else "none"
    if isinstance(value, list):
        return "; ".join(_definition(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNKNOWN if value is None else escape(str(value))


# --- how to reproduce ---


def _reproduce(run: Run) -> str:
    text = _paragraph("On a machine like this one, with the same version:")
    text += f"<pre><code>{escape(shlex.join(_command(run)))}</code></pre>\n"
    text += _paragraph("Whether the files of this run still prove it:")
    return f"{text}<pre><code>nfq-bench verify DIR</code></pre>\n"


def _command(run: Run) -> list[str]:
    """With what was in force, so that it does not matter where it came from: the scenario, options, or defaults."""
    scenario, meta = run.scenario, run.meta
    pings = f"{scenario.ping_count}@{scenario.ping_interval_ms}" if scenario.ping_count else "0"
    options = {
        "blocks": str(meta["blocks"].count()),
        "seed": str(meta["seed"].integer()),
        **_topology_option(scenario),
        "ping": pings,
        "iperf": str(scenario.iperf_seconds),
        **_whole_options(scenario),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    emulated = meta.get("vm")
    if emulated:
        words += ["--vm", emulated.text()]
    controls = [] if emulated or any(mode.role for mode in scenario.modes) else ["--no-controls"]
    return ["nfq-bench", "run", scenario.name, *words, *_processor_words(scenario), *controls]


def _topology_option(scenario: Scenario) -> dict[str, str]:
    """It would hold for all rows."""
    return {} if any(mode.topology for mode in scenario.modes) else {"topology": scenario.topology}


def _whole_options(scenario: Scenario) -> dict[str, str]:
    """Options would replace what rows say of their own: then they are left out. Of a processor's command the directory
    is not stored."""
    options = {}
    for name, key in (("sched", "sched"), ("pin", "pin"), ("iperf-args", "iperf_args")):
        value = getattr(scenario, key)
        if value and all(getattr(mode, key) is None for mode in scenario.modes):
            options[name] = value
    return options


def _processor_words(scenario: Scenario) -> list[str]:
    """Of the programs that took the place of nfq-noop: processors.py names their rows."""
    rows = [mode for mode in scenario.modes if re.fullmatch(r"(.+-)?processor\d*", mode.name)]
    commands = dict.fromkeys(mode.processor or NOOP for mode in rows)
    return [word for command in commands for word in ("--processor", command)]
