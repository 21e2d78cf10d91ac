"""A secret is masked in each of its forms, wherever the output is split into reads and into lines."""

import base64
import html
import json
import re
from collections.abc import Callable
from functools import cache
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terracrew.executor.output.lines import Cutter
from terracrew.masking.redactor import MASK, Redactor
from tests.builders.secret_scanner import SecretScanner
from tests.thoroughness import examples

pytestmark = pytest.mark.feature("L5.executor", "L5.forms")

Form = Callable[[str, str, str], str]
"""Returns the output that shows a secret between two other texts."""


def _base64(encode: Callable[[bytes], bytes]) -> Form:
    return lambda before, secret, after: encode(f"{before}{secret}{after}".encode()).decode()


def _wrapped(columns: int, prefix: str) -> Form:
    def form(before: str, secret: str, after: str) -> str:
        text = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
        return "\n".join(prefix + text[at : at + columns] for at in range(0, len(text), columns))

    return form


def _lower(text: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text)


def _hexadecimal(before: str, secret: str, after: str) -> str:
    return f"{before}{secret}{after}".encode().hex()


FORMS: dict[str, Form] = {
    "raw": lambda before, secret, after: f"{before}{secret}{after}",
    "json": lambda before, secret, after: json.dumps([before, secret, after]),
    "json of utf-8": lambda before, secret, after: json.dumps([before, secret, after], ensure_ascii=False),
    "json in json": lambda before, secret, after: json.dumps(json.dumps([before, secret, after])),
    "base64": _base64(base64.b64encode),
    "base64 for urls": _base64(base64.urlsafe_b64encode),
    "base64 in lines of 76": _wrapped(76, ""),
    "base64 in lines of 64 after a prefix": _wrapped(64, "terraform_data.it (local-exec): "),
    "base64 in short lines": _wrapped(20, "  "),
    "url": lambda before, secret, after: f"https://u:{quote(secret, safe='')}@h/{quote(after)}",
    "url in lower case": lambda before, secret, after: _lower(f"https://u:{quote(secret, safe='')}@h/{quote(after)}"),
    "path": lambda before, secret, after: f"/{quote(before)}/{quote(secret)}",
    "form": lambda before, secret, after: f"a={quote_plus(before)}&b={quote_plus(secret)}",
    "url in a url": lambda before, secret, after: (
        f"https://h/?to={quote(f'https://h/?p={quote_plus(secret)}', safe='')}"
    ),
    "url in a url in lower case": lambda before, secret, after: _lower(quote(_lower(quote(secret, safe="")), safe="")),
    "form in a form": lambda before, secret, after: f"a={quote_plus(quote_plus(secret))}",
    "json in a url": lambda before, secret, after: f"?q={quote(json.dumps([before, secret]), safe='')}",
    "json in a form": lambda before, secret, after: f"q={quote_plus(json.dumps([before, secret], ensure_ascii=False))}",
    "json in base64": lambda before, secret, after: base64.b64encode(json.dumps([before, secret]).encode()).decode(),
    "base64 in base64": lambda before, secret, after: base64.b64encode(
        f"{before}{_base64(base64.b64encode)(after, secret, '')}".encode()
    ).decode(),
    "base64 in a url": lambda before, secret, after: quote(_base64(base64.b64encode)(before, secret, after), safe=""),
    "hexadecimal": _hexadecimal,
    "hexadecimal in upper case": lambda before, secret, after: _hexadecimal(before, secret, after).upper(),
    "html": lambda before, secret, after: f"<b>{html.escape(secret)}</b>{before}",
}
SECRET = st.text("abcXYZ019-_=+/ é\"'\\<>&%", min_size=8, max_size=90).filter(
    lambda text: len(text.strip().encode()) >= 8 and len(set(text)) > 5
)
BESIDE = st.text("abc ./é\n", max_size=9)


@cache
def _redactor(secret: str) -> Redactor:
    return Redactor([secret])


def shown(secret: str, chunks: list[bytes]) -> bytes:
    """What is left of output that comes in these reads, with a pause after each of them."""
    cutter = Cutter(_redactor(secret))
    pieces = [piece for chunk in chunks for piece in (*cutter.feed(chunk), *cutter.flush())]
    pieces += cutter.flush(is_final=True)
    assert sum(piece.size for piece in pieces) == sum(map(len, chunks))
    return b"".join(piece.text for piece in pieces)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(25), deadline=None)
@given(SECRET, BESIDE, BESIDE, st.data())
def test_no_form_of_a_secret_is_shown_wherever_it_is_split(
    form: str, secret: str, before: str, after: str, data: st.DataObject
) -> None:
    text = FORMS[form](before, secret, after).encode()
    at = data.draw(st.integers(0, len(text)))
    masked = shown(secret, [text[:at], text[at:]])
    assert MASK in masked
    assert not SecretScanner({"secret": secret}).found_in(masked)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_masked_at_every_single_split(form: str) -> None:
    secret = "s3cr+t/é \"quoted\" & 'more' \\ of %41 it"
    text = FORMS[form]("before", secret, "after").encode()
    scanner = SecretScanner({"secret": secret})
    assert scanner.found_in(text), "the scanner finds it if nothing is masked"
    for at in range(len(text) + 1):
        assert not scanner.found_in(shown(secret, [text[:at], text[at:]])), at


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_secret_whose_lines_are_all_short_is_masked_as_a_whole_over_several_reads(ending: str) -> None:
    """Twelve words, one on each line: no line was long enough to be masked."""
    secret = "able\nbird\ncat\ndove\negg\nfox\n"
    text = secret.replace("\n", ending).encode()
    for at in range(len(text) + 1):
        masked = shown(secret, [b"words:\n" + text[:at], text[at:] + b"end\n"])
        assert masked == b"words:\n" + MASK + ending.encode() + b"end\n", at


def test_a_secret_of_several_lines_is_masked_in_json_and_in_a_url() -> None:
    secret = "able\nbird\ncat\ndove"
    for text in (json.dumps({"words": secret}), f"?words={quote(secret)}", json.dumps(json.dumps([secret]))):
        assert b"cat" not in shown(secret, [text.encode()])


def test_lines_are_not_held_back_for_a_secret_that_they_do_not_begin() -> None:
    cutter = Cutter(Redactor(["able\nbird\ncat"]))
    assert [piece.text for piece in cutter.feed(b"one\ntwo\n")] == [b"one\ntwo\n"]
    assert [piece.text for piece in cutter.feed(b"three\nable\n")] == [b"three\n"]
    assert [piece.text for piece in cutter.feed(b"other\n")] == [b"able\nother\n"]


def test_a_passphrase_that_an_engine_breaks_between_words_is_masked() -> None:
    """An engine breaks its messages after 78 columns, between words, and puts a mark before each line."""
    secret = "correct horse battery staple"
    masked = shown(secret, ["│ the password is correct horse\n│ battery staple\n".encode()])
    assert masked == "│ the password is ***\n│ ***\n".encode()


def test_text_that_repeats_a_secret_without_end_is_cut_into_large_pieces() -> None:
    """With a secret of zeros, a program that printed zeros and no line break made one event of each byte."""
    cutter = Cutter(Redactor(["00000000"]))
    pieces = [*cutter.feed(b"0" * 300_000), *cutter.flush(is_final=True)]
    assert len(pieces) <= 6
    assert set(b"".join(piece.text for piece in pieces)) <= set(b"*0")
    assert sum(piece.size for piece in pieces) == 300_000
