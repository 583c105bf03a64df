# SPDX-License-Identifier: GPL-2.0-or-later
"""Stored runs beside each other, some of which have been made to come from other machines."""

import shutil
import unittest
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from helper import DATA, ROOT, FolderTest, json_change, nfq_bench
from nfqbench.caveats import kernel_version
from nfqbench.compare import compare_render
from nfqbench.errors import Failure
from nfqbench.grid import WIDTH
from nfqbench.stats import Ratio
from nfqbench.store import Run, run_load
from nfqbench.summary import DIFFERENT, Comparison, Control

FIRST = DATA / "older"  # by a version that recorded less
LAST = sorted((ROOT / "results").glob("2*gso"))[-1]


class CompareTest(FolderTest):
    def changed(self, change: Callable[[Any], object]) -> Run:
        """The first run with another meta.json."""
        folder = self.folder / str(len(list(self.folder.iterdir())))
        shutil.copytree(FIRST, folder, ignore=shutil.ignore_patterns("raw"))
        json_change(folder / "meta.json", change)
        return run_load(folder)

    def render(self, a: Run, b: Run) -> str:
        text = compare_render("first", a, "second", b)
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)
        return text

    def beside(self, change: Callable[[Any], object]) -> str:
        return self.render(run_load(FIRST), self.changed(change))

    def sections(self, text: str) -> dict[str, list[str]]:
        """The texts of each section, put together again."""
        found: dict[str, list[str]] = {}
        for part in text.split("\n\n"):
            title, *lines = part.splitlines()
            joined: list[str] = []
            for line in lines:
                if line.startswith("    ") and joined:
                    joined[-1] += ("" if joined[-1].endswith("-") else " ") + line.strip()
                else:
                    joined.append(line.strip())
            found[title.partition(":")[0].partition(" (")[0]] = joined
        return found

    def differences(self, text: str) -> list[str]:
        return self.sections(text)["What differs"]

    def caveats(self, text: str) -> list[str]:
        return self.sections(text)["To be heeded"]


def machine_set(**values: object) -> Callable[[Any], None]:
    def change(meta: Any) -> None:
        meta["machine"].update(values)
    return change


def release_set(release: object) -> Callable[[Any], None]:
    def change(meta: Any) -> None:
        meta["machine"]["kernel"]["release"] = release
    return change


