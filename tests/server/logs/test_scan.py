"""A search finds what a reader would: in the text without colours, whatever pieces the log arrived in."""

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from terracrew.api.job_views import LogHit
from terracrew.errors import Invalid
from terracrew.protocol import events
from terracrew.protocol.events import Kind, Stream
from terracrew.protocol.spec import Step
from terracrew.server.logs import chunks, scan
from terracrew.server.logs.patterns import plain
from terracrew.server.logs.reads import Stored
from terracrew.server.logs.scan import LogQuery, Scan

LATER = time.monotonic() + 1e6


def stored(texts: list[list[bytes]], step: Step = Step.PLAN) -> list[Stored]:
    """Return chunks with one event for each text; an event's time is its number."""
    found: list[Stored] = []
    number = line = 0
    for group in texts:
        records: list[tuple[int, events.Record]] = []
        for text in group:
            number += 1
            packed = events.pack(Kind.LOG, Stream.OUTPUT, step, float(number), text)
            records.append((number, next(events.unpack(packed))))
        chunk = chunks.pack(records)
        assert chunk is not None
        found.append(Stored(chunk.last, chunk.size, chunk.data, first_line=line, lines=chunk.lines))
        line += chunk.lines
    return found


def hits(log: list[Stored], query: LogQuery, *, limit: int = 10_000, feeds: int = 1) -> list[LogHit]:
    """Return all hits, page by page, each page from the chunk on in which the lines around its first line begin."""
    found: list[LogHit] = []
    line = 0
    while True:
        each = Scan(query, query.pattern(), 1, line, limit)
        first = max((at for at, part in enumerate(log) if not at or part.first_line < line - query.context), default=0)
        rest = log[first:]
        size = -(-len(rest) // feeds)
        is_done = all(each.feed(rest[at : at + size], LATER) for at in range(0, len(rest), max(1, size)))
        if is_done:
            each.finish(has_open_line=False)
        found += each.hits
        if not each.is_full:
            return found
        assert each.next_line > line
        line = each.next_line


TEXT = some.lists(
    some.sampled_from(
        [b"a", b"ab", b"ERROR", b"error", b"\x1b[31m", b"\x1b[0m", b" ", b"\n", b"\n", b"\0", b"\xc3\xa4"]
    ),
    max_size=60,
).map(b"".join)
CUTS = some.lists(some.integers(0, 200), max_size=20)


@settings(max_examples=60, deadline=None)
@given(TEXT, CUTS, CUTS, some.integers(0, 2), some.sampled_from([1, 2, 10_000]), some.integers(1, 3))
def test_the_hits_are_the_lines_that_a_reader_would_find(
    text: bytes, cuts: list[int], ends: list[int], context: int, limit: int, feeds: int
) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    borders = sorted({0, len(pieces), *(end for end in ends if end < len(pieces))})
    log = stored([pieces[a:b] for a, b in itertools.pairwise(borders) if a < b])
    lines = [line.decode(errors="replace") for line in plain(text).split(b"\n")]
    lines = lines[:-1] if lines and not lines[-1] else lines
    for wanted in ("error", "b", "ä", "ab a"):
        found = hits(log, LogQuery(wanted, context=context), limit=limit, feeds=feeds)
        expected = [at for at, line in enumerate(lines) if wanted in line.lower()]
        assert [hit.line - 1 for hit in found] == expected
        for hit in found:
            at = hit.line - 1
            assert hit.text == lines[at]
            assert all(hit.text[a:b].lower() == wanted for a, b in hit.matches)
            assert len(hit.matches) == lines[at].lower().count(wanted)
            assert (hit.before, hit.after) == (lines[max(0, at - context) : at], lines[at + 1 : at + 1 + context])
            # The event is the one that has the first byte of the line.
            begin = sum(len(line) + 1 for line in text.split(b"\n")[:at])
            assert hit.n == sum(place <= begin for place in places[:-1])


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        (b"\x1b[1m\x1b[32mcre\x1b[0mated\x1b[0m\n", "created", "created"),
        (b"10%\r50%\rdone\r\n", "done", "done"),
        (b"a\0b\n", "ab", "ab"),
        (b"\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\\n", "link", "link"),
        (b"cre\x1bPq#0\x1b\\at\x1b_note\x1b\\ed\n", "created", "created"),
        (b"x (1+1) y\n", "(1+1)", "x (1+1) y"),
    ],
)
def test_what_a_terminal_does_not_show_is_not_searched(text: bytes, wanted: str, expected: str) -> None:
    assert [hit.text for hit in hits(stored([[text]]), LogQuery(wanted))] == [expected]


