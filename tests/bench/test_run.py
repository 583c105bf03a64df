# SPDX-License-Identifier: GPL-2.0-or-later
"""Whole runs: with a stand-in for cell.sh that hands out recorded cells, and, where namespaces are permitted, real."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from helper import DATA, ROOT, FolderTest, nfq_bench, reason_is_the_machine_s
from nfqbench import paths
from nfqbench.cell import stale_namespaces_remove
from nfqbench.verify import run_verify

# Runs nfq-bench with argv[1] in the place of cell.sh and without asking for privileges.
DRIVER = f"""
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {str(ROOT / "scripts")!r})
from pathlib import Path
from nfqbench import cell, cli, paths
paths.CELL = Path(sys.argv[1])
cell.namespaces_remove = lambda prefix: None
cli.root_ensure = lambda arguments: None
cli.sched_choose = lambda wanted, asked: (wanted, None)
sys.exit(cli.main(sys.argv[1:]))
"""

# Hands out the recorded cell of the mode that it is asked for.
RECORDED = f"""#!/usr/bin/env bash
while (($#)); do
    case $1 in
    --out) out=$2 ;;
    --mode) mode=$2 ;;
    --noop-args) noop=$2 ;;
    esac
    shift 2
done
case $mode:${{noop:-}} in
none:) cell=none ;;
*--delay*) cell=nfq-gso-control ;;
*--no-gso*) cell=nfq ;;
*) cell=nfq-gso ;;
esac
cp -r {DATA}/cells/$cell "$out"
"""

OPTIONS = ("--blocks", "2", "--seed", "42", "--ping", "20@5", "--iperf", "1", "--name", "test", "--no-controls")


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class StandIn(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.out = self.folder / "results"
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()

    def start(self, script: str, *options: str, driver: str = DRIVER) -> "subprocess.Popen[str]":
        cell = self.folder / "cell.sh"
        cell.write_text(script, encoding="ascii")
        cell.chmod(0o755)
        command = [sys.executable, "-c", driver, str(cell), "run", *OPTIONS, "--out", str(self.out), *options]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(self.temporary)},
        )  # fmt: skip

    def run_to_end(self, script: str, *options: str, driver: str = DRIVER) -> tuple[int, str, str]:
        process = self.start(script, *options, driver=driver)
        stdout, stderr = process.communicate(timeout=60)
        self.assertNotIn("Traceback", stderr)
        self.assertEqual(os.listdir(self.temporary), [])
        return process.returncode, stdout, stderr

    def proven(self, directory: Path) -> None:
        """Except that a cell that was recorded once cannot come after itself."""
        faults = [fault for fault in run_verify(directory).faults if "its counters are not behind" not in fault]
        self.assertEqual(faults, [])

    def stored(self) -> list[str]:
        return os.listdir(self.out) if self.out.exists() else []


class Stored(StandIn):
    def test_a_run_of_valid_cells(self) -> None:
        status, stdout, stderr = self.run_to_end(RECORDED)
        self.assertEqual(status, 0, stderr)
        (name,) = self.stored()
        self.assertRegex(name, r"^\d{8}T\d{6}Z-test-gso$")
        directory = self.out / name
        self.assertEqual(
            sorted(os.listdir(directory)),
            ["meta.json", "raw", "report.html", "rtt.svg", "runs.jsonl", "summary.csv", "summary.json", "table.txt",
             "throughput.svg"],
        )
        self.assertEqual((directory / "table.txt").read_text(encoding="utf-8"), stdout)
        self.assertEqual(nfq_bench("report", str(directory)).stdout, stdout)
        self.assertIn(f"stored in {directory}", stderr)

    def test_records_follow_the_plan_and_lead_to_raw_output(self) -> None:
        self.run_to_end(RECORDED)
        directory = self.out / self.stored()[0]
        records = [json.loads(line) for line in (directory / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertEqual([record["block"] for record in records], [1, 1, 1, 2, 2, 2])
        self.assertEqual([record["mode"] for record in records][:3], ["nfq-gso", "none", "nfq"])
        for record in records:
            self.assertEqual((record["valid"], record["reasons"]), (True, []))
            self.assertTrue((directory / record["raw"] / "ping.txt").exists())

    def test_meta_names_what_a_result_depends_on_and_nobody(self) -> None:
        self.run_to_end(RECORDED)
        text = (self.out / self.stored()[0] / "meta.json").read_text(encoding="utf-8")
        meta = json.loads(text)
        self.assertEqual((meta["schema"], meta["host"], meta["blocks"], meta["seed"]), (1, "test", 2, 42))
        self.assertEqual(meta["rules"][0], "iptables-nft -w -A FORWARD -j NFQUEUE --queue-num 0")
        self.assertEqual(meta["offloads"]["client eth0"]["tcp-segmentation-offload"], "on")
        self.assertEqual(meta["sched"]["in_force"], "rr:99")
        self.assertEqual(meta["machine"]["kernel"]["release"], os.uname().release)
        for secret in (str(self.folder), str(Path.home()) + "/", "10.0.1."):
            self.assertNotIn(secret, text)

    def test_one_invalid_cell_is_shown_and_not_averaged_in(self) -> None:
        broken = RECORDED + '[[ $out != */01-2-* ]] || echo "{" >"$out/iperf3.json"\n'
        status, stdout, stderr = self.run_to_end(broken)
        self.assertEqual(status, 0, stderr)
        self.assertIn("Invalid, not counted: 1 of 6 cells\n  block 1, no nfq: iperf3.json: not one JSON", stdout)
        self.assertRegex(stdout, r"no nfq .* 1 of 2\n")

    def test_an_unreadable_cell_with_a_queue_does_not_end_the_run(self) -> None:
        broken = RECORDED + '[[ $out != */01-1-* ]] || echo >"$out/processor.json"\n'
        status, stdout, stderr = self.run_to_end(broken)
        self.assertEqual(status, 0, stderr)
        self.assertIn("block 1, nfq with GSO: processor.json: empty", stdout)

    def test_a_row_that_is_mostly_invalid_makes_the_run_invalid(self) -> None:
        broken = RECORDED + '[[ $out != *-none ]] || echo 1 >"$out/end/tainted"\n'
        status, stdout, _ = self.run_to_end(broken)
        self.assertEqual(status, 3)
        self.assertEqual(stdout.count("taint went from 0 to 1"), 2)
        self.assertEqual(len(self.stored()), 1)

    def test_another_program_is_one_row_beside_the_baseline(self) -> None:
        other = RECORDED + """