class Differences(CompareTest):
    def test_a_run_and_itself(self) -> None:
        text = self.render(run_load(FIRST), run_load(FIRST))
        self.assertEqual(self.differences(text), ["nothing differs in what is recorded"])
        self.assertNotIn("Only", text)
        self.assertRegex(text, r"\nnfq with GSO +(\S+) +\1 +100 % +yes ")

    def test_two_runs_of_one_machine(self) -> None:
        text = self.render(run_load(FIRST), run_load(LAST))
        for line in self.differences(text):
            self.assertNotRegex(line, "^(cpu|kernel|sysctls|mitigations)")

    def test_machine_kernel_sysctls_mitigations_tools(self) -> None:
        def change(meta: Any) -> None:
            machine = meta["machine"]
            machine["cpu"] = "Cortex-A72"
            machine["kernel"]["hz"] = 1000
            machine["sysctls"]["net.core.rmem_max"] = "212992"
            machine["mitigations"]["meltdown"] = "Vulnerable"
            machine["memory_bytes"] += 4096
            meta["tools"]["iperf3"] = "iperf 3.16"
            meta["backend"] = "nft"

        lines = self.differences(self.beside(change))
        self.assertEqual(lines[:4], [
            "cpu: AMD EPYC | Cortex-A72", "kernel.hz: 250 | 1000", "mitigations.meltdown: Mitigation: PTI | Vulnerable",
            "sysctls.net.core.rmem_max: 4194304 | 212992",
        ])  # fmt: skip
        self.assertRegex(lines[4], r"^tools\.iperf3: iperf 3\.12 .* \| iperf 3\.16$")
        self.assertEqual(lines[5:], ["backend: iptables-nft | nft"])

    def test_settings_and_rows_of_one_name(self) -> None:
        def change(meta: Any) -> None:
            scenario = meta["scenario"]
            scenario.update(cc="bbr", ping_count=100, family=6)
            scenario["modes"][1].update(noop="--no-gso --burst 1", pin="daemon=1")
            meta["sched"]["in_force"] = "other"

        self.assertEqual(self.differences(self.beside(change)), [
            "scenario cc: cubic | bbr", "scenario ping_count: 200 | 100", "scenario family: 4 | 6",
            "scheduling in force: rr:99 | other", "row \"nfq\", noop: --no-gso | --no-gso --burst 1",
            "row \"nfq\", pin: as the scenario says | daemon=1",
        ])  # fmt: skip

    def test_offloads_of_several_devices_in_one_line(self) -> None:
        def change(meta: Any) -> None:
            for device in ("client eth0", "server eth0"):
                meta["offloads"][device]["generic-receive-offload"] = "on"
            del meta["offloads"]["router to-client"]

        self.assertEqual(self.differences(self.beside(change)), [
            "offload generic-receive-offload of client eth0, server eth0: off | on",
            "devices: client eth0, router to-client, router to-server, server eth0 | client eth0, router to-server, "
            "server eth0",
        ])  # fmt: skip

    def test_what_is_unknown_is_said(self) -> None:
        lines = self.differences(self.beside(machine_set(governor="performance", clocksource=None)))
        self.assertEqual(lines, ["governor: unknown | performance", "clocksource: kvm-clock | unknown"])

    def test_what_an_older_version_did_not_record_is_said(self) -> None:
        lines = self.differences(self.beside(machine_set(idle={"driver": "none", "states": ["C1 1 us"]})))
        self.assertEqual(lines, ["not recorded by A: idle.driver, idle.states"])

    def test_orders_to_the_kernel_that_only_one_was_given(self) -> None:
        def order(**keys: str) -> Run:
            return self.changed(lambda meta: meta["machine"]["kernel"].update(command_line=keys))

        lines = self.differences(self.render(order(), order(idle="poll", nosmt="set")))
        self.assertEqual(lines, [
            "kernel.command_line.idle: not given | poll", "kernel.command_line.nosmt: not given | set",
        ])  # fmt: skip
        lines = self.differences(self.render(run_load(FIRST), order(idle="poll")))
        self.assertEqual(lines, ["not recorded by A: kernel.command_line.idle"])

    def test_of_much_that_was_not_recorded_the_number(self) -> None:
        def change(meta: Any) -> None:
            meta["machine"]["sysctls"].update({f"net.core.new{number}": "1" for number in range(4)})

        self.assertEqual(self.differences(self.beside(change)), ["not recorded by A: sysctls (4 values)"])

    def test_what_says_nothing_about_a_machine_is_left_out(self) -> None:
        def change(meta: Any) -> None:
            meta.update(host="elsewhere", started="2027-01-01T00:00:00Z", seed=7)

        self.assertEqual(self.differences(self.beside(change)), ["nothing differs in what is recorded"])


