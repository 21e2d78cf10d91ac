"""Lists the effective settings, each with the layer that it came from and what it overrides. Secrets are hidden."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from pydantic import BaseModel, SecretStr

from terracrew.settings import shown
from terracrew.settings.merging import Merged
from terracrew.settings.trees import find

_NUMBER = re.compile(r"[-+]?[\d.]{1,20}|true|false|yes|no|on|off", re.IGNORECASE)


class Overridden(msgspec.Struct, frozen=True):
    """A value in a lower layer, which does not count."""

    value: Any
    origin: str


class Setting(msgspec.Struct, frozen=True):
    name: str
    """The names of its sections and its own, with dots between them."""
    value: Any
    origin: str
    """`default`, the file with its line, `environment` with the name of the variable, or `option` with the option."""
    overrides: list[Overridden] = []


def effective(merged: Merged[Any]) -> list[Setting]:
    """Return all settings in the order of the model."""
    return [_setting(merged, path, value) for path, value in _leaves(merged.settings, ())]


def _setting(merged: Merged[Any], path: tuple[str, ...], value: Any) -> Setting:
    given = merged.given(path)
    text = _plain(value)
    if given and _is_external(merged, path):
        text = shown.HIDDEN
        value = text
    # A value in a lower layer was not checked: a number may be text there.
    is_number = isinstance(value, bool | int | float)
    below = [Overridden(_overridden(path, other, is_number), origin) for origin, other in given[1:]]
    printed = text if text is shown.HIDDEN else shown.value(path, text)
    return Setting(".".join(path), printed, given[0][0] if given else "default", below)


def _plain(value: Any) -> Any:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value)
        case list():
            return [_plain(each) for each in cast("list[Any]", value)]
        case _:
            return value


def _is_external(merged: Merged[Any], path: tuple[str, ...]) -> bool:
    """Return whether the value came from a vault: it is hidden, whatever setting it belongs to."""
    return any(layer.is_external and find(layer.values, path) is not None for layer in merged.layers)


def _overridden(path: tuple[str, ...], value: Any, is_number: bool) -> Any:
    if is_number and isinstance(value, str):
        return value if _NUMBER.fullmatch(value) else shown.HIDDEN
    return shown.value(path, value)


def _leaves(value: Any, path: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            if not field.exclude:
                yield from _leaves(getattr(value, name), (*path, name))
    elif isinstance(value, dict) and value:
        for name, below in cast("dict[str, Any]", value).items():
            yield from _leaves(below, (*path, name))
    else:
        yield tuple(path), value
