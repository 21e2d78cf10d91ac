"""What all stores of external settings have in common: the interface, the limits, and how text and fields are read."""

import contextlib
import json
import time
from pathlib import Path
from typing import Any, Protocol, cast

from terracrew.errors import Invalid, NotFound, TooLarge
from terracrew.settings.external.references import Reference

MAX_VALUE_BYTES = 64 * 1024
"""The longest value. The stores of the clouds have the same limit or a lower one."""


class Store(Protocol):
    """Reads values, one after the other, in a thread of its own. An error names no value."""

    def read(self, reference: Reference) -> str: ...

    def close(self) -> None:
        """Give up what was needed to read, such as a token."""
        ...

    @property
    def reread_seconds(self) -> float | None:
        """Return after how long the values must be read again so that the store stays readable; None if it does not matter."""
        ...


class ReadDeadline:
    """The moment until which a store must have answered."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Return the remaining time, never less than a moment, because libraries understand 0 as `no limit`."""
        return max(0.01, self._at - time.monotonic())


def file_text(path: str) -> str:
    """Return the content of a file with a secret, without the line break at its end."""
    content = b""
    reason = ""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_VALUE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or "unknown error"
    if reason:
        raise NotFound(f"{path} cannot be read: {reason.lower()}")
    return text_of(content)


def text_of(content: bytes) -> str:
    """Return a value as text. One line break at its end is removed: editors and `echo` add it."""
    if len(content) > MAX_VALUE_BYTES:
        raise TooLarge(f"the value is longer than {MAX_VALUE_BYTES // 1024} KiB")
    text = None
    with contextlib.suppress(UnicodeDecodeError):  # it holds the value, so that it must not be in a chain of errors
        text = content.decode()
    if text is None or "\0" in text:
        raise Invalid("the value is not text in UTF-8")
    return text.removesuffix("\n").removesuffix("\r")


def field_of(text: str, field: str) -> str:
    """Return one field of a secret that is a JSON object, or all of it if no field is named."""
    if not field:
        return text
    found: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
    if not isinstance(found, dict):
        raise Invalid("the secret is not a JSON object, so it has no fields: name it without `#`")
    return value_of(cast("dict[str, Any]", found), field)


def value_of(found: dict[str, Any], field: str) -> str:
    """Return a field as text: numbers, true and false as JSON writes them, a section as JSON."""
    if field not in found:
        raise NotFound(f"the secret has no field {field!r}")
    value = found[field]
    return value if isinstance(value, str) else json.dumps(value)
