# SPDX-License-Identifier: GPL-2.0-or-later
"""The page: well-formed, alone in the world, harmless whatever a run says, and complete."""

import unittest
from dataclasses import replace
from html.parser import HTMLParser

from made import run_made, scenario_made
from nfqbench.page import page_render
from nfqbench.scenario import Mode
from nfqbench.store import Run

NAME = "20260102T030405Z-host-gso"
HOSTILE = "<script>a('1')</script>"
INVALID = {(2, "nfq"): "queue: the kernel dropped 2 packets"}
PLOTS = {"rtt.svg": '<?xml version="1.0"?>\n<svg viewBox="0 0 1 1"><defs><path id="x"/></defs></svg>\n'}
VOID = {"meta", "br", "hr", "img", "link"}


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def text_of(self, tag: str) -> str:
        return "\n".join(self.texts.get(tag, []))


def page_of(run: Run, plots: dict[str, str] = PLOTS) -> Page:
    return Page(page_render(NAME, run, plots))


class Form(unittest.TestCase):
    def test_every_element_is_closed(self) -> None:
        for run in (run_made(scenario_made()), run_made(scenario_made(), INVALID)):
            page = page_of(run)
            self.assertEqual(page.open, [])
            self.assertEqual([page.tags.count(tag) for tag in ("html", "head", "body", "main", "title")], [1] * 5)

    def test_nothing_is_fetched_or_run(self) -> None:
        page = page_of(run_made(scenario_made(), INVALID))
        self.assertFalse({"script", "link", "img", "iframe", "object", "form"} & set(page.tags))
        names = {name for name, _ in page.attributes}
        self.assertFalse({"src", "srcset", "style", "action"} & names)
        self.assertFalse({name for name in names if name.startswith("on")})
        for name, value in page.attributes:
            if name.endswith("href"):
                self.assertTrue(value.startswith("#"), value)
        self.assertNotIn("url(", page.text_of("style"))
        self.assertNotIn("@import", page.text_of("style"))

    def test_tables_tell_what_their_cells_belong_to(self) -> None:
        page = page_of(run_made(scenario_made()))
        self.assertGreater(page.tags.count("table"), 3)
        self.assertEqual(page.tags.count("table"), page.tags.count("caption"))
        scoped = [value for name, value in page.attributes if name == "scope"]
        self.assertEqual(page.tags.count("th"), len(scoped))
        self.assertEqual(set(scoped), {"col", "row", "colgroup"})

    def test_the_same_bytes_each_time(self) -> None:
        pages = {page_render(NAME, run_made(scenario_made(), INVALID), PLOTS) for _ in range(2)}
        self.assertEqual(len(pages), 1)

    def test_hostile_words_stay_words(self) -> None:
        scenario = scenario_made()
        modes = tuple(replace(mode, label=HOSTILE, iperf_args=f"--{HOSTILE}") for mode in scenario.modes)
        hostile = replace(scenario, modes=modes, question=HOSTILE)
        machine = {"cpu": HOSTILE, "cpus": 1, "kernel": {"release": HOSTILE}, HOSTILE: [HOSTILE]}
        run = run_made(hostile, {(2, "nfq"): HOSTILE}, machine=machine, version=HOSTILE, host=HOSTILE)
        text = page_render(HOSTILE, run, PLOTS)
        self.assertNotIn("<script", text)
        page = Page(text)
        for tag in ("title", "h1", "p", "li", "th", "summary", "dt", "dd"):
            self.assertIn(HOSTILE, page.text_of(tag), tag)


