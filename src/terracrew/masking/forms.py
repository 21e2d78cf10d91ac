"""The forms in which a secret appears in text: as it is, in base64 or hexadecimal, escaped for JSON, URLs, XML and shells, in two of
these at once, and broken into lines."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

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
_MAX_TWICE_BYTES = 256
"""The base64 of the base64 of a longer secret is not searched for: it would need nine times as many patterns as the base64."""
_HEXADECIMAL_WINDOW_BYTES = 8
_HEXADECIMAL_STEP_BYTES = 4
"""Hexadecimal digits are searched for in overlapping pieces, too, because programs that print them break them into lines."""
_MIN_WORDS_BYTES = 12
"""A part of a passphrase is masked by itself from this length on: engines break their messages into lines between words."""
_MAX_WORDS_BYTES = 256
"""A longer line is not a passphrase. Its parts may be ordinary text, and a log without them could not be read."""
_URL_SAFE_CHARACTERS = ("", "/", "!'()*", "$&+,;=", "$&+:=@")
"""The reserved characters that functions leave as they are: Python's, JavaScript's, and Go's for passwords and for paths."""
_OUTER_URL_SAFE_CHARACTERS = ("", "/", "!'()*")
"""Those of the functions that put a whole document or another URL into a URL."""
_TO_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")
_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9_.~-]*")
"""Most tokens have only these characters, so that they look the same in JSON, URLs, XML and shells."""
_SHELL_CHARACTERS = re.compile(r"""[ !"$&'()*,;<>?\[\\\]^`{|}]""")
"""What Bash writes a backslash before."""
_SHELL_CHARACTERS_IN_QUOTES = re.compile(r"""["$\\`]""")
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
                found.update(_hexadecimal(text.encode()))
        for text in {whole, *lines}:
            if len(text) >= MIN_SECRET_BYTES:
                found.update(form.encode() for form in _escaped(text))
                found.update(part for form in _json(text) if form != text for part in _base64(form.encode()))
        found.update(_base64_twice(whole.encode()))
        found.update(_words(whole))
        if any(0 < len(line.encode()) < MIN_SECRET_BYTES for line in lines):  # only together they are a pattern
            unix = "\n".join(whole.splitlines())
            found.update((unix.encode(), unix.replace("\n", "\r\n").encode()))
    unfit = {one for one in found if not MIN_SECRET_BYTES <= len(one) <= _MAX_PATTERN_BYTES}
    found -= unfit
    found.update(part for one in unfit if len(one) > _MAX_PATTERN_BYTES for part in _cut(one))
    return found | _broken_base64(whole) if is_encoded else found


def _cut(pattern: bytes) -> Iterator[bytes]:
    for at in range(0, len(pattern), _MAX_PATTERN_BYTES):
        part = pattern[at : at + _MAX_PATTERN_BYTES]
        if len(part) >= MIN_SECRET_BYTES:
            yield part


def _escaped(text: str) -> Iterator[str]:
    if _NEVER_ESCAPED.fullmatch(text):
        return
    for form in _json(text):
        yield form
        # A plan shows JSON as a string, which is escaped once more.
        yield from (
            twice for is_ascii in (True, False) for twice in _both_cases(_UNICODE_ESCAPE, _quoted(form, is_ascii))
        )
        yield from _in_url(form, _OUTER_URL_SAFE_CHARACTERS)
    for form in _in_url(text, _URL_SAFE_CHARACTERS):
        yield form
        yield from _in_url(form, _OUTER_URL_SAFE_CHARACTERS)
    markup = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield markup
    yield markup.replace('"', "&quot;")
    yield markup.replace('"', "&quot;").replace("'", "&apos;")
    yield markup.replace('"', "&#34;").replace("'", "&#39;")  # Go
    yield markup.replace('"', "&quot;").replace("'", "&#x27;")  # Python
    yield text.replace("'", "'\\''")  # the trace of a shell, and arguments that were quoted for one
    yield text.replace("'", "'\"'\"'")
    yield _SHELL_CHARACTERS.sub(r"\\\g<0>", text)  # `printf %q`
    yield _SHELL_CHARACTERS_IN_QUOTES.sub(r"\\\g<0>", text)  # `declare -p`
    yield text.replace("\\", "\\\\").replace("'", "\\'")  # Python


def _in_url(text: str, safe_characters: Iterable[str]) -> set[str]:
    """Return a text as the parts of URLs show it."""
    forms = {quote(text, safe=" ").replace(" ", "+"), *[quote(text, safe=safe) for safe in safe_characters]}
    return {each for form in forms for each in _both_cases(_PERCENT, form)}


def _json(text: str) -> set[str]:
    """Return a text as it is inside a JSON string."""
    forms: set[str] = set()
    for is_ascii in (True, False):
        once = _quoted(text, is_ascii)
        # Go, and so `jsonencode` of the engines, escapes these as well.
        of_go = once.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
        forms |= {once, of_go, once.replace("/", "\\/")}
    return {each for form in forms for each in _both_cases(_UNICODE_ESCAPE, form)}


def _quoted(text: str, is_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=is_ascii)[1:-1]


def _both_cases(code: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the text with its hexadecimal digits in upper case and in lower case."""
    if not code.search(text):
        yield text
        return
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
        windows = _windows(text, first, last)
        yield from windows
        for_urls = text.translate(_TO_URL_ALPHABET)
        if for_urls != text:
            yield from _windows(for_urls, first, last)
            for window in windows:
                in_url = window.replace(b"+", b"%2B").replace(b"/", b"%2F")
                yield from (in_url, in_url.replace(b"%2B", b"%2b").replace(b"%2F", b"%2f"))


def _base64_twice(secret: bytes) -> list[bytes]:
    """Return pieces of the base64 of text that has the secret as base64, such as a password in the settings of a registry."""
    found: list[bytes] = []
    if not MIN_SECRET_BYTES <= len(secret) <= _MAX_TWICE_BYTES:
        return found
    size = _BASE64_WINDOW_CHARACTERS
    for inner, inner_first, inner_last in _encodings(secret):
        for text, first, last in _encodings(inner[inner_first:inner_last]):
            found += [text[at : at + size] for at in range(first, last - size, size)]
            found.append(text[max(first, last - size) : last])
    return found


def _hexadecimal(secret: bytes) -> Iterator[bytes]:
    """Yield pieces of the secret as hexadecimal digits, in lower and in upper case."""
    last = max(0, len(secret) - _HEXADECIMAL_WINDOW_BYTES)
    for at in {*range(0, last, _HEXADECIMAL_STEP_BYTES), last}:
        digits = secret[at : at + _HEXADECIMAL_WINDOW_BYTES].hex().encode()
        yield from (digits, digits.upper())


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


def _windows(text: bytes, first: int, last: int) -> list[bytes]:
    """Return overlapping pieces of `text[first:last]`. Apart from the first and the last, they begin with a group of characters."""
    size = _BASE64_WINDOW_CHARACTERS
    after = first - first % _BASE64_GROUP_CHARACTERS + _BASE64_GROUP_CHARACTERS
    return [
        text[first : min(first + size, last)],
        *[text[at : at + size] for at in range(after, last - size, _BASE64_GROUP_CHARACTERS)],
        text[max(first, last - size) : last],
    ]
