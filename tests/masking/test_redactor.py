"""Masking, and cutting output into events: properties that must hold for every secret and every way of reading."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terracrew.executor.output.lines import Cutter
from terracrew.masking import forms
from terracrew.masking.names import MIN_SECRET_BYTES
from terracrew.masking.redactor import MASK, Redactor
from terracrew.protocol.events import MAX_TEXT_BYTES
from tests.thoroughness import examples

# Few letters, so that secrets overlap, repeat and nearly match all the time.
SECRETS = st.lists(st.text("ab-", min_size=MIN_SECRET_BYTES, max_size=14), max_size=4)
TEXT = st.text("ab-\n é\r", max_size=200)


def cut(redactor: Redactor, chunks: list[bytes]) -> list[bytes]:
    """What becomes of output that is read in these chunks; an open line is shipped after each, as after a second's pause."""
    cutter = Cutter(redactor)
    pieces = [piece for chunk in chunks for piece in (*cutter.feed(chunk), *cutter.flush())]
    pieces += cutter.flush(is_final=True)
    assert sum(piece.size for piece in pieces) == sum(map(len, chunks)), "every byte is accounted for"
    return [piece.text for piece in pieces]


def chunked(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(at % (len(data) + 1) for at in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.feature("L5.executor")
@given(SECRETS, TEXT)
def test_no_secret_is_left_in_a_masked_text(secrets: list[str], text: str) -> None:
    masked = Redactor(secrets).mask(text.encode())
    for secret in secrets:
        for line in secret.splitlines():
            if len(line.strip()) >= MIN_SECRET_BYTES:
                assert line.strip().encode() not in masked


@pytest.mark.feature("L5.executor")
@given(SECRETS, st.text("ab-", max_size=40))
def test_a_small_text_is_masked_in_the_same_way_before_and_after_a_large_one(secrets: list[str], text: str) -> None:
    """A small text is searched in another way until the first large one has been masked."""
    fresh, used = Redactor(secrets), Redactor(secrets)
    used.mask(bytes(MAX_TEXT_BYTES))
    assert fresh.mask(text.encode()) == used.mask(text.encode())


@pytest.mark.feature("L5.executor")
@pytest.mark.parametrize("secret", ["hunter", "hunter22", "correct horse battery", "tch_" + "x7Kq-" * 9])
def test_each_form_of_a_secret_is_masked_wherever_it_is_in_a_small_text(secret: str) -> None:
    for form in forms.patterns(secret):
        for text in (form, b"before " + form, form + b" after"):
            assert form not in Redactor([secret]).mask(text)


@pytest.mark.feature("L5.executor")
@given(SECRETS, TEXT, st.lists(st.integers(0, 500), max_size=8))
def test_however_output_is_read_the_same_is_masked(secrets: list[str], text: str, cuts: list[int]) -> None:
    redactor = Redactor(secrets)
    whole = b"".join(redactor.mask(line) for line in text.encode().splitlines(keepends=True))
    pieces = cut(redactor, chunked(text.encode(), cuts))
    # A mask stands for a run of secrets. Where output paused inside such a run there may be two, and never a letter more.
    assert _shortened(b"".join(pieces)) == _shortened(whole)


def _shortened(text: bytes) -> bytes:
    while MASK * 2 in text:
        text = text.replace(MASK * 2, MASK)
    return text


@pytest.mark.feature("L3.complete")
@given(st.binary(max_size=400), st.lists(st.integers(0, 500), max_size=8))
def test_however_bytes_are_read_the_text_is_valid_and_the_same(data: bytes, cuts: list[int]) -> None:
    pieces = cut(Redactor([]), chunked(data, cuts))
    for piece in pieces:
        piece.decode()
    assert b"".join(pieces) == data.decode(errors="replace").encode()


@pytest.mark.feature("L3.complete")
@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from([b"x", "é".encode(), "😀".encode(), b"\xff", b"ab\n"]),
    st.integers(5_000, 70_000),
)
def test_an_event_holds_up_to_64_kib_and_a_longer_line_goes_on_in_the_next(lead: int, unit: bytes, chunk: int) -> None:
    data = b"y" * lead + unit * (200_000 // len(unit))
    chunks = [data[at : at + chunk] for at in range(0, len(data), chunk)]
    cutter = Cutter(Redactor(["yy-secret"]))
    pieces = [piece.text for part in chunks for piece in cutter.feed(part)]
    pieces += [piece.text for piece in cutter.flush(is_final=True)]
    assert max(map(len, pieces)) <= MAX_TEXT_BYTES
    assert b"".join(pieces) == data.decode(errors="replace").encode()


@pytest.mark.feature("L5.executor")
def test_a_secret_across_the_border_of_a_long_line_is_masked() -> None:
    secret = "the-secret-that-is-long"
    for lead in range(MAX_TEXT_BYTES - 30, MAX_TEXT_BYTES + 5):
        text = b"".join(cut(Redactor([secret]), [b"." * lead + secret.encode() + b"!" * 100]))
        assert text == b"." * lead + MASK + b"!" * 100


@pytest.mark.feature("L5.executor")
def test_a_secret_of_several_lines_is_masked_line_by_line() -> None:
    key = "-----BEGIN KEY-----\nabcdefgh\n  ijklmnop\nqr\n-----END KEY-----\n"
    assert Redactor([key]).mask(b"key:\n" + key.encode()) == b"key:\n***\n"
    shown = "".join(f"it: {line}\n" for line in key.splitlines())
    assert Redactor([key]).mask(shown.encode()) == b"it: ***\nit: ***\nit:   ***\nit: qr\nit: ***\n"


def test_lines_of_one_read_are_one_event_and_the_open_one_waits() -> None:
    cutter = Cutter(Redactor([]))
    assert [piece.text for piece in cutter.feed(b"one\ntwo\nthr")] == [b"one\ntwo\n"]
    assert cutter.has_open_line
    assert [piece.text for piece in cutter.feed(b"ee\rfour\n")] == [b"three\rfour\n"]
    assert not cutter.has_open_line


@pytest.mark.feature("L5.executor")
def test_a_million_lines_are_masked_in_well_under_a_second() -> None:
    line = b"\x1b[0m\x1b[1mterraform_data.a (local-exec):\x1b[0m \x1b[0m%07d\n"
    chunks = [b"".join(line % (start + at) for at in range(4000)) for start in range(0, 1_000_000, 4000)]
    cutter = Cutter(Redactor([f"a-token-of-forty-three-characters-{at:09d}" for at in range(6)]))
    started = time.process_time()
    size = sum(piece.size for chunk in chunks for piece in cutter.feed(chunk))
    assert time.process_time() - started < 1.0
    assert size == sum(map(len, chunks))
