"""Prints docs/features.md with the number of tests that name each item."""

import contextlib
import io
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ITEM = re.compile(r"^- ([A-Z]\d+) (.+)$")


class Collector:
    """Counts the marks of the tests that pytest collects; the cases of a parametrized test count as one."""

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for mark in item.iter_markers("feature"):
                for number in mark.args:
                    self.tests.setdefault(str(number), set()).add(item.nodeid.partition("[")[0])


def main() -> int:
    collector = Collector()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["--collect-only", "-q", str(ROOT / "tests")], plugins=[collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print(said.getvalue(), "the tests could not be collected", sep="\n", file=sys.stderr)
        return int(code)
    known: Counter[str] = Counter()
    for line in (ROOT / "docs" / "features.md").read_text().splitlines():
        if line.startswith("## "):
            print(f"\n{line.removeprefix('## ')}")
        elif match := ITEM.match(line):
            number, title = match.groups()
            known[number] += 1
            print(f"  {number:<4} {len(collector.tests.get(number, ())) or '·':>4}  {title}")
    proved = sum(1 for number in known if number in collector.tests)
    print(f"\n{proved} of {len(known)} items have tests")
    unknown = sorted(set(collector.tests) - set(known))
    if unknown:
        print(f"tests name items that docs/features.md does not have: {', '.join(unknown)}", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
