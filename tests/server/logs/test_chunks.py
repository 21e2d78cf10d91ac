"""A chunk contains the events that arrived, and no credential of ours."""

import pytest

from terracrew.protocol.events import Kind
from terracrew.server.logs import chunks
from terracrew.server.secrets import credentials
from tests.builders.deliveries import RUNNING, log


def test_a_chunk_gives_back_its_log_records_with_their_numbers() -> None:
    chunk = chunks.pack([(4, log("one\ntwo\n", 5.5)), (5, RUNNING), (6, log("thr", 6.5)), (7, log(b"\xff\n", 7.5))])
    assert chunk is not None
    assert (chunk.first, chunk.last, chunk.lines) == (4, 7, 3)
    assert [record.kind for _, record in chunks.records(chunk.data)] == [Kind.LOG] * 3
    found = list(chunks.events(chunk.data))
    assert [(each.n, each.time, each.step, each.text) for each in found] == [
        (4, 5.5, "plan", "one\ntwo\n"),
        (6, 6.5, "plan", "thr"),
        (7, 7.5, "plan", "�\n"),
    ]
    assert list(chunks.events(chunk.data, after=4)) == found[1:]
    assert chunks.text(chunk.data) == b"one\ntwo\nthr\xff\n"


def test_a_batch_without_log_records_makes_no_chunk() -> None:
    assert chunks.pack([(1, RUNNING)]) is None


@pytest.mark.feature("L5.server")
@pytest.mark.parametrize("prefix", ["tch", "tcj", "tcu", "tcw", "tco", "tcs", "tcl", "tcd", "tcr", "tca"])
def test_a_secret_of_ours_that_reached_a_log_is_masked_before_it_is_stored(prefix: credentials.Prefix) -> None:
    secret = credentials.new(prefix).text
    chunk = chunks.pack([(1, log("quiet\n")), (2, log(f"token={secret}, again: {secret}\n"))])
    assert chunk is not None
    assert chunks.text(chunk.data) == b"quiet\ntoken=***, again: ***\n"
    assert (chunk.first, chunk.last, chunk.lines) == (1, 2, 2)


def test_what_only_looks_like_one_stays() -> None:
    text = b"tch_short fetch_from_the_other_side_of_the_world_and_back_again tcx_" + b"0" * 43 + b"\n"
    chunk = chunks.pack([(1, log(text))])
    assert chunk is not None
    assert chunks.text(chunk.data) == text
