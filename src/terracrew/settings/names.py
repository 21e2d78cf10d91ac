"""Tells sections, mappings and single values of a settings model apart, and lists its settings."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from terracrew.settings.suggestions import is_model, kinds
from terracrew.settings.trees import Path

Model = type[BaseModel]


def is_section(model: Model, path: Sequence[str]) -> bool:
    return any(is_model(kind) for kind in _kinds_at(model, path))


def is_mapping(model: Model, path: Sequence[str]) -> bool:
    """Return whether people choose the keys below this path: categories of the log, settings of a dispatcher."""
    return any(get_origin(kind) is dict for kind in _kinds_at(model, path))


def folded(model: Model, parts: Sequence[str]) -> Path:
    """Return the path of a name. What follows a mapping is one key: `logging.log_level` and `terracrew.hub`. If the
    mapping has sections, it is the name of a section and a setting of it."""
    for end in range(1, len(parts)):
        if not is_mapping(model, parts[:end]):
            continue
        if sections := [kind for kind in _values_of_mapping(model, parts[:end]) if is_model(kind)]:
            return (*parts[: end + 1], *folded(sections[0], parts[end + 1 :]))
        return (*parts[:end], ".".join(parts[end:]))
    return tuple(parts)


def path_of(model: Model, name: str) -> Path:
    """Return the path of a setting by its dotted name. What follows a mapping is one key, unless the mapping has sections."""
    parts = name.split(".")
    path = folded(model, parts)
    return tuple(parts) if any(is_model(kind) for kind in _values_of_mapping(model, path[:-1])) else path


def is_known(model: Model, path: Sequence[str]) -> bool:
    """Return whether the model has this setting. Below a mapping, every key is known."""
    found: list[Any] = [model]
    for part in path:
        if any(is_model(kind) and kind.model_config.get("extra") == "allow" for kind in found):
            return True
        found = [below for kind in found for below in _below(kind, part)]
    return bool(found)


def settings_of(model: Model, path: Path = ()) -> Iterator[tuple[Path, FieldInfo]]:
    """Yield every setting that is not a section, in the order of the model."""
    for name, field in model.model_fields.items():
        sections = [kind for kind in kinds(field.annotation) if is_model(kind)]
        for section in sections:
            yield from settings_of(section, (*path, name))
        if not sections:
            yield (*path, name), field


def _kinds_at(model: Model, path: Sequence[str]) -> list[Any]:
    """Return the types that the value at a path may have; none if the model does not know the path."""
    found: list[Any] = [model]
    for part in path:
        fields = [each.model_fields[part] for each in found if is_model(each) and part in each.model_fields]
        found = [kind for field in fields for kind in kinds(field.annotation)]
    return found


def _values_of_mapping(model: Model, path: Sequence[str]) -> list[Any]:
    found = [kind for kind in _kinds_at(model, path) if get_origin(kind) is dict]
    return [value for kind in found for value in kinds(get_args(kind)[-1])]


def _below(kind: Any, part: str) -> list[Any]:
    if is_model(kind):
        return kinds(kind.model_fields[part].annotation) if part in kind.model_fields else []
    return kinds(get_args(kind)[-1]) if get_origin(kind) is dict else []
