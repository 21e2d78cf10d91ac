"""A pytest plugin: ends the run with a count of the tests that this machine could not run, and why."""

from collections import Counter
from typing import Any

_WORDS = ("Skipped: ", "skipped: ")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for word in _WORDS:
            reason = reason.removeprefix(word)
        reasons[reason] += 1
    if reasons:
        terminalreporter.section(f"{sum(reasons.values())} tests were left out", sep="-", yellow=True)
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:>5}  {reason}")
