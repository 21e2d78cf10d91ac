"""Reads the value of an input from what a person typed, the same on the command line and on pages."""

import re
from typing import Any

import msgspec

_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?")
"""A number as engines write it. They would turn any other one (`1.30`, `1e3`, `007`) into another text."""


def read(text: str) -> Any:
    """Return the value that a text stands for: what is valid JSON, except numbers that would not stay as they were typed.

    An engine makes a number of a text where the variable is declared as one, but it cannot know that `1.3` was typed as `1.30`.
    """
    try:
        value: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if not is_number or _stays_as_typed(text, value) else text


def _stays_as_typed(text: str, value: float) -> bool:
    is_plain = _PLAIN_NUMBER.fullmatch(text) is not None and text != "-0"
    return is_plain and msgspec.json.encode(value).decode() == text
