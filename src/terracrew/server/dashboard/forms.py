"""Reads the fields of a form into a struct."""

from typing import TypeVar

import msgspec

from terracrew.errors import Invalid
from terracrew.server.dashboard.context import DashboardCall

F = TypeVar("F", bound=msgspec.Struct)


async def read(request: DashboardCall, kind: type[F]) -> F:
    """Return the fields of the form as this struct. Other fields, such as the token against forgery, are ignored."""
    given = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"the form is not valid: {error}") from None
