"""The forms in which a secret appears in text: as it is, encoded in base64, and escaped for JSON, URLs and XML."""

import base64
import html
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

from terracrew.masking.names import MIN_SECRET_BYTES

_MAX_PATTERN_BYTES = 4096
"""A longer pattern is cut into several, so that little of an open line is held back while it may become a secret."""
_WRAPPED_COLUMNS = (64, 76)
"""The lengths of lines that `openssl base64` and `base64` print."""


def patterns(secret: str, *, is_encoded: bool = True) -> set[bytes]:
    """Return the patterns to search for. Output is masked line by line, so each line of a secret is a pattern."""
    lines = {line.strip() for line in secret.splitlines()}
    found = {line.encode() for line in lines}
    if is_encoded and len(secret) >= MIN_SECRET_BYTES:
        found.update(_encoded(secret.encode()))
        for line in lines:
            if len(line) >= MIN_SECRET_BYTES:
                found.update(form.encode() for form in _escaped(line))
                found.update(_encoded(line.encode()))
    parts = (one[at : at + _MAX_PATTERN_BYTES] for one in found for at in range(0, len(one), _MAX_PATTERN_BYTES))
    return {part for part in parts if len(part) >= MIN_SECRET_BYTES}


def _escaped(line: str) -> Iterator[str]:
    for text in (json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1]):
        yield text
        # Go, and so `jsonencode` of the engines, escapes these as well.
        yield text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    yield from (quote(line, safe=""), quote(line), quote_plus(line))
    yield escape(line)
    yield escape(line, {'"': "&quot;"})
    yield escape(line, {'"': "&quot;", "'": "&apos;"})
    yield escape(line, {'"': "&#34;", "'": "&#39;"})  # Go
    yield html.escape(line)


def _encoded(secret: bytes) -> Iterator[bytes]:
    """Yield the secret as base64 in both alphabets, for each of the three positions in a group of bytes where it may begin."""
    for lead in range(3):
        text = base64.b64encode(bytes(lead) + secret)
        first = -(-lead * 8 // 6)  # earlier characters also depend on the bytes before the secret
        last = (lead + len(secret)) * 8 // 6
        yield text[first:last]
        yield text[first:last].translate(bytes.maketrans(b"+/", b"-_"))
    text = base64.b64encode(secret).rstrip(b"=")
    for columns in _WRAPPED_COLUMNS:
        if len(text) > columns:
            yield from (text[at : at + columns] for at in range(0, len(text), columns))