class Caveats(CompareTest):
    def test_kernels_whose_packets_lose_their_sockets(self) -> None:
        text = self.render(self.changed(release_set("4.9.0-13-amd64")), run_load(FIRST))
        (caveat,) = [caveat for caveat in self.caveats(text) if "4.19" in caveat]
        self.assertRegex(caveat, r"^Kernels before 4\.19 \(A\) take a packet's socket away")

    def test_kernels_whose_veth_has_no_gro(self) -> None:
        (caveat,) = [caveat for caveat in self.caveats(self.beside(release_set("5.10.0-rc1+"))) if "5.13" in caveat]
        self.assertRegex(caveat, r"^Before 5\.13 \(B\) generic-receive-offload")

    def test_kernels_that_do_alike(self) -> None:
        text = self.beside(release_set("6.1.0-13-amd64"))
        self.assertFalse([caveat for caveat in self.caveats(text) if "4.19" in caveat or "5.13" in caveat])

    def test_a_kernel_without_a_known_version(self) -> None:
        caveats = self.caveats(self.beside(release_set("next")))
        self.assertIn("The kernel's version is unknown (B): whether the two can be compared is, too.", caveats)

    def test_processor_and_kernel_both(self) -> None:
        def change(meta: Any) -> None:
            meta["machine"]["cpu"] = "Cortex-A72"
            meta["machine"]["kernel"]["release"] = "6.12.0"

        self.assertIn("Both processor and kernel differ", " ".join(self.caveats(self.beside(change))))

    def test_emulated_and_virtual_machines(self) -> None:
        caveats = self.caveats(self.beside(lambda meta: meta.update(emulated=True)))
        self.assertTrue(any(caveat.startswith("A is a virtual machine") for caveat in caveats))
        self.assertTrue(any(caveat.startswith("B was measured in an emulated machine") for caveat in caveats))
        caveats = self.caveats(self.beside(machine_set(virtualized=False)))
        self.assertFalse(any(caveat.startswith("B is a virtual") for caveat in caveats))

    def test_another_scenario_topology_or_family(self) -> None:
        def change(meta: Any) -> None:
            meta["scenario"].update(name="other", topology="pair", family=6)

        caveats = self.caveats(self.beside(change))
        for what in ("scenario (gso | other)", "scenario's topology (router | pair)", "scenario's family (4 | 6)"):
            self.assertTrue(any(caveat.startswith(f"Another {what}") for caveat in caveats), what)

    def test_too_few_blocks(self) -> None:
        caveats = self.caveats(self.render(run_load(FIRST), run_load(DATA / "run")))
        self.assertTrue(any(caveat.startswith("B has too few blocks (1 valid") for caveat in caveats))
        self.assertFalse(any(caveat.startswith("A has too few") for caveat in caveats))

    def controlled(self, says: str | None, shown_us: float | None) -> list[str]:
        run = run_load(FIRST)
        again = Comparison("none-again", "none", 5, Ratio(1, None, 1, 5), None, gbps_says=says, rtt_says=None)
        control = Control("nfq-gso-control", "nfq-gso", 5, 200.0, shown_us, ())
        summary = replace(run.summary, again=again, control=control)
        return self.caveats(self.render(replace(run, summary=summary), run))

    def test_controls(self) -> None:
        told = [caveat for caveat in self.controlled("equivalent", 201.0) if caveat.startswith("A ")]
        self.assertEqual([caveat for caveat in told if "control" in caveat], [])
        told = self.controlled(DIFFERENT, 90.0)
        self.assertIn("A failed its A/A control: two equal rows differ by more than chance explains.", told)
        self.assertIn("A failed its positive control: of 200 us of added delay the RTT shows 90.", told)
        self.assertIn("B was measured without controls: how much chance and the machine add is not known.", told)
        self.assertIn("A failed its positive control: of 200 us of added delay the RTT shows nothing.",
                      self.controlled("equivalent", None))  # fmt: skip


class Rows(CompareTest):
    def test_figures_percentages_and_intervals(self) -> None:
        a = run_load(FIRST)
        rows = tuple(
            replace(row, rtt_us=replace(row.rtt_us, mean=row.rtt_us.mean * 3, ci95=(1e6, 2e6)) if row.rtt_us else None)
            for row in a.summary.rows
        )
        text = self.render(a, replace(a, summary=replace(a.summary, rows=rows)))
        self.assertRegex(text, r"\n +RTT us +Gbit/s")
        self.assertRegex(text, r"\nnfq without GSO +\S+ +\S+ +300 % +no +(\S+) +\1 +100 % +yes\n")
        self.assertRegex(text, r"\n +RTT ratio +Gbit/s ratio\n")
        self.assertRegex(text, r"\nno nfq +-  +-  +-  +-  +-  +-  +-  +-\n")

    def test_rows_that_only_one_has(self) -> None:
        a = run_load(FIRST)
        summary = replace(a.summary, rows=a.summary.rows[:2])
        self.assertIn("\nOnly A has: \"nfq with GSO\".\n", self.render(a, replace(a, summary=summary)))
        self.assertIn("\nOnly B has: \"nfq with GSO\".\n", self.render(replace(a, summary=summary), a))

    def test_no_row_in_common(self) -> None:
        a = run_load(FIRST)
        b = replace(a, summary=replace(a.summary, rows=()))
        self.assertIn("\n\nNo row is in both.\n\nOnly A has: ", self.render(a, b))

    def test_figures_that_are_not_there(self) -> None:
        a = run_load(FIRST)
        bare = tuple(
            replace(row, rtt_us=None, gbps=None, rtt_vs_baseline=None, gbps_vs_baseline=None) for row in a.summary.rows
        )
        nothing = replace(a, summary=replace(a.summary, rows=bare))
        self.assertRegex(self.render(a, nothing), r"\nnfq with GSO +\d\S* +- +- +- +")
        self.assertNotIn("RTT us", self.render(nothing, nothing))


