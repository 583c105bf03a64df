# SPDX-License-Identifier: GPL-2.0-or-later
"""Export to flent (file format version 4): a file a row, which its plots and statistics take as a test of its own.

On the time axis the blocks follow each other, in each ping and then iperf3, or both at once if they were; of invalid
cells nothing is there. flent begins its load some seconds after its pings, ends it before them, and leaves these
seconds out of distributions; so that nothing is left out here, the first block begins as late.
"""

import gzip
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from .record import Cell, Json
from .scenario import Mode
from .store import Run

VERSION = 4
DELAY_S = 5  # flent's default
PING = "Ping (ms) ICMP"
UNITS = {PING: "ms"}  # of any other: Mbits/s

Point = tuple[float, float]  # seconds, value


@dataclass
class Timeline:
    """The points of each series."""

    points: dict[str, list[Point]] = field(default_factory=dict)
    end_s: float = DELAY_S

    def extend(self, series: str, start_s: float, points: Sequence[Point]) -> None:
        placed = [(round(start_s + after_s, 6), round(value, 6)) for after_s, value in points]
        self.points.setdefault(series, []).extend(placed)
        self.end_s = max([self.end_s, *(at_s for at_s, _ in placed)])


def flent_render(name: str, run: Run) -> dict[str, bytes]:
    """File name to content, for each row of which there are single pings or intervals; older runs have none."""
    files = {}
    for mode in run.scenario.modes:
        cells = [cell for cell in run.cells if cell.mode == mode.name]
        test, series = _test_of(run, mode)
        timeline = _timeline_make(cells, series, run.scenario.together)
        if timeline.points:
            file = f"{name}-{mode.name}.flent.gz"
            files[file] = _pack(_document_make(run, mode, test, file, timeline))
    return files


def _test_of(run: Run, mode: Mode) -> tuple[str, str | None]:
    """The test of flent that is like ours, and its series of throughput. It has none for UDP."""
    arguments = run.scenario.iperf_args_of(mode).split()
    if {"-u", "--udp"} & set(arguments):
        return "ping", None
    return ("tcp_download", "TCP download") if {"-R", "--reverse"} & set(arguments) else ("tcp_upload", "TCP upload")


def _timeline_make(cells: Sequence[Cell], series: str | None, together: bool) -> Timeline:
    timeline = Timeline()
    for cell in sorted(cells, key=lambda cell: cell.block):
        start_s = timeline.end_s + (1 if timeline.points else 0)
        if cell.rtts_us:
            pings = [(at_s, rtt_us / 1000) for at_s, rtt_us in zip(cell.replied_at_s, cell.rtts_us)]
            timeline.extend(PING, start_s, pings)
        if cell.intervals and series:
            rates = [(interval.end_s, interval.gbps * 1000) for interval in cell.intervals]
            timeline.extend(series, start_s if together else max(start_s, timeline.end_s), rates)
    return timeline


def _document_make(run: Run, mode: Mode, test: str, file: str, timeline: Timeline) -> Json:
    started = run.meta["started"].text()
    moment = datetime.fromisoformat(started)
    time = f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
    events = sorted((at_s, series, value) for series, points in timeline.points.items() for at_s, value in points)
    return {
        "version": VERSION,
        "metadata": {
            "NAME": test,
            "TITLE": mode.label,
            "TIME": time,
            "T0": time,
            "HOST": "server",
            "HOSTS": ["server"],
            "LOCAL_HOST": "client",
            "IP_VERSION": run.scenario.family,
            "LENGTH": round(timeline.end_s - DELAY_S),
            "TOTAL_LENGTH": timeline.end_s + DELAY_S,
            "STEP_SIZE": _step_s(run, mode),
            "TEST_PARAMETERS": {},
            "DATA_FILENAME": file,
            "FLENT_VERSION": f"nfq-bench {run.meta['version'].text()}",
            "SERIES_META": {series: {"UNITS": UNITS.get(series, "Mbits/s")} for series in timeline.points},
        },
        "x_values": [at_s for at_s, _, _ in events],
        "results": {series: [value if of == series else None for _, of, value in events] for series in timeline.points},
        "raw_values": {
            series: [{"t": round(moment.timestamp() + at_s, 6), "val": value} for at_s, value in points]
            for series, points in timeline.points.items()
        },
    }


def _step_s(run: Run, mode: Mode) -> float:
    """flent multiplies it by the sum of the rates to tell what was transferred."""
    intervals = [
        interval.end_s - interval.start_s for cell in run.cells if cell.mode == mode.name for interval in cell.intervals
    ]
    return round(sum(intervals) / len(intervals), 3) if intervals else run.scenario.ping_interval_ms / 1000


def _pack(document: Json) -> bytes:
    """Without time and name, and by a header that does not depend on zlib."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as packed:
        packed.write(json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode())
    return buffer.getvalue()