class Content(unittest.TestCase):
    def test_pictures_stand_in_the_page_without_their_prolog(self) -> None:
        text = page_render(NAME, run_made(scenario_made()), PLOTS)
        self.assertIn('<svg role="img" aria-label="Round trip times of all', text)
        self.assertIn('viewBox="0 0 1 1"><defs><path id="x"/></defs></svg>', text)
        self.assertNotIn("<?xml", text)
        self.assertNotIn("Pictures", page_of(run_made(scenario_made()), {}).text_of("h2"))

    def test_verdict_says_what_the_statements_say(self) -> None:
        words = page_of(run_made(scenario_made())).text_of("li")
        self.assertIn("Round trip time: “nfq without GSO” is slower than “no nfq”: 1.17 times (95 %: 1.17-1.17", words)
        self.assertRegex(words, r"Throughput: “nfq with GSO” is slower than “no nfq”: 0\.3\d+ times")
        self.assertEqual(words.count("Round trip time: “no nfq again” and “no nfq” are equivalent: 1.00 times"), 1)

    def test_cells_that_count_are_counted(self) -> None:
        self.assertIn("15 of 15 cells are valid.", page_of(run_made(scenario_made())).text_of("p"))
        page = page_of(run_made(scenario_made(), INVALID))
        self.assertIn("14 of 15 cells are valid.", page.text_of("p"))
        self.assertIn("block 2, “nfq without GSO”: queue: the kernel dropped 2 packets", page.text_of("li"))

    def test_controls(self) -> None:
        page = page_of(run_made(scenario_made()))
        self.assertIn("Positive control: 200 us more were put in, 200 us came out.", page.text_of("li"))
        self.assertIn("“control: +100 us” less “nfq with GSO”, RTT p50 in us", page.text_of("th"))

    def test_a_run_that_is_not_to_be_trusted_says_so_at_once(self) -> None:
        run = run_made(scenario_made())
        assert run.summary.control
        control = replace(run.summary.control, shown_us=20.0)
        page = page_of(replace(run, summary=replace(run.summary, control=control)))
        self.assertIn("NOT TO BE TRUSTED", page.text_of("p"))
        self.assertIn(("class", "alarm"), page.attributes)
        self.assertNotIn(("class", "alarm"), page_of(run).attributes)

    def test_ledger_of_each_cell_is_folded(self) -> None:
        page = page_of(run_made(scenario_made(), INVALID))
        self.assertEqual(page.tags.count("details"), 15)
        self.assertIn("block 2, “nfq without GSO”: invalid", page.text_of("summary"))
        self.assertIn("the rule", page.text_of("th"))
        self.assertIn("iperf3 sent bytes", page.text_of("th"))
        self.assertLessEqual({"4321", "98765", "100", "-"}, set(page.texts["td"]))

    def test_machine(self) -> None:
        machine = {"cpu": "A", "cpus": 2, "virtualized": True, "hypervisor": None, "kernel": {"release": "6.1"}}
        page = page_of(run_made(scenario_made(), machine=machine, extended={"host": "secret"}))
        self.assertLessEqual({"cpu", "virtualized", "kernel", "release"}, set(page.texts["dt"]))
        self.assertLessEqual({"A", "2", "yes", "-", "6.1"}, set(page.texts["dd"]))
        self.assertNotIn("secret", page.text_of("dd"))

    def test_older_runs_have_no_controls_and_no_ledgers(self) -> None:
        run = run_made(scenario_made())
        modes = tuple(mode for mode in run.scenario.modes if not mode.role)
        older = run_made(replace(run.scenario, modes=modes))
        page = page_of(replace(older, cells=tuple(replace(cell, ledger=None) for cell in older.cells)))
        self.assertEqual(page.open, [])
        self.assertNotIn("details", page.tags)
        self.assertRegex(page.text_of("code"), r"--no-controls\n")


class Command(unittest.TestCase):
    def command(self, run: Run) -> str:
        return page_of(run).texts["code"][0]

    def test_with_its_seed_and_what_was_in_force(self) -> None:
        told = "nfq-bench run gso --blocks 3 --seed 1 --topology router --ping 20@5 --iperf 1 --sched rr:99"
        self.assertEqual(self.command(run_made(scenario_made())), told)

    def test_what_was_not_measured(self) -> None:
        self.assertIn(" --ping 0 ", self.command(run_made(scenario_made(ping_count=0))))

    def test_options_that_would_replace_what_rows_say_are_left_out(self) -> None:
        scenario = scenario_made(pin="client=0")
        modes = tuple(replace(mode, sched="other") if mode.name == "nfq" else mode for mode in scenario.modes)
        told = self.command(run_made(replace(scenario, modes=modes)))
        self.assertIn(" --pin client=0", told)
        self.assertNotIn("--sched", told)

    def test_another_program_is_quoted_for_a_shell(self) -> None:
        scenario = scenario_made()
        program = Mode(name="processor", label="x", queue=True, gso=None, processor="x {queue}")
        told = self.command(run_made(replace(scenario, modes=(*scenario.modes, program))))
        self.assertTrue(told.endswith(" --processor 'x {queue}'"), told)