class Hostile(CompareTest):
    def refused(self, change: Callable[[Any], object], why: str) -> None:
        with self.assertRaisesRegex(Failure, why):
            self.beside(change)

    def test_text_that_controls_a_terminal(self) -> None:
        self.refused(machine_set(governor="\x1b[31m"), "^meta.json: machine.governor holds characters")
        self.refused(machine_set(**{"\x1b[31m": "x"}), "^meta.json: a key holds characters that do not belong")
        self.refused(lambda meta: meta["offloads"].update({"\x07": {}}), "^meta.json: a device holds characters")

    def test_names_of_directories(self) -> None:
        run = run_load(FIRST)
        text = compare_render("a\x1b[2J\nb", run, "x" * 300, run)
        self.assertTrue(text.startswith("A: a?[2J?b\nB: xxx"))
        self.assertLessEqual(max(map(len, text.splitlines())), WIDTH)

    def test_nested_deeply(self) -> None:
        deep: Any = {}
        for _ in range(900):
            deep = {"deeper": deep}
        self.refused(machine_set(idle=deep), "is nested too deeply")

    def test_values_of_another_kind(self) -> None:
        self.refused(lambda meta: meta.update(machine=[]), "should be an object")
        self.refused(machine_set(virtualized="perhaps"), "should be true or false")
        self.refused(release_set(5), "should be text")
        text = self.beside(machine_set(idle=[["x"], {"y": 1}], governor=["a", "b"], sysctls=None))
        self.assertIn("governor: unknown | a, b", self.differences(text))
        self.assertIn("not recorded by B: sysctls (11 values)", self.differences(text))

    def test_missing_parts(self) -> None:
        def change(meta: Any) -> None:
            for key in ("tools", "offloads", "sched", "processor", "root"):
                del meta[key]
            del meta["machine"]["kernel"]

        text = self.beside(change)
        self.assertIn("not recorded by B: kernel (5 values), tools (7 values)", self.differences(text))
        self.assertIn("processor: nfq-noop 0.1.0 | unknown", self.differences(text))
        self.assertIn("The kernel's version is unknown (B)", text)

    def test_very_long_values(self) -> None:
        self.assertIn("governor: ", self.beside(machine_set(governor="x" * 999)))


class Kernels(unittest.TestCase):
    def test_versions(self) -> None:
        for release, version in {
            "6.18.44-fc-v782": (6, 18), "4.9.0-13-amd64": (4, 9), "5.10.0-rc1+": (5, 10), "7.0-rc1": (7, 0),
            "6.1": (6, 1), "unknown": None, "": None, "next-20260101": None, "6": None, "99999.1": None,
        }.items():  # fmt: skip
            self.assertEqual(kernel_version(release), version, release)


class CommandLine(unittest.TestCase):
    def test_two_stored_runs(self) -> None:
        done = nfq_bench("compare", str(FIRST), str(LAST))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith(f"A: {FIRST.name}\nB: {LAST.name}\n\nWhat differs"))

    def test_a_run_that_is_not_there(self) -> None:
        done = nfq_bench("compare", str(FIRST), str(Path("/proc/none")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/none: no such run directory", done.stderr)
