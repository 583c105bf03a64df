# SPDX-License-Identifier: GPL-2.0-or-later
"""nfq-bench: measures what the trip of packets through NFQUEUE costs.

Theory of operation

    scenario  what is compared: modes such as "no nfq" and "nfq with GSO"          (scenario.py, TOML)
    plan      blocks of cells: each block holds every mode once, in a seeded order (plan.py)
    cell      one measurement in fresh namespaces: cell.sh leaves a raw folder     (cell.py)
    evidence  the raw folder, parsed strictly     (evidence.py: ping.py iperf3.py kernel.py daemon.py)
    judge     a cell counts only if all witnesses agree with its label             (judge.py)
    record    one line of runs.jsonl                                               (record.py)
    summary   statistics over blocks                                               (summary.py, stats.py)
    table     what people read and paste                                           (table.py: header.py grid.py)

run.py goes through these steps and store.py keeps their outcome, with what it depended on (meta.py, machine.py).

Nothing is ever typed in or averaged in that was not proven. An unknown figure is None (null), never zero.
"""

VERSION = "0.1.0"
SCHEMA = 1
