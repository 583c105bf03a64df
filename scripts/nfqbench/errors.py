# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors that end the program with one clear line; `status` is the exit status (nfq-bench(8))."""

INVALID_RESULTS = 3  # an exit status that is no error of the program


class Failure(Exception):
    """Something went wrong while running."""

    status = 1


class UsageError(Failure):
    """The user asked for something that does not exist."""

    status = 2


class CannotRun(Failure):
    """This machine cannot do what was asked."""

    status = 4


class Refused(Failure):
    """A text that a parser does not understand: no figure is taken from it."""


class Interrupted(Failure):
    """A signal asked for the end."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("interrupted; nothing was stored")
        self.status = 128 + signal_number
