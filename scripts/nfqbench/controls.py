# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows that ask nothing of NFQUEUE, but whether this machine can be believed. Every run has them.

again    the baseline a second time, in a place of its own in every block. What the two differ by is made by the machine
         and by chance: it is the noise floor of the run.
control  a row with a queue once more, whose daemon holds each packet for a known time. What is put in must come out
         in the RTT, or the RTT of this machine means nothing. Only ping is measured of it.
"""

from dataclasses import replace

from .scenario import AGAIN, CONTROL, CONTROL_DELAY_US, LABEL_LENGTH, Mode, Scenario


def controls_add(scenario: Scenario) -> Scenario:
    held = _held(scenario)
    control = [_control_make(held)] if held else []
    return replace(scenario, modes=(*scenario.modes, _again_make(scenario), *control))


def _again_make(scenario: Scenario) -> Mode:
    baseline = scenario.mode(scenario.baseline)
    label = f"{baseline.label[: LABEL_LENGTH - 6]} again"
    return replace(baseline, name=f"{baseline.name}-{AGAIN}", label=label, line="", role=AGAIN)


def _held(scenario: Scenario) -> Mode | None:
    """The row whose packets are held in its twin: the last that is like it in all but the delay."""
    if not scenario.ping_count or scenario.together:
        return None
    return next((mode for mode in reversed(scenario.modes) if _can_be_held(mode)), None)


def _can_be_held(mode: Mode) -> bool:
    return mode.queue and not mode.processor and not mode.busy and mode.queues == 1 and "--delay" not in mode.noop


def _control_make(mode: Mode) -> Mode:
    noop = f"{mode.noop} --delay {CONTROL_DELAY_US}".lstrip()
    label = f"control: +{CONTROL_DELAY_US} us"
    return replace(mode, name=f"{mode.name}-{CONTROL}", label=label, noop=noop, line="", levels=(), role=CONTROL)
