"""Lists the effective settings, each with the layer that it came from and what it overrides. Secrets are hidden."""

from collections.abc import Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, SecretStr

from terracrew.masking.names import is_secret
from terracrew.settings.merging import Merged

HIDDEN = "(hidden)"


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
    # People choose the names below a mapping, such as the settings of a dispatcher: a secret shows only in its name.
    is_hidden = isinstance(value, SecretStr) or (isinstance(value, str) and is_secret(path[-1]))
    given = merged.given(path)
    name = ".".join(path)

    def shown(text: Any) -> Any:
        if not is_hidden or text is None:
            return text
        return _without_password(text) if name.endswith("_url") and isinstance(text, str) else HIDDEN

    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    below = [Overridden(shown(other), origin) for origin, other in given[1:]]
    return Setting(name, shown(text), given[0][0] if given else "default", below)


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


def _without_password(address: str) -> str:
    """Return an address without its password and its query. Nothing is shown of a text that is not an address."""
    try:
        found = urlsplit(address)
        host = f"{found.hostname}:{found.port}" if found.port else found.hostname
    except ValueError:
        return HIDDEN
    if not found.scheme or not host:
        return HIDDEN
    user = f"{found.username or ''}{':' + HIDDEN if found.password else ''}"
    rest = f"?{HIDDEN}" if found.query else ""
    return f"{found.scheme}://{user + '@' if user else ''}{host}{found.path}{rest}"