@pytest.mark.parametrize(("text", "wanted"), [(b"\x1b[31mred\x1b[0m\n", "31"), (b"10%\r50%\n", "10%")])
def test_the_codes_of_colours_are_no_hit(text: bytes, wanted: str) -> None:
    assert hits(stored([[text]]), LogQuery(wanted)) == []


def test_an_expression_is_held_against_each_line() -> None:
    log = stored([[b"one two\ntwo one\n\ntwo\r\n"]])
    for expression, expected in (
        ("^two", [2, 4]),
        ("two$", [1, 4]),
        ("^$", [3]),
        ("one[^x]*two", [1]),
        ("x*", [1, 2, 3, 4]),
    ):
        assert [hit.line for hit in hits(log, LogQuery(expression, is_regex=True))] == expected, expression
    assert [hit.line for hit in hits(log, LogQuery("TWO", is_case_sensitive=True))] == []


@pytest.mark.parametrize("expression", ["(a", "a{1001}", "(?=a)", r"(a)\1", "((a{100}){10}){10}", "[a-q][^u-z]{100}x"])
def test_an_expression_that_is_wrong_or_too_large_is_refused(expression: str) -> None:
    with pytest.raises(Invalid):
        LogQuery(expression, is_regex=True).pattern()


@pytest.mark.parametrize(
    "expression", ["error.{0,60}timeout", "(timeout|refused|denied|not found){1,5}", r"\bi-[0-9a-f]{17}\b"]
)
def test_expressions_that_people_write_are_small_enough(expression: str) -> None:
    assert hits(stored([[b"nothing\n"]]), LogQuery(expression, is_regex=True)) == []


@pytest.mark.parametrize("expression", ["(a*)*b", "(a|aa)+$x", "(a?){200}a{200}b", ".*.*.*=.*x"])
def test_no_expression_takes_more_than_linear_time(expression: str) -> None:
    """Python's own expressions would look at `(a*)*b` for longer than the sun shines."""
    log = stored([[b"a" * 60_000 + b"\n"] for _ in range(4)])
    began = time.process_time()
    assert hits(log, LogQuery(expression, is_regex=True)) == []
    assert time.process_time() - began < 5


def test_a_line_of_megabytes_is_searched_and_shown_in_part() -> None:
    log = stored(
        [[b"x" * 65_000] for _ in range(80)] + [[b" needle ", b"y" * 1000], [b"z" * 60_000 + b"\nnext needle\n"]]
    )
    found = hits(log, LogQuery("needle", context=1))
    assert [(hit.line, hit.n) for hit in found] == [(1, 1), (2, 83)]
    first = found[0]
    assert len(first.text) <= scan.MAX_HIT_CHARACTERS
    assert first.text[slice(*first.matches[0])] == "needle"
    assert first.skipped + first.text.index("needle") == 65_000 * 80 + 1


def test_a_filter_is_for_the_event_that_a_line_begins_in() -> None:
    log = stored([[b"one needle\n", b"two needle\nthree ", b"needle\nfour needle\n"]])
    assert [hit.line for hit in hits(log, LogQuery("needle", only=chunks.Only(since=2.0)))] == [2, 3, 4]
    assert [hit.line for hit in hits(log, LogQuery("needle", only=chunks.Only(since=3.0)))] == [4]
    assert hits(log, LogQuery("needle", only=chunks.Only(steps=frozenset({Step.APPLY.number})))) == []
    assert len(hits(log, LogQuery("needle", only=chunks.Only(steps=frozenset({Step.PLAN.number}))))) == 4


def test_an_open_line_of_a_live_log_is_left_for_later() -> None:
    query = LogQuery("needle")
    each = Scan(query, query.pattern(), 1, 0, 10)
    assert each.feed(stored([[b"one\nneed"]]), LATER)
    each.finish(has_open_line=True)
    assert (each.hits, each.next_line) == ([], 1)


def test_a_page_that_ends_in_a_long_line_is_not_the_same_again() -> None:
    """A page that began with a line that took longer than a page ended where it began, so a search never ended."""
    query = LogQuery("needle")
    nothing = Scan(query, query.pattern(), 1, 0, 10)
    assert not nothing.feed(stored([[b"x" * 65_000] for _ in range(80)]), 0.0)
    assert (nothing.hits, nothing.next_line) == ([], 1)
    twice = Scan(query, query.pattern(), 1, 0, 10)
    assert not twice.feed(stored([[b"needle"], *([b"x" * 65_000] for _ in range(80))]), 0.0)
    assert ([hit.line for hit in twice.hits], twice.next_line) == ([1], 1)
    later = Scan(query, query.pattern(), 1, 0, 10)
    assert not later.feed(stored([[b"one\n", b"x" * 65_000], *([b"x" * 65_000] for _ in range(80))]), 0.0)
    assert later.next_line == 1  # the next page has its whole time for the line
