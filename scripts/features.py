"""Prints docs/features.md with the number of tests that prove each clause, and the clauses that no test proves."""

import contextlib
import io
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINE = re.compile(r"^(?:- ([A-Z]\d+)|  - ([A-Z]\d+\.[a-z-]+)) (.+)$")


class Line(NamedTuple):
    """An item (`S3`) or a clause of one (`S3.first`)."""

    name: str
    title: str

    @property
    def is_clause(self) -> bool:
        return "." in self.name


class Collector:
    """Collects the marks of the tests that pytest finds; the cases of a parametrized test count as one."""

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for mark in item.iter_markers("feature"):
                for name in mark.args:
                    self.tests.setdefault(str(name), set()).add(item.nodeid.partition("[")[0])


def lines(page: str) -> Iterator[Line | str]:
    """Yield the headings, items and clauses of the page."""
    for text in page.splitlines():
        if text.startswith("## "):
            yield text.removeprefix("## ")
        elif match := LINE.match(text):
            yield Line(match[1] or match[2], match[3])


def report(page: str, tests: Mapping[str, set[str]]) -> tuple[str, int]:
    """Return the list with its counts, and the exit code: 1 if a mark names something that the page does not have."""
    found = list(lines(page))
    known = [each for each in found if isinstance(each, Line)]
    clauses = [each for each in known if each.is_clause]
    unproved = [each for each in clauses if not tests.get(each.name)]
    unknown = sorted(set(tests) - {each.name for each in known})
    said: list[str] = []
    for each in found:
        if isinstance(each, str):
            said.append(f"\n{each}")
        elif each.is_clause:
            said.append(f"    {each.name:<20} {len(tests.get(each.name, ())) or '·':>4}  {each.title}")
        else:
            said.append(f"  {each.name:<4} {each.title}")
    said += [f"\n{len(clauses) - len(unproved)} of {len(clauses)} clauses have tests. Without one:"]
    said += [f"  {each.name:<20} {each.title}" for each in unproved]
    whole = sorted({test for each in known if not each.is_clause for test in tests.get(each.name, ())})
    said += (
        [f"\n{len(whole)} tests name an item and none of its clauses:", *(f"  {test}" for test in whole)]
        if whole
        else []
    )
    said += [f"\ntests name what docs/features.md does not have: {', '.join(unknown)}"] if unknown else []
    return "\n".join(said), 1 if unknown else 0


def main() -> int:
    collector = Collector()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["--collect-only", "-q", str(ROOT / "tests")], plugins=[collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print(said.getvalue(), "the tests could not be collected", sep="\n", file=sys.stderr)
        return int(code)
    text, status = report((ROOT / "docs" / "features.md").read_text(), collector.tests)
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
