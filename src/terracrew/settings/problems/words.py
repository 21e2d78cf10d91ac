"""Turns an error of the settings library into a sentence of ours: what is wrong, and what is allowed."""

from datetime import date, time
from typing import Any

from pydantic_core import ErrorDetails

MAX_SHOWN_CHARACTERS = 32
"""A longer value is not repeated. Tokens of ours are longer, should one be where a number belongs."""
_NOT_ALLOWED = frozenset(
    {
        "bool_parsing",
        "finite_number",
        "float_parsing",
        "greater_than",
        "greater_than_equal",
        "int_from_float",
        "int_parsing",
        "int_parsing_size",
        "less_than",
        "less_than_equal",
        "literal_error",
    }
)
"""Errors of numbers, of true and false, and of one value out of several: such a setting holds no secret, so it is repeated."""


def of(problem: ErrorDetails, allowed: str) -> str:
    """Return what is wrong with a value. `allowed` describes the values that its setting may have."""
    kind, context = problem["type"], problem.get("ctx", {})
    value: Any = problem.get("input")
    match kind:
        case "value_error":
            return str(context["error"])
        case "string_too_short":
            return "must not be empty"
        case "string_too_long":
            return f"has {len(value)} characters; at most {context['max_length']} are allowed"
        case "too_long":
            return f"has {len(value)} entries; at most {context['max_length']} are allowed"
        case _ if kind in _NOT_ALLOWED and isinstance(value, str | bool | int | float):
            return f"must be {allowed}, not {_shown(value)}"
        case _:
            return f"must be {allowed}, not {kind_of(value)}"


def kind_of(value: Any) -> str:
    """Return what a value is, without the value itself, which may be a secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text" if value else "an empty text"
        case list():
            return "a list"
        case dict():
            return "a section"
        case date() | time():
            return "a date or time"
        case _:
            return "another value"


def _shown(value: str | bool | int | float) -> str:
    if not isinstance(value, str):
        return (
            str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
        )
    if not value:
        return "an empty text"
    return repr(value) if len(value) <= MAX_SHOWN_CHARACTERS else f"a text of {len(value)} characters"
