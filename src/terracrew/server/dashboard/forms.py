"""What a form sends, read as the fields that we expect of it."""

from typing import TypeVar

import msgspec

from terracrew.errors import Invalid
from terracrew.server.dashboard.context import DashboardCall

F = TypeVar("F", bound=msgspec.Struct)


async def read(request: DashboardCall, kind: type[F]) -> F:
    """Return the fields of the form as this struct; others (the token against forgery, say) are passed over."""
    given = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"the form is not as it should be: {error}") from None
