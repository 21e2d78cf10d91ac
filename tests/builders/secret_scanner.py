"""Searches for planted secrets in anything that a test can read. It decodes what it finds, so it shares no code with the masking."""

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote_to_bytes

_ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{8,}")
_DIGITS = re.compile(rb"[0-9a-fA-F]{12,}")
_BREAKS = re.compile(rb"[\r\n]+[ \t]*")
_JSON_ESCAPE = re.compile(rb'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_JSON_CHARACTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_TO_STANDARD_ALPHABET = bytes.maketrans(b"-_", b"+/")


class SecretScanner:
    """Knows secrets by the names of their kinds, and finds them in all forms in which they plausibly appear."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._needles = {kind: _needles(value) for kind, value in secrets.items()}

    def found_in(self, content: bytes) -> set[str]:
        """Return the kinds of the secrets that the content has."""
        return {
            f"{kind} ({form})"
            for form, view in _views(content)
            for kind, needles in self._needles.items()
            if any(needle in view for needle in needles)
        }


def _needles(value: str) -> list[bytes]:
    """Return the secret, and each of its lines that is long enough to be one."""
    return [value.strip().encode(), *(line.strip().encode() for line in value.splitlines() if len(line.strip()) >= 8)]


def _views(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the content as it is, and decoded in each way that a reader might try."""
    once = _without_json(content)
    yield "as it is", content
    yield "in JSON", once
    yield "in JSON in JSON", _without_json(once)
    for name, decode in (("a URL", unquote_to_bytes), ("a form", _without_form)):
        inner = decode(content)
        yield f"in {name}", inner
        yield f"in JSON in {name}", _without_json(inner)
        yield f"in a URL in {name}", unquote_to_bytes(inner)
        yield f"in a form in {name}", _without_form(inner)
    yield "in HTML", html.unescape(content.decode(errors="replace")).encode()
    for name, text in (("base64", content), ("base64 in lines", _BREAKS.sub(b"", content))):
        decoded = b"\n".join(_decoded(_ENCODED.findall(text)))
        yield name, decoded
        yield f"JSON in {name}", _without_json(decoded)
        yield f"base64 in {name}", b"\n".join(_decoded(_ENCODED.findall(decoded)))
        yield f"hexadecimal, like {name}", b"\n".join(_from_digits(_DIGITS.findall(text)))


def _without_form(content: bytes) -> bytes:
    return unquote_to_bytes(content.replace(b"+", b" "))


def _without_json(content: bytes) -> bytes:
    def plain(found: re.Match[bytes]) -> bytes:
        code = found[1]
        if code[:1] == b"u" and len(code) > 1:
            return chr(int(code[1:], 16)).encode(errors="replace")
        return _JSON_CHARACTERS.get(code, code)

    return _JSON_ESCAPE.sub(plain, content)


def _from_digits(runs: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what the runs of hexadecimal digits are, from each of the two digits on where a byte may begin."""
    for run in runs:
        for start in range(2):
            yield bytes.fromhex(run[start : start + (len(run) - start) // 2 * 2].decode())


def _decoded(runs: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what the runs of characters are in base64, from each of the four characters on where it may begin."""
    for run in runs:
        standard = run.translate(_TO_STANDARD_ALPHABET)
        for start in range(4):
            part = standard[start : start + (len(standard) - start) // 4 * 4]
            rest = standard[start + len(part) :]
            padded = part + (rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b"")
            try:
                yield base64.b64decode(padded)
            except binascii.Error:
                continue
