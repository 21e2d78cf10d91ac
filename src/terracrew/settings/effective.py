"""Lists the effective settings, each with the layer that it came from and what it overrides. Secrets are hidden."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, SecretStr

from terracrew.settings.external import references
from terracrew.settings.merging import Merged
from terracrew.settings.names import Model, is_shown
from terracrew.settings.trees import find

HIDDEN = "(hidden)"
_REFERENCES = ("external", "settings")
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
    given, model = merged.given(path), cast("Model", type(merged.settings))
    text = _plain(value)
    if given and _is_external(merged, path):
        text = HIDDEN
        value = text
    # A value in a lower layer was not checked: a number may be text there.
    is_number = isinstance(value, bool | int | float)
    below = [Overridden(_overridden(model, path, other, is_number), origin) for origin, other in given[1:]]
    printed = text if text is HIDDEN else _shown(model, path, text)
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


def _overridden(model: Model, path: tuple[str, ...], value: Any, is_number: bool) -> Any:
    if is_number and isinstance(value, str):
        return value if _NUMBER.fullmatch(value) else HIDDEN
    return _shown(model, path, value)


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


def _shown(model: Model, path: tuple[str, ...], found: Any) -> Any:
    """Return a value as it may be printed. Numbers, true and false are no secrets. An address is shown without its password."""
    if found is None or isinstance(found, bool | int | float) or found in ("", [], {}):
        return found
    if not is_shown(model, path):
        return HIDDEN
    if path[: len(_REFERENCES)] == _REFERENCES:
        return _reference(found)
    is_address = isinstance(found, str) and ("://" in found or path[-1].endswith("url"))
    return _without_password(found) if is_address else found


def _reference(text: Any) -> str:
    """Return a reference without the arguments of a program. In a lower layer it may be no reference at all."""
    try:
        return str(references.parse(text)) if isinstance(text, str) else HIDDEN
    except ValueError:
        return HIDDEN


def _without_password(address: str) -> str:
    """Return an address without its password and its query. Nothing is shown of a text that is not an address."""
    try:
        found = urlsplit(address)
        host = f"{found.hostname}:{found.port}" if found.port else found.hostname
    except ValueError:
        return HIDDEN
    if not found.scheme or not host:
        return HIDDEN
    if not (found.password or found.query or found.fragment):
        return address
    user = f"{found.username or ''}{':' + HIDDEN if found.password else ''}"
    rest = f"?{HIDDEN}" if found.query else ""
    return f"{found.scheme}://{user + '@' if user else ''}{host}{found.path}{rest}"
