"""Cursor pagination: a page ends with the id of its last item, so what is inserted meanwhile moves nothing."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

from litestar.params import QueryParameter

from terracrew.api.pages import Page
from terracrew.errors import Invalid

MAX_PAGE_ROWS = 200
Limit = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE_ROWS, description="How many items at most")]
After = Annotated[str | None, QueryParameter(description="The `next` of the page before")]


class Identified(Protocol):
    @property
    def id(self) -> str: ...


Item = TypeVar("Item", bound=Identified)


def start(given: str | None) -> str:
    """Return the id that a cursor stands for; the empty one, which sorts before all others, where there is none."""
    if not given:
        return ""
    try:
        after = urlsafe_b64decode(given.encode("ascii") + b"=" * (-len(given) % 4)).decode("ascii")
        if not after.isprintable():
            raise ValueError
        return after
    except ValueError:
        raise not_a_cursor(given) from None


def start_number(given: str | None) -> int:
    """Return the number of items before a page of a list whose cursors are such numbers."""
    begin = start(given) or "0"
    if not (begin.isascii() and begin.isdigit() and len(begin) < 9):
        raise not_a_cursor(given)
    return int(begin)


def not_a_cursor(given: str | None) -> Invalid:
    return Invalid.in_field("after", f"{given!r} is not a cursor: send the `next` of the previous page")


def page(found: Sequence[Item], limit: int) -> Page[Item]:
    """Make a page of up to `limit` items from a query that asked for one more."""
    items = list(found[:limit])
    return Page(items, cursor(items[-1].id) if len(found) > limit else None)


def cursor(last_id: str | None) -> str | None:
    """Return the cursor of the page that follows this id."""
    return None if last_id is None else urlsafe_b64encode(last_id.encode()).decode().rstrip("=")
