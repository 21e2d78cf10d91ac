"""Texts from clouds in a form that every database can store and every page and terminal can show.

An account belongs to whom it belongs: what it answers may contain anything. PostgreSQL stores no NUL, and a terminal obeys escapes.
"""

from typing import Any, TypeVar

import msgspec

from terracrew.wording import escapes

MAX_TEXT_CHARACTERS = 4_000
T = TypeVar("T", bound=msgspec.Struct)


def plain(message: T) -> T:
    """Return a message whose texts have no control characters but tabs and line ends, and are not endless."""
    return msgspec.convert(_plain(msgspec.to_builtins(message)), type(message))


def _plain(value: Any) -> Any:
    match value:
        case str():
            return escapes.plain(value[:MAX_TEXT_CHARACTERS])
        case list():
            listed: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            return [_plain(each) for each in listed]
        case dict():
            items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            return {_plain(name): _plain(each) for name, each in items.items()}
        case _:
            return value
