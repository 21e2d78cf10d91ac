"""Follows the names of settings through a model: sections, mappings and single values, their types and what is noted on them."""

import difflib
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from terracrew.settings.trees import Path
from terracrew.settings.values import Shown, VariableNames

Model = type[BaseModel]
Part = str | int
N = TypeVar("N")


class SettingKind(NamedTuple):
    """A type that a value may have, and what is annotated to it: bounds, checks and marks."""

    type: Any
    notes: tuple[Any, ...] = ()


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def kinds_of(annotation: Any, notes: Sequence[Any] = ()) -> list[SettingKind]:
    """Return the types that a value may have, without None."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        added = [note for each in more for note in (each.metadata if isinstance(each, FieldInfo) else (each,))]
        return kinds_of(inner, (*notes, *added))
    if origin in (Union, UnionType):
        return [kind for each in get_args(annotation) if each is not NoneType for kind in kinds_of(each, notes)]
    return [] if annotation is None else [SettingKind(annotation, tuple(notes))]


def kinds_of_field(field: FieldInfo) -> list[SettingKind]:
    return kinds_of(field.annotation, field.metadata)


def below(kind: SettingKind, part: Part) -> list[SettingKind]:
    """Return the types of what is below this name. What may be printed of a mapping may be printed of its values."""
    if is_model(kind.type):
        field = kind.type.model_fields.get(part)
        return [] if field is None else kinds_of_field(field)
    if get_origin(kind.type) in (dict, list):
        marks = [Shown() for note in kind.notes if isinstance(note, Shown) and note.covers(part)]
        return kinds_of(get_args(kind.type)[-1], marks)
    return []


def kinds_at(model: Model, path: Sequence[Part]) -> list[SettingKind]:
    """Return the types that the value at a path may have; none if the model does not know the path."""
    found = [SettingKind(model)]
    for part in path:
        found = [each for kind in found for each in below(kind, part)]
    return found


def is_section(model: Model, path: Sequence[str]) -> bool:
    return any(is_model(kind.type) for kind in kinds_at(model, path))


def is_mapping(model: Model, path: Sequence[str]) -> bool:
    """Return whether people choose the keys below this path: categories of the log, settings of a dispatcher."""
    return any(get_origin(kind.type) is dict for kind in kinds_at(model, path))


def is_shown(model: Model, path: Sequence[str]) -> bool:
    """Return whether the text of a setting may be printed: its field says so, or it is one of several known texts."""
    return any(
        get_origin(kind.type) is Literal or any(isinstance(note, Shown) and not note.keys for note in kind.notes)
        for kind in kinds_at(model, path)
    )


def is_known(model: Model, path: Sequence[str]) -> bool:
    """Return whether the model has this setting. Below a mapping, every key is known."""
    found = [SettingKind(model)]
    for part in path:
        if any(is_model(kind.type) and kind.type.model_config.get("extra") == "allow" for kind in found):
            return True
        found = [each for kind in found for each in below(kind, part)]
    return bool(found)


def folded(model: Model, parts: Sequence[str]) -> Path:
    """Return the path of a name. What follows a mapping is one key: `logging.log_level` and `terracrew.hub`. If the
    mapping has sections, it is the name of a section and a setting of it."""
    for end in range(1, len(parts)):
        if not is_mapping(model, parts[:end]):
            continue
        if sections := [kind.type for kind in kinds_at(model, parts[: end + 1]) if is_model(kind.type)]:
            return (*parts[: end + 1], *folded(sections[0], parts[end + 1 :]))
        return (*parts[:end], ".".join(parts[end:]))
    return tuple(parts)


def path_of(model: Model, name: str) -> Path:
    """Return the path of a setting by its dotted name. What follows a mapping is one key, unless the mapping has sections."""
    parts = name.split(".")
    path = folded(model, parts)
    is_of_mapping = is_mapping(model, path[:-1])
    return tuple(parts) if is_of_mapping and is_section(model, path) else path


def settings_of(model: Model, path: Path = ()) -> Iterator[tuple[Path, FieldInfo]]:
    """Yield every setting that is not a section, in the order of the model."""
    for name, field in model.model_fields.items():
        sections = [kind.type for kind in kinds_of_field(field) if is_model(kind.type)]
        for section in sections:
            yield from settings_of(section, (*path, name))
        if not sections:
            yield (*path, name), field


def marked(model: Model, mark: type[N]) -> Iterator[tuple[Path, N]]:
    """Yield every setting that has a mark, with the mark."""
    for path, field in settings_of(model):
        for note in {note for kind in kinds_of_field(field) for note in kind.notes if isinstance(note, mark)}:
            yield path, note


def short_names(model: Model) -> dict[str, Path]:
    """Return the variables with names of their own. A variable that is named after the setting overrides them."""
    return {name: path for path, mark in marked(model, VariableNames) for name in mark.names}


def setting_path(model: Model, location: Sequence[Part]) -> list[Part]:
    """Return the names of a setting as its file has them. The library's location also names which kind of a union was read."""
    path: list[Part] = []
    known = [SettingKind(model)]
    for part in location:
        if len(known) > 1 and part in (tags := {_tag(each): each for each in known}):
            known = [tags[str(part)]]
            continue
        if part == "[key]":
            break  # the location is that of the key before it
        path.append(part)
        known = below(known[0], part) if known else []
    return path


def nearest_setting(model: Model, path: Sequence[str]) -> str:
    """Return words that suggest the setting whose name is nearest, or nothing."""
    names = [name for kind in kinds_at(model, path[:-1]) if is_model(kind.type) for name in kind.type.model_fields]
    near = difflib.get_close_matches(path[-1], names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def tagged(model: Model, path: Sequence[str]) -> dict[str, Model]:
    """Return the types of a union, each by the value that its field `kind` has."""
    return {tag: kind.type for kind in kinds_at(model, path) if (tag := _tag(kind))}


def _tag(kind: SettingKind) -> str | None:
    """Return the only value of the field `kind`, by which the library tells the types of a union apart."""
    field = kind.type.model_fields.get("kind") if is_model(kind.type) else None
    values = get_args(field.annotation) if field is not None else ()
    return values[0] if len(values) == 1 else None