[[ $mode == none ]] || { rm "$out/processor.json"; sed -i 's/^processor=.*/processor=x/' "$out/cell.conf"; }
"""
        command = "/home/someone/nfqws {queue} @/home/someone/list"
        status, stdout, stderr = self.run_to_end(other, "--processor", command)
        self.assertEqual(status, 0, stderr)
        self.assertRegex(stdout, r"\nnfqws ")
        self.assertNotIn("/home/someone", (self.out / self.stored()[0] / "meta.json").read_text(encoding="utf-8"))


class Controls(StandIn):
    def setUp(self) -> None:
        super().setUp()
        options = [option for option in OPTIONS if option != "--no-controls"]
        patch = mock.patch.object(sys.modules[__name__], "OPTIONS", options)
        patch.start()
        self.addCleanup(patch.stop)

    def test_every_block_has_the_baseline_twice_and_a_row_whose_packets_are_held(self) -> None:
        status, stdout, stderr = self.run_to_end(RECORDED)
        self.assertEqual(status, 0, stderr)
        (name,) = self.stored()
        records = [json.loads(line) for line in (self.out / name / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
        modes = ["nfq", "nfq-gso", "nfq-gso-control", "none", "none-again"]
        self.assertEqual(sorted(record["mode"] for record in records if record["block"] == 1), modes)
        self.assertEqual([record["tcp"] is None for record in records],
                         [record["mode"] == "nfq-gso-control" for record in records])  # fmt: skip
        floor = 'Noise floor: "no nfq" differs from itself by 1.00 % (RTT) and 1.00 % (Gbit/s); less means nothing.'
        self.assertIn(floor, " ".join(stdout.split()))
        self.assertRegex(stdout, r"Positive control: 200 us more were put in, \d+ us came out")
        self.proven(self.out / name)


class Precision(StandIn):
    def blocks(self, script: str, *options: str) -> tuple[int, str]:
        status, stdout, stderr = self.run_to_end(script, *options)
        self.assertEqual(status, 0, stderr)
        (name,) = self.stored()
        meta = json.loads((self.out / name / "meta.json").read_text(encoding="utf-8"))
        self.proven(self.out / name)
        blocks: int = meta["blocks"]
        return blocks, stdout

    def test_five_blocks_are_the_least(self) -> None:
        """The recorded cells are all alike, so that their ratios are known at once."""
        blocks, stdout = self.blocks(RECORDED, "--blocks", "7", "--precision", "5")
        self.assertEqual(blocks, 5)
        self.assertIn("blocks 5 of at most 7 (until ratios are known to 5 %), seed 42", " ".join(stdout.split()))

    def test_what_stays_uncertain_ends_at_the_limit(self) -> None:
        uncertain = RECORDED + '[[ $out != */0[2-6]-*-nfq ]] || echo "{" >"$out/iperf3.json"\n'
        status, _, stderr = self.run_to_end(uncertain, "--blocks", "6", "--precision", "5")
        self.assertEqual(status, 3, stderr)  # one valid cell of six has no interval, however long one measures
        (name,) = self.stored()
        self.assertEqual(json.loads((self.out / name / "meta.json").read_text(encoding="utf-8"))["blocks"], 6)


class Asked(StandIn):
    """What cell.sh is asked for, in the first cell of each mode."""

    TOLD = RECORDED.replace("bash\n", "bash\nfor word; do :; done; printf '%s\\n' \"$@\" >\"$0.${2##*-}\"\n", 1)

    def asked(self, scenario: str, mode: str, *options: str) -> dict[str, str]:
        self.run_to_end(self.TOLD, "--blocks", "1", *options, scenario)
        words = (self.folder / f"cell.sh.{mode}").read_text(encoding="utf-8").split("\n")
        return dict(zip(words[0::2], words[1::2]))

    def written(self, changes: str) -> str:
        """A scenario with these keys in the last row."""
        path = self.folder / "mine.toml"
        text = (ROOT / "scripts" / "scenarios" / "gso.toml").read_text(encoding="utf-8")
        path.write_text(text + changes, encoding="utf-8")
        return str(path)

    def test_what_is_usual(self) -> None:
        asked = self.asked("gso", "gso")
        self.assertEqual((asked["--topology"], asked["--queues"], asked["--sched"]), ("router", "1", "rr:99"))
        for option in ("--family", "--gso-max", "--rps", "--fanout", "--conntrack", "--udp"):
            self.assertNotIn(option, asked)

    def test_what_a_row_says(self) -> None:
        keys = 'sched = "other"\npin = "daemon=1"\nrps = "client=0"\nqueues = 2\nfanout = "cpu"\niperf_args = "-P 2"\n'
        asked = self.asked(self.written(keys), "gso")
        expected = {"--sched": "other", "--pin": "daemon=1", "--rps": "client=0", "--queues": "2", "--fanout": "cpu"}
        self.assertEqual(asked, asked | expected | {"--iperf-args": "-P 2"})

    def test_the_command_line_goes_over_it(self) -> None:
        scenario = self.written('sched = "other"\npin = "daemon=1"\niperf_args = "-P 2"\n')
        asked = self.asked(scenario, "gso", "--sched", "rr:7", "--pin", "daemon=0", "--iperf-args", "-R")
        self.assertEqual((asked["--sched"], asked["--pin"], asked["--iperf-args"]), ("rr:7", "daemon=0", "-R"))

    def test_another_family_and_greater_aggregates(self) -> None:
        keys = 'family = 6\ngso_max = 196608\ntopology = "pair"\nhook = "input"\nmtu = 9000\ngro = "on"\nconntrack = "on"\n'
        asked = self.asked(self.written(keys), "gso")
        expected = {"--family": "6", "--gso-max": "196608", "--topology": "pair", "--hook": "input", "--mtu": "9000"}
        self.assertEqual(asked, asked | expected | {"--gro": "on", "--conntrack": "on"})
        self.assertNotIn("--queues", self.asked(self.written(keys), "none"))

    def test_datagrams(self) -> None:
        asked = self.asked(self.written("udp_pps = 7\n\n[udp]\npps = 5\nbytes = 64\nsegments = 16\n"), "gso")
        self.assertEqual(asked, asked | {"--udp": "7", "--udp-bytes": "64", "--udp-segments": "16"})


class Prepared(StandIn):
    def scenario(self, prepare: str, processor: str) -> str:
        path = self.folder / "mine.toml"
        text = (ROOT / "scripts" / "scenarios" / "gso.toml").read_text(encoding="utf-8")
        text = text.replace('cc = "cubic"\n', f'cc = "cubic"\nprepare = ["{prepare}"]\n')
        path.write_text(f'{text}processor = "{processor}"\n', encoding="utf-8")
        return str(path)

    def test_what_a_row_needs_is_made_once_and_not_stored(self) -> None:
        told = RECORDED + """
