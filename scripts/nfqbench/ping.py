# SPDX-License-Identifier: GPL-2.0-or-later
"""The output of iputils' `ping -D -n`: one line a reply, then the summary.

Both must tell the same story. The lines give percentiles and the mean; the summary gives the least and the greatest
time, which the lines round from 1 ms upwards (three digits). A packet that came twice is "(DUP!)" in its line; times
of duplicates are not part of the statistics. Replies in another order than sent are counted, not refused.
"""

import re
import statistics
from dataclasses import dataclass

from .errors import Refused
from .stats import percentile

HEADER = re.compile(r"PING \S+ ?\(\S+\) .*bytes")
REPLY = re.compile(r"\[(\d+)\.(\d{6})\] \d+ bytes from \S+: icmp_seq=(\d+) ttl=\d+ time=(\d+(?:\.\d+)?) ms( \(DUP!\))?")
SUMMARY = re.compile(
    r"(\d+) packets transmitted, (\d+) received(?:, \+(\d+) duplicates)?"
    r"(?:, \+(\d+) errors)?, (\d+(?:\.\d+)?)% packet loss, time \d+ms"
)
TIMES = re.compile(
    r"rtt min/avg/max/mdev = (\d+\.\d+)/(\d+\.\d+)/(\d+\.\d+)/(\d+\.\d+) ms(?:, pipe \d+)?(?:, ipg/ewma \S+ ms)?"
)
PIPE = re.compile(r"pipe \d+")
ERROR = re.compile(r"\[\d+\.\d+\] From \S+ icmp_seq=\d+ .+")
BUSYBOX = re.compile(r"\d+ bytes from \S+: seq=\d+|round-trip min/avg/max = ")


@dataclass(frozen=True)
class Ping:
    transmitted: int
    received: int
    duplicates: int
    errors: int
    reordered: int
    rtts_us: tuple[float, ...]  # one a packet, in order of arrival
    min_us: float | None
    max_us: float | None
    replied_at_s: tuple[float, ...] = ()  # of each of rtts_us, after the first

    @property
    def lost(self) -> int:
        return self.transmitted - self.received

    @property
    def mean_us(self) -> float | None:
        return statistics.fmean(self.rtts_us) if self.rtts_us else None

    def percentile_us(self, fraction: float) -> float | None:
        return percentile(self.rtts_us, fraction) if self.rtts_us else None


@dataclass(frozen=True)
class _Reply:
    at_us: int
    sequence: int
    rtt_us: float
    rounding_us: float
    duplicate: bool


def ping_parse(text: str, source: str) -> Ping:
    if not text.strip():
        raise Refused(f"{source}: empty")
    if BUSYBOX.search(text):
        raise Refused(f"{source}: written by busybox's ping; iputils' is needed (Debian: iputils-ping)")
    lines = [line for line in text.splitlines() if line]
    if not HEADER.match(lines[0]):
        raise Refused(f"{source}: does not begin like iputils' ping: \"{lines[0]}\"")
    end = next((number for number, line in enumerate(lines) if line.startswith("--- ")), None)
    if end is None:
        raise Refused(f"{source}: cut: no summary at its end")
    errors = [line for line in lines[1:end] if ERROR.fullmatch(line)]
    replies = [_reply_parse(line, source) for line in lines[1:end] if line not in errors]
    return _summary_parse(lines[end + 1 :], replies, len(errors), source)


def _reply_parse(line: str, source: str) -> _Reply:
    match = REPLY.fullmatch(line)
    if not match:
        raise Refused(f"{source}: not a reply: \"{line}\"")
    seconds, microseconds, sequence, milliseconds, duplicate = match.groups()
    at_us = int(seconds) * 1000000 + int(microseconds)
    decimals = len(milliseconds.partition(".")[2])
    return _Reply(at_us, int(sequence), float(milliseconds) * 1000, 10.0 ** (3 - decimals), bool(duplicate))


def _summary_parse(lines: list[str], replies: list[_Reply], errors: int, source: str) -> Ping:
    match = SUMMARY.fullmatch(lines[0]) if lines else None
    if not match:
        raise Refused(f"{source}: no summary of packets that is understood")
    times = TIMES.fullmatch(lines[1]) if len(lines) > 1 else None
    if len(lines) > 2 or (len(lines) == 2 and not times and not PIPE.fullmatch(lines[1])):
        raise Refused(f"{source}: text behind the summary: \"{lines[-1]}\"")
    first = [reply for reply in replies if not reply.duplicate]
    told = [int(group or 0) for group in match.groups()[:4]]
    seen = [told[0], len(first), len(replies) - len(first), errors]
    if told != seen:
        raise Refused(f"{source}: sent, received, duplicates, errors: {seen} by its lines, {told} by its summary")
    _sequences_check(first, told[0], float(match[5]), source)
    _clock_check(replies, source)
    if bool(times) != bool(replies):
        raise Refused(f"{source}: {len(replies)} replies, but {'a' if times else 'no'} summary of times")
    if times:
        _times_check(replies, times, source)
    return Ping(
        transmitted=told[0],
        received=told[1],
        duplicates=told[2],
        errors=told[3],
        reordered=_reordered_count([reply.sequence for reply in first]),
        rtts_us=tuple(reply.rtt_us for reply in first),
        min_us=float(times[1]) * 1000 if times else None,
        max_us=float(times[3]) * 1000 if times else None,
        replied_at_s=tuple((reply.at_us - first[0].at_us) / 1000000 for reply in first),
    )


def _sequences_check(first: list[_Reply], transmitted: int, loss: float, source: str) -> None:
    sequences = {reply.sequence for reply in first}
    if len(sequences) != len(first) or not sequences <= set(range(1, transmitted + 1)):
        raise Refused(f"{source}: a reply to a packet that was never sent, or two to the same one")
    if transmitted and abs(loss - 100 * (transmitted - len(first)) / transmitted) >= 1:
        raise Refused(f"{source}: says {loss:g} % loss with {len(first)} of {transmitted} received")


def _clock_check(replies: list[_Reply], source: str) -> None:
    """Lines stand in order of arrival. A clock that is set meanwhile spoils round trip times, too."""
    for before, after in zip(replies, replies[1:]):
        if after.at_us < before.at_us:
            raise Refused(f"{source}: the clock was set back while ping ran, before icmp_seq={after.sequence}")


def _times_check(replies: list[_Reply], times: re.Match[str], source: str) -> None:
    """The summary is exact, a line is rounded to `rounding_us`, which bounds the difference."""
    slack = max(reply.rounding_us for reply in replies) + 1
    rtts = [reply.rtt_us for reply in replies]
    told = [float(value) * 1000 for value in times.groups()[:3]]
    for name, line, summary in zip(("min", "avg", "max"), (min(rtts), statistics.fmean(rtts), max(rtts)), told):
        if abs(line - summary) > slack:
            raise Refused(f"{source}: {name} is {line:.0f} us by its lines and {summary:.0f} us by its summary")


def _reordered_count(sequences: list[int]) -> int:
    greatest, reordered = 0, 0
    for sequence in sequences:
        reordered += sequence < greatest
        greatest = max(greatest, sequence)
    return reordered
