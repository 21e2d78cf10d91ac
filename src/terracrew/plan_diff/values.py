"""Values of attributes together with what an engine says about them: which are sensitive, and which are not known yet."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard, cast

MAX_LEVELS = 40
"""Values that are nested deeper are compared as a whole."""
MAX_TEXT_CHARACTERS = 4_000
MAX_NAME_CHARACTERS = 300
_MIN_HIDDEN_CHARACTERS = 8
_MAX_HIDDEN_TEXTS = 50
_NAME = re.compile(r"[A-Za-z_][\w-]*\Z", re.ASCII)
_encode = json.JSONEncoder(ensure_ascii=False).encode

Mask: TypeAlias = Callable[[str], str]
"""Replaces the secrets that the executor knows in a text."""


class Hidden:
    """A sensitive value. It is only compared with another one, and never becomes text."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "Hidden()"


class _Unknown:
    """The type of `UNKNOWN`."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
"""Stands for a value that is known only after the apply."""


def is_unknown(value: object) -> bool:
    return value is UNKNOWN


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def marked(value: object, unknown: object, sensitive: object, level: int = 0) -> Any:
    """Return the value with `Hidden` and `UNKNOWN` in the places that the two marks name.

    A mark is `True` for a whole value, or an object or a list with marks for its parts. A mark that does not fit the value is
    applied to the whole value, so that nothing sensitive is shown by mistake.
    """
    if sensitive is True:
        return Hidden(UNKNOWN if has_mark(unknown) else value)
    if unknown is True:
        return Hidden(UNKNOWN) if has_mark(sensitive) else UNKNOWN
    if not has_mark(unknown) and not has_mark(sensitive):
        return value
    if level < MAX_LEVELS:
        if (is_object(value) or (value is None and is_object(unknown))) and _fits(sensitive, is_object(sensitive)):
            return _marked_object(_object(value), _object(unknown), _object(sensitive), level)
        if (is_list(value) or (value is None and is_list(unknown))) and _fits(sensitive, is_list(sensitive)):
            return _marked_list(_list(value), _list(unknown), _list(sensitive), level)
    return Hidden(value) if has_mark(sensitive) else UNKNOWN


def _fits(sensitive: object, is_of_its_kind: bool) -> bool:
    return is_of_its_kind or not has_mark(sensitive)


def _marked_object(
    value: dict[str, Any], unknown: dict[str, Any], sensitive: dict[str, Any], level: int
) -> dict[str, Any]:
    names = [*value, *(name for name in unknown if name not in value and has_mark(unknown[name]))]
    return {
        name: marked(value.get(name), unknown.get(name), sensitive.get(name), level + 1)
        for name in dict.fromkeys(names)
    }


def _marked_list(value: list[Any], unknown: list[Any], sensitive: list[Any], level: int) -> list[Any]:
    count = max(len(value), len(unknown))

    def at(items: list[Any], index: int) -> Any:
        return items[index] if index < len(items) else None

    return [marked(at(value, i), at(unknown, i), at(sensitive, i), level + 1) for i in range(count)]


def has_mark(mark: object) -> bool:
    """Return whether a mark names any part of its value. The depth of a mark is limited by the decoder that read it."""
    waiting = [mark] if mark else []
    while waiting:
        each = waiting.pop()
        if each is True:
            return True
        if is_object(each):
            waiting += each.values()
        elif is_list(each):
            waiting += each
    return False


def has_marked_part(value: object) -> bool:
    """Return whether a value is, or contains, something sensitive or unknown."""
    return has_hidden_part(value, UNKNOWN)


def has_hidden_part(value: object, other: object = None) -> bool:
    """Return whether a value is, or contains, something sensitive, or this other object."""
    if value is None or isinstance(value, str):
        return False
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Hidden) or (other is not None and each is other):
            return True
        if is_object(each):
            waiting += each.values()
        elif is_list(each):
            waiting += each
    return False


def hidden_texts(value: object, max_texts: int | None = _MAX_HIDDEN_TEXTS) -> set[str]:
    """Return the sensitive strings and numbers in a value that are long enough to be recognized elsewhere."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        is_hidden = isinstance(each, tuple)
        inner = cast("tuple[object]", each)[0] if is_hidden else each
        if isinstance(inner, Hidden):
            waiting.append((inner.value,))
        elif is_object(inner):
            waiting += [(part,) for part in inner.values()] if is_hidden else inner.values()
        elif is_list(inner):
            waiting += [(part,) for part in inner] if is_hidden else inner
        elif is_hidden and isinstance(inner, str | int | float) and len(str(inner)) >= _MIN_HIDDEN_CHARACTERS:
            found.add(str(inner))
            if len(found) == max_texts:
                break
    return found


def is_same(before: object, after: object) -> bool:
    """Return whether two values are equal as JSON: `true` is not 1, and something unknown equals nothing."""
    if isinstance(before, Hidden) or isinstance(after, Hidden):
        return is_same(_revealed(before), _revealed(after))
    if is_object(before) and is_object(after):
        return before.keys() == after.keys() and all(is_same(value, after[name]) for name, value in before.items())
    if is_list(before) and is_list(after):
        return len(before) == len(after) and all(is_same(*pair) for pair in zip(before, after, strict=True))
    if before is UNKNOWN or after is UNKNOWN or isinstance(before, bool) != isinstance(after, bool):
        return False
    return before == after


def _revealed(value: object) -> object:
    return value.value if isinstance(value, Hidden) else value


def text(value: object, mask: Mask) -> tuple[str, int]:
    """Return a value as it is shown, and its number of characters if it was cut, otherwise 0."""
    shown = printable(_encode(value))
    if isinstance(value, str) and shown[1:-1] != value:  # a secret in it may look different when it is escaped
        shown = printable(_encode(mask(value)))
    shown = mask(shown)  # with the quotation marks, which may be a part of a secret
    if len(shown) <= MAX_TEXT_CHARACTERS:
        return shown, 0
    return shown[:MAX_TEXT_CHARACTERS], len(shown)


def printable(shown: str) -> str:
    """Replace every character that a terminal or a browser could act on, such as escapes and changes of the direction of text."""
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)


def short(shown: str, max_characters: int = MAX_NAME_CHARACTERS) -> str:
    return shown if len(shown) <= max_characters else shown[: max_characters - 1] + "…"


def name(shown: str, mask: Mask) -> str:
    """Return a name of an attribute or an address without anything harmful or secret in it."""
    return short(printable(mask(shown))) if shown else ""


def joined(path: str, key: str | int, mask: Mask) -> str:
    """Return the path of a part of a value."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if _NAME.match(key):
        return short(f"{path}.{mask(key)}" if path else mask(key))
    return short(f"{path}[{printable(_encode(mask(key)))}]")


def _object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}


def _list(value: object) -> list[Any]:
    return value if is_list(value) else []
