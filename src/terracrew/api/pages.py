"""A page of a list. The next page starts behind its last item, so what is inserted meanwhile moves nothing."""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    items: list[T]
    next: str | None = None
    """What to send as `after` to get the page behind this one; null: there is none."""
