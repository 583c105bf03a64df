# SPDX-License-Identifier: GPL-2.0-or-later
"""The export to flent: its format, and that flent itself takes it, if it is here."""

import csv
import gzip
import json
import shutil
import subprocess
import unittest
from dataclasses import replace
from typing import Any

from helper import FolderTest
from made import PINGS, gbps, rtt_us, run_made, scenario_made, scenario_of_lines
from nfqbench.flent import flent_render
from nfqbench.scenario import Scenario
from nfqbench.store import Run

PING, UPLOAD = "Ping (ms) ICMP", "TCP upload"


def document(run: Run, mode: str) -> Any:
    return json.loads(gzip.decompress(flent_render("run", run)[f"run-{mode}.flent.gz"]))


def with_arguments(scenario: Scenario, arguments: str) -> Scenario:
    return replace(scenario, iperf_args=arguments)


class Format(unittest.TestCase):
    def test_a_file_a_row(self) -> None:
        modes = ["none", "nfq", "nfq-gso", "none-again", "nfq-gso-control"]
        names = [f"run-{mode}.flent.gz" for mode in modes]
        self.assertEqual(list(flent_render("run", run_made(scenario_made()))), names)

    def test_the_same_bytes_each_time_without_time_and_name(self) -> None:
        files = flent_render("run", run_made(scenario_made()))
        self.assertEqual(files, flent_render("run", run_made(scenario_made())))
        for content in files.values():
            self.assertEqual(content[:8], b"\x1f\x8b\x08\0\0\0\0\0")

    def test_metadata(self) -> None:
        value = document(run_made(scenario_made(), started="2026-01-02T03:04:05Z"), "nfq-gso")
        self.assertEqual(value["version"], 4)
        metadata = value["metadata"]
        told = {key: metadata[key] for key in ("NAME", "TITLE", "TIME", "T0", "HOST", "LOCAL_HOST", "STEP_SIZE")}
        time = "2026-01-02T03:04:05.000000Z"
        wanted = {"NAME": "tcp_upload", "TITLE": "nfq with GSO", "TIME": time, "T0": time, "HOST": "server",
                  "LOCAL_HOST": "client", "STEP_SIZE": 1.0}  # fmt: skip
        self.assertEqual(told, wanted)

    def test_all_pings_and_intervals_of_valid_cells(self) -> None:
        scenario = scenario_made()
        mode = scenario.mode("nfq")
        value = document(run_made(scenario, {(2, "nfq"): "x"}), "nfq")
        pings = [rtt / 1000 for block in (1, 3) for rtt in rtt_us(scenario, mode, block)]
        rates = [gbps(scenario, mode, block) * 1000 for block in (1, 3) for _ in range(2)]
        for series, wanted in ((PING, pings), (UPLOAD, rates)):
            self.assertEqual([each["val"] for each in value["raw_values"][series]], wanted)
            self.assertEqual([each for each in value["results"][series] if each is not None], wanted)
            self.assertEqual(len(value["results"][series]), len(value["x_values"]))

    def test_blocks_follow_each_other(self) -> None:
        value = document(run_made(scenario_made(), started="1970-01-01T00:00:00Z"), "nfq")
        pings, rates = ([each["t"] for each in value["raw_values"][series]] for series in (PING, UPLOAD))
        self.assertEqual(pings[0], 5)
        self.assertEqual([rates[0], rates[1]], [pings[PINGS - 1] + 1, pings[PINGS - 1] + 2])
        self.assertGreater(pings[PINGS], rates[1])
        self.assertEqual(value["x_values"], sorted(pings + rates))
        self.assertEqual(value["metadata"]["TOTAL_LENGTH"], rates[-1] + 5)

    def test_ping_and_load_at_once(self) -> None:
        value = document(run_made(scenario_of_lines(), started="1970-01-01T00:00:00Z"), "gso-2")
        self.assertEqual([value["raw_values"][series][0]["t"] for series in (PING, UPLOAD)], [5, 6])

    def test_other_direction_and_udp(self) -> None:
        for arguments, test, series in (("-R", "tcp_download", [PING, "TCP download"]), ("-u -b 1G", "ping", [PING])):
            value = document(run_made(with_arguments(scenario_made(), arguments)), "nfq")
            self.assertEqual((value["metadata"]["NAME"], sorted(value["results"])), (test, series))

    def test_older_runs_have_nothing_to_export(self) -> None:
        run = run_made(scenario_made())
        cells = tuple(replace(cell, rtts_us=(), replied_at_s=(), intervals=()) for cell in run.cells)
        self.assertEqual(flent_render("run", replace(run, cells=cells)), {})


@unittest.skipUnless(shutil.which("flent"), "no flent")
class Flent(FolderTest):
    def test_reads_every_point(self) -> None:
        run = run_made(scenario_made())
        for mode, wanted in (("nfq", {PING: 3 * PINGS, UPLOAD: 6}), ("nfq-gso-control", {PING: 3 * PINGS})):
            path = self.folder / f"run-{mode}.flent.gz"
            path.write_bytes(flent_render("run", run)[path.name])
            out = self.folder / "out.csv"
            command = ["flent", "-i", str(path), "-f", "csv", "-o", str(out)]
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60)
            rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
            told = {series: sum(row[series] not in ("", "None") for row in rows) for series in wanted}
            self.assertEqual(told, wanted)
