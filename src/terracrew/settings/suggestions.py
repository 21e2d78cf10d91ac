"""Follows the names of settings through a model, to say what a misspelt or missing one should be."""

import difflib
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

Part = str | int


def setting_path(model: type[BaseModel], location: Sequence[Part]) -> list[Part]:
    """Return the names of a setting as its file has them. The library's location also names which kind of a union was read."""
    path: list[Part] = []
    kind: Any = model
    for part in location:
        known = kinds(kind)
        if len(known) > 1 and part in (tagged := {_tag(each): each for each in known}):
            kind = tagged[str(part)]
            continue
        if part == "[key]":
            break  # the location is that of the key before it
        path.append(part)
        kind = _below(known[0], part) if known else None
    return path


def nearest_setting(model: type[BaseModel], path: Sequence[str]) -> str:
    """Return words that suggest the setting whose name is nearest, or nothing."""
    names = [name for kind in _kinds_at(model, path[:-1]) if is_model(kind) for name in kind.model_fields]
    near = difflib.get_close_matches(path[-1], names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def tagged(model: type[BaseModel], path: Sequence[str]) -> dict[str, type[BaseModel]]:
    """Return the types of a union, each by the value that its field `kind` has."""
    return {tag: kind for kind in _kinds_at(model, path) if (tag := _tag(kind))}


def _kinds_at(model: type[BaseModel], path: Sequence[str]) -> list[Any]:
    known: list[Any] = [model]
    for part in path:
        known = [each for kind in known for each in kinds(_below(kind, part))]
    return known


def kinds(annotation: Any) -> list[Any]:
    """Return the types that a value may have, without None and without annotations."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kinds(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [kind for each in get_args(annotation) if each is not NoneType for kind in kinds(each)]
    return [] if annotation is None else [annotation]


def _below(kind: Any, part: Part) -> Any:
    """Return the type of what is below this name."""
    if is_model(kind):
        field = kind.model_fields.get(part)
        return None if field is None else field.annotation
    if get_origin(kind) in (dict, list):
        return get_args(kind)[-1]
    return None


def _tag(kind: Any) -> str | None:
    """Return the only value of the field `kind`, by which the library tells the types of a union apart."""
    field = kind.model_fields.get("kind") if is_model(kind) else None
    values = get_args(field.annotation) if field is not None else ()
    return values[0] if len(values) == 1 else None


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
