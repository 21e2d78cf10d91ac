"""Pairs the items of a list before and after a change, so that an inserted item does not make all following ones differ."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import msgspec

from terracrew.plan_diff.values import Hidden

_MAX_ALIGNED_ITEMS = 400
"""Longer lists are compared by index, because the time of an alignment grows with the square of their length."""


class Pair(NamedTuple):
    before: Any
    after: Any
    before_index: int | None
    after_index: int | None


def pairs(before: list[Any], after: list[Any]) -> Iterator[Pair]:
    """Yield the items of both lists in order. An item that only one of them has is paired with None."""
    if len(before) + len(after) > 2 * _MAX_ALIGNED_ITEMS:
        yield from _by_index(before, after, 0, 0)
        return
    matcher = SequenceMatcher(None, [_key(each) for each in before], [_key(each) for each in after], autojunk=False)
    for _, old, old_end, new, new_end in matcher.get_opcodes():
        yield from _by_index(before[old:old_end], after[new:new_end], old, new)


def _by_index(before: list[Any], after: list[Any], old: int, new: int) -> Iterator[Pair]:
    for index in range(max(len(before), len(after))):
        has_old, has_new = index < len(before), index < len(after)
        yield Pair(
            before[index] if has_old else None,
            after[index] if has_new else None,
            old + index if has_old else None,
            new + index if has_new else None,
        )


def _key(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=_encodable, order="deterministic")


def _encodable(value: Any) -> Any:
    return {"hidden": value.value} if isinstance(value, Hidden) else "unknown"
