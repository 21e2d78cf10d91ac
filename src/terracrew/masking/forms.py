"""The forms in which a secret appears in text: as it is, in base64, escaped for JSON, URLs, XML and shells, and broken into lines."""

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

from terracrew.masking.names import MIN_SECRET_BYTES

_MAX_PATTERN_BYTES = 4096
"""A longer pattern is cut into several, so that little of an open line is held back while it may become a secret."""
_BASE64_GROUP_CHARACTERS = 4
_BASE64_WINDOW_CHARACTERS = 8
"""Base64 is searched for in pieces of this length. Programs break it into lines between its groups of four characters, and may
put other text before each line, so the encoded secret as a whole may never appear."""
_LONG_SECRET_BYTES = 12
"""If the base64 of so long a secret is broken into two lines, one of them has a whole piece of it."""
_MIN_BROKEN_CHARACTERS = 5
_MIN_WORDS_BYTES = 12
"""A part of a passphrase is masked by itself from this length on: engines break their messages into lines between words."""
_MAX_WORDS_BYTES = 256
"""A longer line is not a passphrase. Its parts may be ordinary text, and a log without them could not be read."""
_URL_SAFE_CHARACTERS = ("", "/", "!'()*", "$&+,;=", "$&+:=@")
"""The reserved characters that functions leave as they are: Python's, JavaScript's, and Go's for passwords and for paths."""
_TO_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")
_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9_.~-]*")
"""Most tokens have only these characters, so that they look the same in JSON, URLs, XML and shells."""
_PERCENT = re.compile("%[0-9A-F]{2}")
_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")


def patterns(secret: str, *, is_encoded: bool = True) -> set[bytes]:
    """Return the patterns to search for. Output may have other text before each line, so each line of a secret is a pattern."""
    whole = secret.strip()
    lines = {line.strip() for line in secret.splitlines()}
    found = {line.encode() for line in lines}
    if is_encoded:
        for text in {whole, secret, *lines}:
            if len(text) >= MIN_SECRET_BYTES:
                found.update(_base64(text.encode()))
        for text in {whole, *lines}:
            if len(text) >= MIN_SECRET_BYTES:
                found.update(form.encode() for form in _escaped(text))
        found.update(_words(whole))
        if any(0 < len(line.encode()) < MIN_SECRET_BYTES for line in lines):  # only together they are a pattern
            unix = "\n".join(whole.splitlines())
            found.update((unix.encode(), unix.replace("\n", "\r\n").encode()))
    whole_ones = {one for one in found if MIN_SECRET_BYTES <= len(one) <= _MAX_PATTERN_BYTES}
    parts = {part for one in found if len(one) > _MAX_PATTERN_BYTES for part in _cut(one)}
    return whole_ones | parts | (_broken_base64(whole) if is_encoded else set())


def _cut(pattern: bytes) -> Iterator[bytes]:
    for at in range(0, len(pattern), _MAX_PATTERN_BYTES):
        part = pattern[at : at + _MAX_PATTERN_BYTES]
        if len(part) >= MIN_SECRET_BYTES:
            yield part


def _escaped(text: str) -> Iterator[str]:
    if _NEVER_ESCAPED.fullmatch(text):
        return
    yield from _json(text)
    for safe in _URL_SAFE_CHARACTERS:
        yield from _both_cases(_PERCENT, quote(text, safe=safe))
    yield from _both_cases(_PERCENT, quote_plus(text))
    yield escape(text)
    yield escape(text, {'"': "&quot;"})
    yield escape(text, {'"': "&quot;", "'": "&apos;"})
    yield escape(text, {'"': "&#34;", "'": "&#39;"})  # Go
    yield html.escape(text)
    yield text.replace("'", "'\\''")  # the trace of a shell, and arguments that were quoted for one
    yield text.replace("'", "'\"'\"'")
    yield text.replace("\\", "\\\\").replace("'", "\\'")  # Python


def _json(text: str) -> Iterator[str]:
    for is_ascii in (True, False):
        once = _quoted(text, is_ascii=is_ascii)
        # Go, and so `jsonencode` of the engines, escapes these as well.
        of_go = once.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
        for form in (once, of_go, once.replace("/", "\\/")):
            yield from _both_cases(_UNICODE_ESCAPE, form)
            # A plan shows JSON as a string, which is escaped once more.
            yield from _both_cases(_UNICODE_ESCAPE, _quoted(form, is_ascii=is_ascii))


def _quoted(text: str, *, is_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=is_ascii)[1:-1]


def _both_cases(code: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the text with its hexadecimal digits in upper case and in lower case."""
    yield code.sub(lambda found: found[0][:2] + found[0][2:].upper() if found[0][0] == "\\" else found[0].upper(), text)
    yield code.sub(lambda found: found[0].lower(), text)


def _words(text: str) -> Iterator[bytes]:
    """Yield runs of the words of a passphrase: for each word, the shortest run from it on that is long enough."""
    words = text.split()
    if len(words) < 2 or "\n" in text or len(text.encode()) > _MAX_WORDS_BYTES:
        return
    for first in range(len(words)):
        for end in range(first + 1, len(words) + 1):
            run = " ".join(words[first:end]).encode()
            if len(run) >= _MIN_WORDS_BYTES:
                yield run
                break


def _base64(secret: bytes) -> Iterator[bytes]:
    """Yield pieces of the secret as base64, in both alphabets."""
    for text, first, last in _encodings(secret):
        yield from _windows(text, first, last)
        for_urls = text.translate(_TO_URL_ALPHABET)
        if for_urls != text:
            yield from _windows(for_urls, first, last)


def _broken_base64(secret: str) -> set[bytes]:
    """Return the two parts of a short secret's base64 between which a line may end: both may be shorter than a window."""
    found: set[bytes] = set()
    if MIN_SECRET_BYTES <= len(secret.encode()) < _LONG_SECRET_BYTES:
        for text, first, last in _encodings(secret.encode()):
            after = first - first % _BASE64_GROUP_CHARACTERS + _BASE64_GROUP_CHARACTERS
            for end in range(after, last, _BASE64_GROUP_CHARACTERS):
                found.update(part for part in (text[first:end], text[end:last]) if len(part) >= _MIN_BROKEN_CHARACTERS)
    return found | {part.translate(_TO_URL_ALPHABET) for part in found}


def _encodings(secret: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the secret as base64 for each position in a group of bytes where it may begin, and which characters are its own."""
    for lead in range(3):
        first = -(-lead * 8 // 6)  # earlier characters also depend on the bytes before the secret
        yield base64.b64encode(bytes(lead) + secret), first, (lead + len(secret)) * 8 // 6


def _windows(text: bytes, first: int, last: int) -> Iterator[bytes]:
    """Yield overlapping pieces of `text[first:last]`. Apart from the first and the last, they begin with a group of characters."""
    yield text[first : min(first + _BASE64_WINDOW_CHARACTERS, last)]
    after = first - first % _BASE64_GROUP_CHARACTERS + _BASE64_GROUP_CHARACTERS
    for at in range(after, last - _BASE64_WINDOW_CHARACTERS, _BASE64_GROUP_CHARACTERS):
        yield text[at : at + _BASE64_WINDOW_CHARACTERS]
    yield text[max(first, last - _BASE64_WINDOW_CHARACTERS) : last]
