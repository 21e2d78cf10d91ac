"""Reads the fields of a form into a struct, and says of a value that is not valid what to write instead, and in which field."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from terracrew.errors import Invalid
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.http import choices

MAX_NAME_CHARACTERS = 100
MAX_DAYS = 3650
F = TypeVar("F", bound=msgspec.Struct)
_FIELD = re.compile(r" - at `\$\.((\w+)[^`]*)`\Z")
_BOUND = re.compile(r"Expected `(?:int|float)` (>=|<=) (-?[0-9.]+)\Z")
_LENGTH = re.compile(r"Expected `str` of length <= ([0-9]+)\Z")
_WHOLE_NUMBER = re.compile(r"Expected `int[^`]*`, got `\w+`\Z")
_NUMBER = re.compile(r"Expected `float[^`]*`, got `\w+`\Z")


async def read(request: DashboardCall, kind: type[F]) -> F:
    """Return the fields of the form as this struct. Other fields, such as the token against forgery, are ignored."""
    given = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    if any("\0" in value for value in given.values()):
        raise Invalid("the form has a NUL character in it, which cannot be stored")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"the form is not valid: {error}") from None


def convert(values: Mapping[str, Any], kind: type[F], fields: Mapping[str, str] | None = None) -> F:
    """Return what was typed as this struct, which has limits for its values.

    The error for a value that is not valid names its field: `fields` has those of the form that are called otherwise in the struct.
    """
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _FIELD.search(text)
        place, name = (found[1], found[2]) if found else ("", "")
        advice = _advice(choices.explained(_FIELD.sub("", text), kind, place))
        raise Invalid(advice, field=(fields or {}).get(name, name)) from None


def _advice(text: str) -> str:
    """Return what to write instead, from what msgspec says about a value."""
    if found := _BOUND.match(text):
        bound = float(found[2]) if "." in found[2] else int(found[2])
        return f"write a number of at {'least' if found[1] == '>=' else 'most'} {bound:,}"
    if found := _LENGTH.match(text):
        return f"write at most {int(found[1]):,} characters"
    if _WHOLE_NUMBER.match(text):
        return "write a whole number"
    return "write a number" if _NUMBER.match(text) else f"this is not valid: {text}"


def name(typed: str) -> str:
    """Return the name that was typed into a form, without spaces around it."""
    found = typed.strip()
    if not 1 <= len(found) <= MAX_NAME_CHARACTERS or not found.isprintable():
        raise Invalid(f"a name has 1 to {MAX_NAME_CHARACTERS} characters, all of them printable")
    return found


def days(typed: str) -> int | None:
    """Return the number of days that was chosen in a form; None for no end."""
    if not typed:
        return None
    if not (typed.isascii() and typed.isdigit() and len(typed) <= 4 and 1 <= int(typed) <= MAX_DAYS):
        raise Invalid(f"the number of days is 1 to {MAX_DAYS:,}, or nothing")
    return int(typed)
