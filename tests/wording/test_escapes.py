"""Which terminal control sequences pass, in whatever pieces they arrive."""

import itertools
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from terracrew.wording.escapes import MAX_HELD_CHARACTERS, TerminalBytesFilter, TerminalFilter, plain

_ONLY_COLOURS = re.compile(r"(?:\x1b\[[0-9;:]*m|[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f])*\Z")
_HOSTILE = some.text(
    some.sampled_from("\x1b[]P_^X\\\x07\x18\x1a\x9b\x9c\x9d\x90?;:0123mHJh#(B >\r\n\t\x00é"), max_size=60
)


def shown(*pieces: str, keep_colours: bool = True) -> str:
    found = TerminalFilter(keep_colours=keep_colours)
    return "".join([found.feed(piece) for piece in pieces]) + found.finish()


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J",
        "\x1b[H",
        "\x1b[10;20H",
        "\x1b[?1049h",
        "\x1b[1A",
        "\x1b[K",
        "\x1bc",
        "\x1b7",
        "\x1b(0",
        "\x1b#8",
        "\x1b]0;title\x07",
        "\x1b]0;title\x1b\\",
        "\x1b]8;;http://x\x1b\\",
        "\x1b]52;c;aGk=\x07",
        "\x1bP1$tx\x1b\\",
        "\x1b_apc\x1b\\",
        "\x1b^pm\x1b\\",
        "\x1bXsos\x1b\\",
        "\x9b2J",
        "\x9d0;title\x9c",
        "\x90q\x9c",
        "\x1b[>4;1m",
        "\x1b[?4m",
        "\x07",
        "\x08",
        "\x0b",
        "\x0c",
        "\x7f",
        "\x84",
        "\x0e",
        "\x1b\x00",
    ],
)
def test_what_is_not_a_colour_is_dropped(hostile: str) -> None:
    """Clear screen, cursor movement and window titles reached the operator's terminal raw when colours were on."""
    assert shown(f"a{hostile}b") == shown(f"a{hostile}b", keep_colours=False) == plain(f"a{hostile}b") == "ab"


def test_colours_pass_where_they_are_wanted_and_the_terminal_is_not_left_coloured() -> None:
    text = "\x1b[1;38;5;9mred\x1b[0m\tplain\r\n"
    assert shown(text) == text
    assert shown("\x9b31mred") == "\x1b[31mred\x1b[0m"
    assert shown(text, keep_colours=False) == "red\tplain\r\n"


def test_a_string_without_an_end_hides_one_line_at_most() -> None:
    assert shown("a\x1b]0;never ended\nb") == "a\nb"
    assert shown("a\x1b]0;" + "x" * 10 * MAX_HELD_CHARACTERS, "y", "\x07b") == "ab"
    assert shown("a\x1b]0;never ended") == "a"


@given(text=_HOSTILE, cuts=some.lists(some.integers(0, 60)), keep_colours=some.booleans())
def test_it_makes_no_difference_how_a_text_is_cut(text: str, cuts: list[int], keep_colours: bool) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    whole = shown(text, keep_colours=keep_colours)
    assert shown(*pieces, keep_colours=keep_colours) == whole
    assert _ONLY_COLOURS.match(whole)
    assert keep_colours or "\x1b" not in whole


@given(text=_HOSTILE)
@example(text="\x9dhidden\x1b[B")
def test_bytes_are_filtered_like_the_text_that_they_spell(text: str) -> None:
    found = TerminalBytesFilter(keep_colours=True)
    out = b"".join([found.feed(bytes([byte])) for byte in text.encode()]) + found.finish()
    assert out.decode() == shown(text)


@pytest.mark.parametrize("end", ["", "\n", "\x1b", "x\n"])
@pytest.mark.parametrize("piece", ["\x9d", "\x1b]", "\x9b0", "\x1b[", "\x1b "])
def test_a_hostile_text_is_filtered_in_bounded_time(piece: str, end: str) -> None:
    """200 KB of starts of strings, and then a line feed, kept the filter busy for minutes."""
    text = piece * (200_000 // len(piece)) + end
    start = time.process_time()
    plain(text)
    shown(text)
    assert time.process_time() - start < 0.5
