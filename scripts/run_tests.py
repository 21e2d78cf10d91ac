"""Runs pytest, and then once more, alone, the few tests that failed; `make test` calls it with pytest's own arguments.

Many tests wait for real processes beside other tests, on machines that others use too. A test that fails there and passes
alone is listed at the end and does not fail the run. A test that fails twice fails it.
"""

import os
import sys
from typing import Any

import pytest

MAX_REPEATED_TESTS = 15
"""A run with more failures than this has a cause that repeating them would only hide."""
_AGAIN = "--again"


class Outcomes:
    """A pytest plugin: which tests of a run failed, which passed, and whether the run came to its end."""

    def __init__(self) -> None:
        self.failed: dict[str, None] = {}
        self._passed: set[str] = set()
        self.is_complete = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self._passed.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        self.is_complete = not (session.shouldfail or session.shouldstop)

    @property
    def passed(self) -> set[str]:
        """The tests whose call passed and whose fixtures failed neither before nor after it."""
        return self._passed - set(self.failed)


def first(arguments: list[str]) -> int:
    """Run the tests. If few of them failed, replace this process with one that repeats those."""
    outcomes = Outcomes()
    code = int(pytest.main(arguments, plugins=[outcomes]))
    if code == pytest.ExitCode.TESTS_FAILED and outcomes.failed:
        if not outcomes.is_complete:
            print("\nThe run stopped before its end, so the failed tests are not repeated.")
        elif len(outcomes.failed) > MAX_REPEATED_TESTS:
            print(f"\n{len(outcomes.failed)} tests failed. More than {MAX_REPEATED_TESTS} are not repeated.")
        else:
            print(f"\n{_tests(len(outcomes.failed))} failed beside the others. Each is now repeated alone.", flush=True)
            os.execv(sys.executable, [sys.executable, "-m", "run_tests", _AGAIN, *outcomes.failed])  # noqa: S606
    return code


def again(names: list[str]) -> int:
    """Run the named tests one after the other, without the arguments of the first run: those may write a report."""
    outcomes = Outcomes()
    code = int(pytest.main(["-q", "-n", "0", *names], plugins=[outcomes]))
    # A test that was left out this time has shown nothing.
    not_passed = [name for name in names if name not in outcomes.passed]
    if not_passed:
        _report(f"{_tests(len(not_passed))} failed beside the others and did not pass alone:", not_passed)
        return code or int(pytest.ExitCode.TESTS_FAILED)
    _report(f"{_tests(len(names))} failed beside the others and passed alone:", names)
    print("The run has passed. Each of these tests depends on timing: find out why, and mend it.")
    return code


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"


def _report(headline: str, names: list[str]) -> None:
    print(f"\n{headline}")
    for name in names:
        print(f"  {name}")


if __name__ == "__main__":
    sys.exit(again(sys.argv[2:]) if sys.argv[1:2] == [_AGAIN] else first(sys.argv[1:]))
