"""Limits how much content one statement reads or deletes. With SQLite, all other work waits for it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
MAX_BYTES = 1 << 20


def leading(items: Sequence[T], bytes_of: Callable[[T], int]) -> list[T]:
    """Return the first items, up to `MAX_BYTES` together, and at least one if there is one."""
    total = 0
    for count, item in enumerate(items):
        total += bytes_of(item)
        if count and total > MAX_BYTES:
            return list(items[:count])
    return list(items)
