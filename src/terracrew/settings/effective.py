"""Lists the effective settings, each with the layer that it came from. Secrets are hidden."""

from collections.abc import Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, SecretStr

from terracrew.settings.merging import M, Merged

HIDDEN = "(hidden)"


class Setting(msgspec.Struct, frozen=True):
    name: str
    """The names of its sections and its own, with dots between them."""
    value: Any
    origin: str
    """`default`, the path of the file, `environment` with the name of the variable, or `command line`."""


def effective(merged: Merged[M]) -> list[Setting]:
    """Return all settings in the order of the model."""
    return [Setting(".".join(path), _shown(value), merged.origin(path)) for path, value in _leaves(merged.settings, ())]


def _leaves(value: Any, path: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _leaves(getattr(value, name), (*path, name))
    elif isinstance(value, dict) and value:
        for name, below in cast("dict[str, Any]", value).items():
            yield from _leaves(below, (*path, name))
    else:
        yield tuple(path), value


def _shown(value: Any) -> Any:
    return _without_secret(value.get_secret_value()) if isinstance(value, SecretStr) else value


def _without_secret(text: str) -> str:
    """Return an address without its password and its query, and nothing of any other secret."""
    try:
        found = urlsplit(text)
        host = f"{found.hostname}:{found.port}" if found.port else found.hostname
    except ValueError:
        return HIDDEN
    if not found.scheme or not host:
        return HIDDEN
    user = f"{found.username or ''}{':' + HIDDEN if found.password else ''}"
    rest = f"?{HIDDEN}" if found.query else ""
    return f"{found.scheme}://{user + '@' if user else ''}{host}{found.path}{rest}"
