#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the unit tests beside this file (test_*.py, or those of a pattern) and tells each result in TAP, so that prove
counts them, too."""

import sys
import traceback
import unittest
from pathlib import Path
from types import TracebackType
from typing import TextIO

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"

ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class TapResult(unittest.TestResult):
    """One line a test; one more for each subtest that fails, and for a set-up of a class or module that does."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self.out = out
        self.count = 0

    def tell(self, verdict: str, test: unittest.TestCase, rest: str = "", error: ExcInfo | None = None) -> None:
        self.count += 1
        print(f"{verdict} {self.count} - {str(test).replace('#', '')}{rest}", file=self.out, flush=True)
        if error is not None:
            for line in "".join(traceback.format_exception(error[1])).splitlines():
                print(f"# {line}", file=self.out, flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.tell("ok", test)

    def addFailure(self, test: unittest.TestCase, err: ExcInfo) -> None:
        super().addFailure(test, err)
        self.tell("not ok", test, error=err)

    def addError(self, test: unittest.TestCase, err: ExcInfo) -> None:
        super().addError(test, err)
        self.tell("not ok", test, error=err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: ExcInfo | None) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell("not ok", subtest, error=err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.tell("ok", test, f" # SKIP {reason}")

    def addExpectedFailure(self, test: unittest.TestCase, err: ExcInfo) -> None:
        super().addExpectedFailure(test, err)
        self.tell("ok", test)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self.tell("not ok", test, " (succeeds unexpectedly)")


def main() -> int:
    sys.dont_write_bytecode = True  # nothing is left in the source tree, least of all by root
    sys.path.insert(0, str(SCRIPTS))
    result = TapResult(sys.stdout)
    result.buffer = True  # what a test prints is no result
    pattern = sys.argv[1] if len(sys.argv) > 1 else "test*.py"
    unittest.defaultTestLoader.discover(str(HERE), pattern).run(result)
    if result.count == 0:
        print("Bail out! no test in", HERE)
        return 1
    print(f"1..{result.count}")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