[[ $out == *-gso ]] || exit 0
processor=$(<"$0.processor"); ${processor%% *} >>"$0.ran"
rm "$out/processor.json"; sed -i 's/^processor=.*/processor=x/' "$out/cell.conf"
"""
        keep = '    --processor) [[ ! $2 ]] || echo "$2" >"$0.processor" ;;\n'
        told = told.replace("    --mode)", f"{keep}    --mode)")
        make = "printf '#!/bin/sh\\\\necho ran\\\\n' >{work}/x; chmod +x x"
        scenario = self.scenario(make, "{work}/x {queue}")
        status, stdout, stderr = self.run_to_end(told, scenario)
        self.assertEqual(status, 0, stderr)
        self.assertEqual((self.folder / "cell.sh.ran").read_text(encoding="ascii"), "ran\nran\n")
        directory = self.out / self.stored()[0]
        self.assertEqual(len(os.listdir(directory / "raw")), 6)
        self.assertIn("nfq-noop 0.1.0 and x {queue}, SCHED_RR 99", stdout)
        meta = json.loads((directory / "meta.json").read_text(encoding="utf-8"))
        self.assertEqual(meta["scenario"]["modes"][2]["processor"], "x {queue}")
        self.assertNotIn(str(self.temporary), (directory / "meta.json").read_text(encoding="utf-8"))

    def test_what_cannot_be_made_is_told_before_anything_is_measured(self) -> None:
        scenario = self.scenario("echo first >&2; echo no compiler >&2; false; echo on >&2", "{work}/x {queue}")
        status, _, stderr = self.run_to_end("#!/bin/sh\ntouch $0.ran\n", scenario)
        self.assertEqual((status, self.stored(), (self.folder / "cell.sh.ran").exists()), (4, [], False))
        self.assertRegex(stderr, r"\nnfq-bench: cannot run here: prepare: .*: no compiler\n$")


class NotStored(StandIn):
    def test_a_full_disk_does_not_take_the_table_along(self) -> None:
        full = "import shutil\ndef full(*_):\n    raise OSError(28, 'No space left')\nshutil.copytree = full\n"
        driver = DRIVER.replace("sys.exit(", f"{full}sys.exit(")
        status, _, stderr = self.run_to_end(RECORDED, driver=driver)
        self.assertEqual((status, self.stored()), (1, []))
        self.assertRegex(stderr, r"cannot be stored: No space left; what would have been:\n\ngso: router")

    def test_a_machine_that_cannot(self) -> None:
        status, _, stderr = self.run_to_end("#!/bin/sh\necho 'cell.sh: cannot queue packets' >&2; exit 4\n")
        self.assertEqual((status, self.stored()), (4, []))
        self.assertTrue(stderr.endswith("nfq-bench: cell.sh: cannot queue packets\n"), stderr)

    def test_an_option_that_cell_refuses(self) -> None:
        status, _, stderr = self.run_to_end("#!/bin/sh\necho 'cell.sh: --pin: no' >&2; exit 2\n", "--pin", "client=0")
        self.assertEqual((status, self.stored()), (2, []))
        self.assertTrue(stderr.endswith("nfq-bench: cell.sh: --pin: no\n"), stderr)

    def test_a_cpu_that_is_not_there(self) -> None:
        status, _, stderr = self.run_to_end("#!/bin/sh\nexit 1\n", "--pin", "client=0,server=0,9999")
        self.assertEqual((status, self.stored()), (4, []))
        self.assertTrue(stderr.endswith("needs CPU 9999, which this machine has not for us\n"), stderr)

    def test_a_first_block_without_any_measurement_ends_the_run(self) -> None:
        status, _, stderr = self.run_to_end("#!/bin/sh\necho 'out of luck' >&2; exit 1\n")
        self.assertEqual((status, self.stored()), (1, []))
        self.assertIn("no cell of the first block could be measured: cell.sh ended with status 1: out of luck", stderr)
        self.assertNotIn("[4/6]", stderr)


SLEEPER = """#!/usr/bin/env bash
trap 'echo down >"$0.down"; exit 1' TERM
echo $$ >"$0.new"; mv "$0.new" "$0.pid"
while :; do read -rt 1 <> <(:); done
"""


class Interrupted(StandIn):
    def begin(self) -> "subprocess.Popen[str]":
        process = self.start(SLEEPER)
        self.assertTrue(wait_until((self.folder / "cell.sh.pid").exists))
        return process

    def test_a_signal_ends_the_cell_and_leaves_nothing(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number.name):
                process = self.begin()
                process.send_signal(number)
                _, stderr = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 128 + number)
                self.assertTrue(stderr.endswith("nfq-bench: interrupted; nothing was stored\n"), stderr)
                self.assertTrue((self.folder / "cell.sh.down").exists())
                self.assertEqual((os.listdir(self.temporary), self.stored()), ([], []))
                (self.folder / "cell.sh.down").unlink()
                (self.folder / "cell.sh.pid").unlink()

    def test_when_killed_the_cell_is_told_and_the_next_run_clears_up(self) -> None:
        process = self.begin()
        process.kill()
        process.communicate()
        self.assertTrue(wait_until((self.folder / "cell.sh.down").exists))
        self.assertEqual(self.stored(), [])
        self.assertEqual(len(os.listdir(self.temporary)), 1)
        status, _, stderr = self.run_to_end(RECORDED)
        self.assertEqual(status, 0, stderr)


def doctor_refusal() -> str:
    """Why no run is possible here; empty if one is."""
    done = nfq_bench("doctor")
    if done.returncode == 0:
        return ""
    missing = [line for line in done.stdout.splitlines() if line.startswith("missing")]
    return " ".join((missing[0] if missing else done.stderr.strip()).split()) or f"doctor: status {done.returncode}"


class Real(FolderTest):
    @classmethod
    def setUpClass(cls) -> None:
        refusal = doctor_refusal()
        if refusal:
            raise unittest.SkipTest(refusal)

    def test_three_rows_from_the_kernel(self) -> None:
        done = nfq_bench("run", "--blocks", "1", "--ping", "10@2", "--iperf", "1", "--out", str(self.folder))
        (directory,) = self.folder.iterdir()
        records = [json.loads(line) for line in (directory / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
        modes = {"none", "nfq", "nfq-gso", "none-again", "nfq-gso-control"}
        self.assertEqual({record["mode"] for record in records}, modes)
        reasons = [reason for record in records for reason in record["reasons"]]
        self.assertEqual([reason for reason in reasons if not reason_is_the_machine_s(reason)], [], done.stderr)
        self.assertIn(done.returncode, (0, 3) if reasons else (0,), done.stderr)

    @unittest.skipIf(os.geteuid(), "the namespaces of another mount namespace cannot be seen")
    def test_killed_and_its_cell_killed_the_next_run_removes_the_namespaces(self) -> None:
        ended = subprocess.Popen(["true"])
        ended.wait()
        prefix = f"nfqb{ended.pid}"
        subprocess.run([paths.NETNS, "up", "--prefix", prefix, "--quiet"], check=True)
        self.assertIn(f"{prefix}-router", os.listdir("/run/netns"))
        self.assertIn(prefix, stale_namespaces_remove())
        self.assertEqual([name for name in os.listdir("/run/netns") if name.startswith(f"{prefix}-")], [])

    @unittest.skipIf(os.geteuid(), "the namespaces of another mount namespace cannot be seen")
    def test_killed_the_cell_takes_its_namespaces_down(self) -> None:
        command = [sys.executable, str(ROOT / "scripts" / "nfq-bench"), "run", "--out", str(self.folder)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def ours() -> list[str]:
            return [name for name in os.listdir("/run/netns") if name.startswith(f"nfqb{process.pid}-")]

        self.assertTrue(wait_until(lambda: len(ours()) == 3))
        process.kill()
        process.wait()
        self.assertTrue(wait_until(lambda: not ours(), seconds=40), ours())
        self.assertEqual([path.name for path in self.folder.iterdir()], [])
