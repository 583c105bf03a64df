# SPDX-License-Identifier: GPL-2.0-or-later
"""nfq-bench: measures what the trip of packets through NFQUEUE costs.

Theory of operation

    scenario  what is compared: modes such as "no nfq" and "nfq with GSO"          (scenario.py, TOML)
    controls  modes more, which show whether this machine can be believed          (controls.py)
    plan      blocks of cells: each block holds every mode once, in a seeded order (plan.py)
    cell      one measurement in fresh namespaces: cell.sh leaves a raw folder     (cell.py)
    evidence  the raw folder, parsed strictly     (evidence.py: ping.py iperf3.py kernel.py daemon.py)
    judge     a cell counts only if all witnesses agree with its label             (judge.py, ledger.py)
    record    one line of runs.jsonl: the evidence, and the figures that follow    (record.py)
    summary   statistics over blocks, and what may be said of two rows             (summary.py, stats.py)
    render    what people look at:  table.py: header.py grid.py,  plot.py: gnuplot.py,  page.py

run.py goes through these steps and store.py keeps their outcome, with what it depended on (meta.py, machine.py:
host.py cpu.py kernelconfig.py cgroup.py). reports.py looks at stored runs: verify.py makes everything that follows from
runs.jsonl once more, compare.py (differences.py, caveats.py) puts two machines beside each other, machines.py all of
them, flent.py hands a run on to flent.

Nothing is ever typed in or averaged in that was not proven. An unknown figure is None (null), never zero.
"""

VERSION = "0.1.0"
SCHEMA = 1
