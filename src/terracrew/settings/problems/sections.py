"""Finds values that are where a section must be, such as `runner = 3`. Merging such a layer with others would hide them."""

from collections.abc import Iterator
from typing import Any, cast

from pydantic import BaseModel

from terracrew.settings.names import is_mapping, is_section
from terracrew.settings.problems import allowed
from terracrew.settings.trees import Path, Tree


def misplaced(model: type[BaseModel], values: Tree) -> list[tuple[Path, Any]]:
    """Return the path and the value of each such mistake in one layer."""
    return list(_misplaced(model, values, ()))


def without(values: Tree, path: Path) -> Tree:
    """Return the values without the one at a path."""
    name, rest = path[0], path[1:]
    if not rest:
        return {key: value for key, value in values.items() if key != name}
    return {**values, name: without(values[name], rest)}


def _misplaced(model: type[BaseModel], values: Tree, path: Path) -> Iterator[tuple[Path, Any]]:
    for name, value in values.items():
        here = (*path, name)
        if not (is_section(model, here) or is_mapping(model, here)):
            continue
        if not isinstance(value, dict):
            if value is not None or not allowed.is_optional(model, here):
                yield here, value
        elif is_section(model, here):
            yield from _misplaced(model, cast("Tree", value), here)
