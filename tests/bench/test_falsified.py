# SPDX-License-Identifier: GPL-2.0-or-later
"""Real cells that are sabotaged while the kernel measures them: each must be found out, for the right reason."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from helper import FolderTest, scenario_recorded
from nfqbench import paths
from nfqbench.document import file_parse
from nfqbench.errors import Refused
from nfqbench.evidence import evidence_read
from nfqbench.judge import judge
from nfqbench.kernel import Settings, settings_parse
from test_run import doctor_refusal, wait_until

PREFIX = f"nfqf{os.getpid()}"
PINGS = 60
OTHER = ("--sched", "other")
NONE = ("--mode", "none")
NO_IPERF3 = ("--iperf", "0")

Sabotage = Callable[[Path], object]


def settings(cell: Path) -> Settings:
    return file_parse(cell, "cell.conf", settings_parse)


def inside(role: str, *command: str) -> None:
    nsenter = ["nsenter", f"--net=/run/netns/{PREFIX}-{role}", "--", *command]
    subprocess.run(nsenter, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def rule_remove(cell: Path) -> None:
    backend = settings(cell)["backend"]
    inside("router", *("nft flush chain ip nfq packets" if backend == "nft" else f"{backend} -F FORWARD").split())


def rule_replace(cell: Path) -> None:
    """Packets pass unseen for a moment, after which everything looks as it did."""
    backend = settings(cell)["backend"]
    rule_remove(cell)
    inside("client", "sleep", "0.1")
    again = "nft add rule ip nfq packets counter queue num 0"
    inside("router", *(again if backend == "nft" else f"{backend} -A FORWARD -j NFQUEUE --queue-num 0").split())


def pings_drop(cell: Path) -> None:
    """For a moment, and at the far end, where nobody else counts what is missing."""
    backend = settings(cell)["backend"]
    if backend == "nft":
        inside("server", "nft", "add table ip lossy; add chain ip lossy input { type filter hook input priority 0; };"
               "add rule ip lossy input icmp type echo-request drop")  # fmt: skip
    else:
        inside("server", *f"{backend} -A INPUT -p icmp -j DROP".split())
    inside("server", "sleep", "0.05")
    inside("server", *("nft delete table ip lossy" if backend == "nft" else f"{backend} -F INPUT").split())


def processor_kill(cell: Path) -> None:
    os.kill(int(settings(cell)["processor_pid"]), signal.SIGKILL)


def offload_turn(_: Path) -> None:
    inside("server", "ethtool", "-K", "eth0", "tso", "off")


def iperf3_kill(_: Path) -> None:
    pids = subprocess.run(["ip", "netns", "pids", f"{PREFIX}-client"], capture_output=True, text=True, check=True)
    for pid in pids.stdout.split():
        if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "iperf3":
            os.kill(int(pid), signal.SIGKILL)


def setUpModule() -> None:
    if os.geteuid():
        raise unittest.SkipTest("only root can reach into the namespaces of a cell")
    refusal = doctor_refusal()
    if refusal:
        raise unittest.SkipTest(refusal)


def cell_measure(cell: Path, *options: str, sabotage: Sabotage | None = None, when: str = "ping.txt") -> None:
    """`sabotage` is done once the file `when` has something in it."""
    command = [str(paths.CELL), "--out", str(cell), "--prefix", PREFIX, "--ping", f"{PINGS}@5", "--iperf", "1"]
    failures: list[Exception] = []

    def sabotage_perform() -> None:
        path = cell / when
        try:
            assert wait_until(lambda: path.exists() and path.stat().st_size > 0), f"{when} does not come"
            if sabotage:
                sabotage(cell)
        except (AssertionError, OSError, Refused, subprocess.CalledProcessError) as error:
            failures.append(error)

    thread = threading.Thread(target=sabotage_perform)
    thread.start()
    try:
        subprocess.run([*command, *options], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    finally:
        thread.join()
        subprocess.run([paths.NETNS, "down", "--quiet", "--prefix", PREFIX], check=False)
    assert not failures, failures


class CellTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.cell = self.folder / "cell"

    def reasons(self, mode: str, sched: str = "other") -> tuple[str, ...]:
        """Under the label `mode`, if iperf3 was wanted as long as it was asked for."""
        try:
            evidence = evidence_read(self.cell)
            seconds = int(settings(self.cell)["iperf_seconds"])
        except Refused as refusal:
            return (str(refusal),)
        scenario = replace(scenario_recorded(), ping_count=PINGS, iperf_seconds=seconds, sched=sched)
        return judge(scenario, scenario.mode(mode), evidence)

    def found_out(self, pattern: str, mode: str, sched: str = "other") -> None:
        found = self.reasons(mode, sched)
        self.assertTrue(any(re.match(pattern, reason) for reason in found), found)


class OneCell(CellTest):
    """Of which several things are told."""

    measured: Path

    @classmethod
    def one_measure(cls, *options: str, sabotage: Sabotage | None = None) -> None:
        folder = Path(tempfile.mkdtemp(prefix="nfq-bench-test-"))
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.measured = folder / "cell"
        cell_measure(cls.measured, *options, sabotage=sabotage)

    def setUp(self) -> None:
        super().setUp()
        shutil.copytree(self.measured, self.cell)


class Honest(OneCell):
    """Without sabotage, under its own label and under others."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.one_measure(*OTHER)

    def test_it_is_valid(self) -> None:
        self.assertEqual(self.reasons("nfq-gso"), ())

    def test_under_the_label_of_a_row_without_a_queue(self) -> None:
        self.found_out("queue: there is a queue or a rule", "none")

    def test_aggregates_under_the_label_without_them(self) -> None:
        self.found_out(r"gso: \d+ packets queued of \d+ that the rule counted: the kernel did not segment", "nfq")
        self.found_out(r"gso: \d+ bytes a packet on a link behind the queue, over the MTU", "nfq")

    def test_another_policy_than_asked_for(self) -> None:
        self.found_out("sched: thread nfq-noop ran under other 0, not rr:99", "nfq-gso", sched="rr:99")

    def test_cut_output_of_iperf3(self) -> None:
        path = self.cell / "iperf3.json"
        os.truncate(path, path.stat().st_size // 2)
        self.found_out("iperf3.json: not one JSON document", "nfq-gso")


class Unqueued(OneCell):
    """Without a queue, another congestion control, and an offload is turned off behind our back."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.one_measure(*NONE, "--cc", "reno", sabotage=offload_turn)

    def test_the_rule_was_never_there(self) -> None:
        self.found_out("queue: it was not bound, or had no rule", "nfq-gso")

    def test_another_congestion_control(self) -> None:
        self.found_out("iperf3: the sender used reno, not cubic", "none")

    def test_an_offload_that_changed(self) -> None:
        self.found_out("offloads: tso of server eth0 was turned off while measuring", "none")


class Rule(CellTest):
    def test_deleted_in_mid_run(self) -> None:
        cell_measure(self.cell, *OTHER, *NO_IPERF3, sabotage=rule_remove)
        self.found_out("netns.sh: .*-router: the queue rule for IPv4 is gone", "nfq-gso")

    def test_missing_for_a_moment(self) -> None:
        cell_measure(self.cell, *OTHER, *NO_IPERF3, sabotage=rule_replace)
        self.found_out(r"ledger: ping: \d+ packets at IP before the hook, -?\d+ at the rule", "nfq-gso")


class Processor(CellTest):
    def test_killed_in_mid_run(self) -> None:
        cell_measure(self.cell, *OTHER, *NO_IPERF3, sabotage=processor_kill)
        self.found_out("the processor ended with status 137 during ping", "nfq-gso")

    def test_killed_behind_a_bypass_that_lets_packets_pass_unseen(self) -> None:
        """What cell.sh has started lives on, so that only the kernel can tell."""
        pid = self.folder / "pid"
        noop = f"'{paths.noop_find()}' --queue {{queue}} --sched other"
        wrapper = f"bash -c \"{noop} & echo \\$! >'{pid}'; wait; exec sleep 60\""
        cell_measure(self.cell, "--bypass", *NO_IPERF3, "--processor", wrapper,
                     sabotage=lambda cell: os.kill(int(pid.read_text(encoding="ascii")), signal.SIGKILL))  # fmt: skip
        self.found_out("queue: bypass is in force", "nfq-gso")
        self.found_out("queue: it was not bound, or had no rule, all the time", "nfq-gso")


class Gso(CellTest):
    def test_segments_under_the_label_with_it(self) -> None:
        cell_measure(self.cell, *OTHER, "--noop-args", "--no-gso")
        self.found_out(r"gso: \d+ packets queued of \d+ that the rule counted: the kernel segmented", "nfq-gso")
        self.found_out("gso: the daemon ran without it", "nfq-gso")

    def test_a_sender_that_makes_none(self) -> None:
        cell_measure(self.cell, *OTHER, "--tso", "off")
        self.found_out("gso: client eth0, which sends, has no TSO", "nfq-gso")
        self.found_out(r"gso: \d+ bytes a packet at the rule: no aggregates reached it", "nfq-gso")


class Losses(CellTest):
    def test_a_queue_that_is_too_short(self) -> None:
        cell_measure(self.cell, *OTHER, "--noop-args", "--maxlen 1")
        self.found_out(r"queue: the kernel dropped \d+ packets, because the queue was full", "nfq-gso")

    def test_a_buffer_that_is_too_small(self) -> None:
        cell_measure(self.cell, *OTHER, "--noop-args", "--maxlen 2048 --rcvbuf 4096")
        self.found_out(r"queue: the kernel dropped \d+ packets, because the socket buffer was full", "nfq-gso")

    def test_pings_that_vanish(self) -> None:
        cell_measure(self.cell, *OTHER, *NO_IPERF3, sabotage=pings_drop)
        self.found_out(rf"ping: \d+ of {PINGS} lost", "nfq-gso")


class Traffic(CellTest):
    def test_killed_in_mid_run(self) -> None:
        cell_measure(self.cell, *NONE, sabotage=iperf3_kill, when="congestion")
        self.found_out("iperf3.json: empty", "none")


if __name__ == "__main__":
    unittest.main()
