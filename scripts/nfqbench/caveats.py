# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes a comparison of two runs doubtful, or forbids it.

Of kernels this is known: 9c4c325252c5 (4.19) lets a packet keep its socket when it crosses into another namespace,
until the IP layer there takes it in, before any hook but OUTPUT; d3256efd8e8b (5.13) gave veth GRO of its own, and
switched the flag off, which had been on without effect.
"""

import re
from collections.abc import Iterator

from .document import Node
from .store import Run
from .summary import DIFFERENT, FEW_BLOCKS

Version = tuple[int, int]

KEEPS_SOCKETS: Version = (4, 19)
VETH_HAS_GRO: Version = (5, 13)


def caveats_find(a: Run, b: Run) -> Iterator[str]:
    yield from _settings_judge(a, b)
    yield from _kernels_judge(a, b)
    for title, run in (("A", a), ("B", b)):
        yield from (f"{title} {text}" for text in _run_judge(run))


def kernel_version(release: str) -> Version | None:
    """Of "6.1.0-13-amd64" or "5.10.0-rc1+"."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})(?!\d)", release)
    return (int(match[1]), int(match[2])) if match else None


def _settings_judge(a: Run, b: Run) -> Iterator[str]:
    for name in ("name", "topology", "family", "together"):
        values = getattr(a.scenario, name), getattr(b.scenario, name)
        if values[0] != values[1]:
            what = "scenario" if name == "name" else f"scenario's {name}"
            yield f"Another {what} ({values[0]} | {values[1]}): rows of one name are not one measurement."


def _kernels_judge(a: Run, b: Run) -> Iterator[str]:
    machine_a, machine_b = a.meta["machine"], b.meta["machine"]
    releases = _release(machine_a), _release(machine_b)
    version_a, version_b = kernel_version(releases[0]), kernel_version(releases[1])
    if version_a is None or version_b is None:
        unknown = " and ".join(title for title, version in (("A", version_a), ("B", version_b)) if version is None)
        yield f"The kernel's version is unknown ({unknown}): whether the two can be compared is, too."
        return
    older, newer = min(version_a, version_b), max(version_a, version_b)
    title = "A" if older == version_a else "B"
    if older < KEEPS_SOCKETS <= newer:
        yield (
            f"Kernels before 4.19 ({title}) take a packet's socket away when it crosses into another namespace; later "
            "ones do so only when it is taken in there. TCP small queues count other packets, so that TCP sends in "
            "other bursts: even ratios of throughput are not comparable. No kernel lets the sender feel the queue of a "
            "router."
        )
    if older < VETH_HAS_GRO <= newer:
        yield (
            f"Before 5.13 ({title}) generic-receive-offload of veth says \"on\" and does nothing; later it is off by "
            "default, and merges packets where it is on: the same flag does not mean the same."
        )
    if releases[0] != releases[1] and machine_a["cpu"].text() != machine_b["cpu"].text():
        yield "Both processor and kernel differ: no difference can be put down to one of them."


def _release(machine: Node) -> str:
    kernel = machine.get("kernel")
    release = kernel.get("release") if kernel else None
    return release.text() if release else "unknown"


def _run_judge(run: Run) -> Iterator[str]:
    """Each text goes on after "A" or "B"."""
    if _says(run.meta, "emulated"):
        yield "was measured in an emulated machine: it tells what works, and nothing of speed."
    elif _says(run.meta["machine"], "virtualized"):
        yield "is a virtual machine: its hypervisor and its neighbours take part in every figure."
    valid = min((row.valid_cells for row in run.summary.rows), default=0)
    if valid < FEW_BLOCKS:
        yield f"has too few blocks ({valid} valid in the row with the fewest): its intervals are uncertain themselves."
    yield from _controls_judge(run)


def _says(node: Node, key: str) -> bool:
    found = node.get(key)
    return found.boolean() if found else False


def _controls_judge(run: Run) -> Iterator[str]:
    again, control = run.summary.again, run.summary.control
    if again is None and control is None:
        yield "was measured without controls: how much chance and the machine add is not known."
    if again is not None and DIFFERENT in (again.rtt_says, again.gbps_says):
        yield "failed its A/A control: two equal rows differ by more than chance explains."
    if control is not None and not control.is_trusted:
        shown = "nothing" if control.shown_us is None else f"{control.shown_us:.0f}"
        yield f"failed its positive control: of {control.expected_us:.0f} us of added delay the RTT shows {shown}."
