"""The event parser: every way to cut a stream gives the same events."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from terracrew.client.sse import Event, Parser

STREAM = (
    ": a comment that keeps the connection alive\n\n"
    'id: 1.4\nevent: log\ndata: {"text": "täglich\\n"}\n\n'
    "event: job\r\ndata: first\r\ndata: second\r\n\r\n"
    "data\n\n"
    "retry: 10\nid: 1.5\rdata:no space\r\r"
    "event: nothing\n\n"
    "event: end\ndata: x\n\n"
    "event: half\ndata: never finished\n"
).encode()
EVENTS = [
    Event("log", '{"text": "täglich\\n"}', "1.4"),
    Event("job", "first\nsecond", "1.4"),
    Event("message", "", "1.4"),
    Event("message", "no space", "1.5"),
    Event("end", "x", "1.5"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_the_pieces_that_a_stream_arrives_in_make_no_difference(cuts: list[int]) -> None:
    places = sorted({0, *cuts, len(STREAM)})
    parser = Parser()
    found = [event for start, end in pairwise(places) for event in parser.feed(STREAM[start:end])]
    assert found == EVENTS


def test_a_broken_stream_leaves_no_half_event_behind() -> None:
    parser = Parser()
    assert parser.feed(b"id: 7\nevent: log\ndata: whole\n\nevent: log\ndata: ha") == [Event("log", "whole", "7")]
    parser.restart()
    assert parser.feed(b"event: job\ndata: next\n\n") == [Event("job", "next", "7")]
    assert parser.last_id == "7"
