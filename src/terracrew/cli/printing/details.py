"""Derives the rows of the details that commands print from what the fields of a struct say of themselves."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from terracrew.api import fields
from terracrew.cli.printing import output
from terracrew.protocol.field import VCPU_UNIT_COUNT, Unit
from terracrew.wording import durations

_WRITERS: dict[Unit, Callable[[Any], str]] = {
    "": str,
    "seconds": durations.written,
    "megabytes": lambda size: f"{size}MB" if size % 1024 else f"{size // 1024}GB",
    "vcpus": lambda units: f"{units / VCPU_UNIT_COUNT:g}",
    "percent": lambda share: f"{share} %",
}


def written(number: float, unit: Unit) -> str:
    """Return a number with its unit, as people write it."""
    return _WRITERS[unit](number)


def rows(
    value: msgspec.Struct,
    kind: type[msgspec.Struct],
    words: Mapping[str, Any] | None = None,
    *,
    without: Collection[str] = (),
) -> list[tuple[str, Any]]:
    """Return a row for each field of `kind` whose value is not its default.

    `words` are shown instead of the values of these fields. Fields in `without` have no row.
    """
    own = words or {}
    return [
        (field.label.lower(), own.get(name) if name in own else _text(getattr(value, name), field.words.unit))
        for name, field in fields.describe(kind).items()
        if name not in without and (name in own or getattr(value, name) != field.default)
    ]


def _text(value: Any, unit: Unit) -> Any:
    if isinstance(value, msgspec.Struct):
        return ", ".join(f"{label} {output.text(each)}" for label, each in rows(value, type(value)))
    return written(value, unit) if unit and isinstance(value, int | float) else value
