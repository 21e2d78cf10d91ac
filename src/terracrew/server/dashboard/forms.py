"""Reads the fields of a form into a struct."""

from typing import TypeVar

import msgspec

from terracrew.errors import Invalid
from terracrew.server.dashboard.context import DashboardCall

MAX_NAME_CHARACTERS = 100
MAX_DAYS = 3650
F = TypeVar("F", bound=msgspec.Struct)


async def read(request: DashboardCall, kind: type[F]) -> F:
    """Return the fields of the form as this struct. Other fields, such as the token against forgery, are ignored."""
    given = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"the form is not valid: {error}") from None


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
