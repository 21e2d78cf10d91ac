"""Compares the values of an attribute before and after a change, inside objects, lists and JSON strings."""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

import msgspec

from terracrew.plan_diff import values
from terracrew.plan_diff.model import AttributeAction, AttributeDiff
from terracrew.plan_diff.values import UNKNOWN, Hidden, Mask

MAX_PARTS = 200
"""How many changed parts of one attribute are kept; the others are counted."""
_MAX_JSON_CHARACTERS = 1 << 20
_MAX_LINES = 10_000
"""Texts with more lines are compared as a whole."""
_MAX_COMPARED_PARTS = 50_000
"""Values with more parts are compared as a whole."""
_WITH_PARTS = (dict, list)
_MAX_ONE_LINE_CHARACTERS = 120
"""A list or object is shown as one value if its text is not longer."""


_MAX_ALIGNED_ITEMS = 400
"""Longer lists are compared by index, because the time of an alignment grows with the square of their length."""


class _Leaf(NamedTuple):
    """A value inside an attribute that changes, with its path. An absent side is None."""

    path: str
    before: Any
    after: Any


def attribute(name: str, before: Any, after: Any, mask: Mask) -> AttributeDiff:
    """Return how an attribute changes. The values are marked and differ; None stands for no value."""
    if isinstance(before, str) and isinstance(after, str):
        if (parsed := _parsed(before)) is not None and (other := _parsed(after)) is not None:
            return _inside(name, "JSON", parsed, other, mask)
        if 0 < max(before.strip().count("\n"), after.strip().count("\n")) <= _MAX_LINES:
            return _inside(name, "text", before.split("\n"), after.split("\n"), mask)
    if _is_compared_inside(before, after):
        return _inside(name, _kind(before if before is not None else after), before, after, mask)
    return _one(name, before, after, mask)


def _one(name: str, before: Any, after: Any, mask: Mask) -> AttributeDiff:
    """Return a change of one value, which is shown whole, or hidden if a part of it is sensitive."""
    if values.has_hidden_part(before) or values.has_hidden_part(after):
        later = after.value if isinstance(after, Hidden) else after
        return AttributeDiff(name, _action(before, after), is_sensitive=True, is_unknown=later is UNKNOWN)
    old, old_length = (None, 0) if before is None else values.text(before, mask)
    is_unknown = values.has_marked_part(after)
    new, new_length = (None, 0) if after is None or is_unknown else values.text(after, mask)
    return AttributeDiff(name, _action(before, after), old, new, old_length, new_length, is_unknown=is_unknown)


def _inside(
    name: str, kind: Literal["JSON", "text", "block", "list", "map"], before: Any, after: Any, mask: Mask
) -> AttributeDiff:
    parts: list[AttributeDiff] = []
    changed = total = 0
    for leaf in _lines(before, after) if kind == "text" else _leaves("", before, after, mask):
        total += 1
        if not values.is_same(leaf.before, leaf.after):
            changed += 1
            if len(parts) < MAX_PARTS:
                parts.append(_one(leaf.path, leaf.before, leaf.after, mask))
    return AttributeDiff(name, _action(before, after), kind=kind, inside=parts, changed=changed, total=total)


def _lines(before: list[str], after: list[str]) -> Iterator[_Leaf]:
    """Yield the lines of two texts."""
    for pair in pairs(before, after):
        index = pair.after_index if pair.after_index is not None else pair.before_index or 0
        yield _Leaf(f"line {index + 1}", pair.before, pair.after)


def _leaves(path: str, before: Any, after: Any, mask: Mask, level: int = 0) -> Iterator[_Leaf]:
    """Yield the parts of two values in their order, those that do not change as well."""
    before, after = _both_parsed(before, after)
    if level < values.MAX_LEVELS and _is_compared_inside(before, after):
        if values.is_object(before) or values.is_object(after):
            old: dict[str, Any] = before or {}
            new: dict[str, Any] = after or {}
            for key in sorted({**old, **new}):
                yield from _leaves(values.joined(path, key, mask), old.get(key), new.get(key), mask, level + 1)
            return
        for pair in pairs(before or [], after or []):
            index = pair.after_index if pair.after_index is not None else pair.before_index or 0
            yield from _leaves(values.joined(path, index, mask), pair.before, pair.after, mask, level + 1)
        return
    if level >= values.MAX_LEVELS and (values.has_marked_part(before) or values.has_marked_part(after)):
        yield _Leaf(path, Hidden(before), Hidden(after))
        return
    yield _Leaf(path, before, after)


def _both_parsed(before: Any, after: Any) -> tuple[Any, Any]:
    """Return two JSON strings that differ as the values that they describe; anything else unchanged."""
    if isinstance(before, str) and isinstance(after, str) and before != after:
        parsed, other = _parsed(before), _parsed(after)
        if parsed is not None and other is not None and not values.is_same(parsed, other):
            return parsed, other
    return before, after


def _is_compared_inside(before: Any, after: Any) -> bool:
    """Return whether two values are shown by their parts. Short ones without sensitive or unknown parts are shown whole."""
    if type(before) not in _WITH_PARTS and type(after) not in _WITH_PARTS:
        return False
    is_objects = all(each is None or values.is_object(each) for each in (before, after))
    is_lists = all(each is None or values.is_list(each) for each in (before, after))
    if not (is_objects or is_lists) or not (before or after) or _is_huge(before) or _is_huge(after):
        return False
    if values.has_marked_part(before) or values.has_marked_part(after):
        return True
    has_structure = is_objects or _has_objects(before) or _has_objects(after)
    if before is None or after is None:
        return has_structure and not _is_short(before if after is None else after)
    return has_structure or not (_is_short(before) and _is_short(after))


def _is_huge(value: Any) -> bool:
    """Return whether a value has so many parts that looking at each of them would take too long."""
    count, waiting = 0, [value]
    while waiting and count <= _MAX_COMPARED_PARTS:
        each = waiting.pop()
        if values.is_object(each):
            waiting += each.values()
        elif values.is_list(each):
            waiting += each
        count = max(count + 1, len(waiting))
    return count > _MAX_COMPARED_PARTS


def _has_objects(value: Any) -> bool:
    return values.is_list(value) and any(isinstance(each, dict | list) for each in value)


def _is_short(value: Any) -> bool:
    """Return whether the text of a value fits into one line. Only the beginning of a large value is looked at."""
    size = 0
    for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        size += len(piece)
        if size > _MAX_ONE_LINE_CHARACTERS:
            return False
    return True


def _kind(value: Any) -> Literal["block", "list", "map"]:
    """Return what a value is called. In the JSON of the engines, a block is an object, or a list of objects."""
    if not values.is_list(value):
        return "map"
    return "block" if value and all(isinstance(each, dict) for each in value) else "list"


def _action(before: Any, after: Any) -> AttributeAction:
    return "create" if before is None else "delete" if after is None else "update"


def _parsed(value: str) -> Any:
    """Return the object or list that a string has as JSON; None if it is something else."""
    if value.lstrip()[:1] not in ("{", "[") or len(value) > _MAX_JSON_CHARACTERS:
        return None
    try:
        found = msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return None
    return found if values.is_object(found) or values.is_list(found) else None


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
