"""Reads the values of variables as command lines send them: literals of HCL, such as `"a"`, `[1, 2]` or `{ size = "small" }`."""

import math
import re
from typing import Any

from terracrew.errors import Invalid

MAX_DEPTH = 50
_TOKEN = re.compile(
    r'\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_-]*)|(?P<mark>[\[\]{}(),=:])|(?P<quote>"))'
)
_PIECE = re.compile(
    r'(?P<plain>[^"\\$%]+)|(?P<escape>\\(?:[nrt"\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}))'
    r"|(?P<twice>\$\$\{|%%\{)|(?P<other>[$%](?!\{))"
)
_ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", '\\"': '"', "\\\\": "\\"}
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


def read(name: str, text: str) -> Any:
    """Return the value of a literal. Raises Invalid for anything else, such as an expression."""
    reader = _Literal(name, text)
    try:
        value = reader.value(0)
    except (ValueError, OverflowError):  # a number with thousands of digits, or an escape that is no character
        raise reader.refusal() from None
    if reader.rest():
        raise reader.refusal()
    return value


class _Literal:
    def __init__(self, name: str, text: str) -> None:
        self._name, self._text, self._at = name, text, 0

    def refusal(self) -> Invalid:
        return Invalid(f"variable {self._name}: its value is not a literal that can be sent with a run")

    def rest(self) -> str:
        return self._text[self._at :].strip()

    def value(self, depth: int) -> Any:
        kind, found = self._take()
        if depth > MAX_DEPTH:
            raise self.refusal()
        if kind == "number":
            return self._number(found)
        if kind == "name" and found in _CONSTANTS:
            return _CONSTANTS[found]
        if kind == "quote":
            return self._quoted()
        if found == "[":
            return self._items(depth)
        if found == "{":
            return self._members(depth)
        raise self.refusal()

    def _number(self, text: str) -> int | float:
        found = int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        if isinstance(found, float) and not math.isfinite(found):
            raise self.refusal()
        return found

    def _items(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while not self._has("]"):
            found.append(self.value(depth + 1))
            if not self._has(","):
                self._expect("]")
                break
        return found

    def _members(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._has("}"):
            kind, word = self._take()
            if kind == "quote":
                key = self._quoted()
            elif word == "(":  # a key that is an expression is written in parentheses
                key = self._key_in_parentheses(depth)
            elif kind in ("name", "number"):
                key = word
            else:
                raise self.refusal()
            if not self._has("="):
                self._expect(":")
            found[key] = self.value(depth + 1)
            self._has(",")
        return found

    def _key_in_parentheses(self, depth: int) -> str:
        key = self.value(depth + 1)
        self._expect(")")
        if not isinstance(key, str):
            raise self.refusal()
        return key

    def _take(self) -> tuple[str, str]:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match.lastgroup is None:
            raise self.refusal()
        self._at = match.end()
        return match.lastgroup, match[match.lastgroup]

    def _has(self, mark: str) -> bool:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match["mark"] != mark:
            return False
        self._at = match.end()
        return True

    def _expect(self, mark: str) -> None:
        if not self._has(mark):
            raise self.refusal()

    def _character(self, escape: str) -> str:
        found = chr(int(escape[2:], 16))
        if "\ud800" <= found <= "\udfff" or found == "\0":
            raise self.refusal()
        return found

    def _quoted(self) -> str:
        parts: list[str] = []
        while not self._text.startswith('"', self._at):
            found = _PIECE.match(self._text, self._at)
            if found is None:
                raise self.refusal()
            self._at = found.end()
            piece = found[0]
            if found.lastgroup == "escape":
                piece = _ESCAPES.get(piece) or self._character(piece)
            elif found.lastgroup == "twice":
                piece = piece[1:]
            parts.append(piece)
        self._at += 1
        return "".join(parts)
