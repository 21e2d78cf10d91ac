"""Reads settings from environment variables, and notes which variable set which of them."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from terracrew.settings import variables
from terracrew.settings.names import folded, is_mapping, is_section
from terracrew.settings.trees import Path, Tree, put

SEPARATOR = "__"


class Reading(NamedTuple):
    values: Tree
    places: dict[Path, str]
    problems: list[str]
    unread: list[Path]
    """The sections whose variables could not be read."""


def variable(prefix: str, path: Path) -> str:
    """Return the name of the variable that sets this setting."""
    return prefix + SEPARATOR.join(path).upper()


def read(model: type[BaseModel], prefix: str, environ: Mapping[str, str], *, ignores_empty: bool = False) -> Reading:
    """Read the variables that are named after settings: `TERRACREW_RUNNER__CAPACITY`. A whole section is given as JSON.

    Variables that the model does not know belong to other programs, or `variables` reports them as unknown.
    """
    reading = Reading({}, {}, [], [])
    foreign = {name for name, _ in variables.unknown(environ)} | variables.service_links(environ)
    named = [
        (_parts(name, prefix), name) for name in environ if name.upper().startswith(prefix) and name not in foreign
    ]
    for parts, name in sorted(named, key=lambda each: (len(each[0]), each[1])):
        if parts[0] not in model.model_fields or (ignores_empty and not environ[name]):
            continue
        path, value = folded(model, parts), environ[name]
        place = f"environment {name}"
        if is_section(model, path) or is_mapping(model, path):
            section = json_object(value)
            if section is None:
                words = 'a section in one variable must be a JSON object, such as {"name": "value"}'
                reading.problems.append(f"  {'.'.join(path)} ({place}): {words}")
                reading.unread.append(path)
                continue
            put(reading.values, path, section)
        else:
            put(reading.values, path, value)
        reading.places[path] = place
    return reading


def read_short(names: Mapping[str, Path], environ: Mapping[str, str]) -> Reading:
    """Read the variables with names of their own, such as TERRACREW_URL. Of two for one setting, the first name wins."""
    reading = Reading({}, {}, [], [])
    for name, path in names.items():
        if path not in reading.places and environ.get(name):
            put(reading.values, path, environ[name])
            reading.places[path] = f"environment {name}"
    return reading


def _parts(name: str, prefix: str) -> list[str]:
    return name[len(prefix) :].lower().split(SEPARATOR)


def json_object(text: str) -> dict[str, Any] | None:
    """Return the section that a text has as JSON; None if it has none."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
