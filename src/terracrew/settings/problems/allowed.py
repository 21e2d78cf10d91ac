"""Describes the values that a setting may have: `a whole number from 1 to 1000`, `true or false`, `landlock or none`."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from terracrew.settings.suggestions import is_model

Part = str | int
SECTION = "a section with settings of its own (a table in TOML, an object in JSON)"
_Kind = tuple[Any, tuple[Any, ...]]
"""A type, and what was annotated to it: bounds and lengths."""


def values(model: type[BaseModel], path: Sequence[Part]) -> str:
    """Return words for the values that the setting at a path may have; empty if the model does not know it."""
    found: list[_Kind] = [(model, ())]
    for part in path:
        found = [below for kind, _ in found for below in _below(kind, part)]
    return " or ".join(dict.fromkeys(_words(kind, notes) for kind, notes in found))


def is_optional(model: type[BaseModel], path: Sequence[str]) -> bool:
    """Return whether the setting at a path may be null."""
    *sections, last = path
    kinds: list[_Kind] = [(model, ())]
    for part in sections:
        kinds = [below for kind, _ in kinds for below in _below(kind, part)]
    fields = [kind.model_fields[last] for kind, _ in kinds if is_model(kind) and last in kind.model_fields]
    return any(NoneType in get_args(field.annotation) for field in fields)


def listed(names: Iterable[str]) -> str:
    """Return names as a person lists them: `a`, `b` or `c`."""
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} or {last}" if first else last


def _below(kind: Any, part: Part) -> Iterator[_Kind]:
    if is_model(kind):
        if (field := kind.model_fields.get(part)) is not None:
            yield from _flat(field.annotation, tuple(field.metadata))
    elif get_origin(kind) in (dict, list):
        yield from _flat(get_args(kind)[-1], ())


def _flat(annotation: Any, notes: tuple[Any, ...]) -> Iterator[_Kind]:
    """Yield the types of an annotation without None, each with its bounds."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from _flat(inner, (*notes, *more))
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            if each is not NoneType:
                yield from _flat(each, notes)
    else:
        yield annotation, notes


def _words(kind: Any, notes: Sequence[Any]) -> str:
    if is_model(kind) or get_origin(kind) is dict:
        return SECTION
    if get_origin(kind) is Literal:
        return listed(str(each) for each in get_args(kind))
    if get_origin(kind) is list:
        return "a list"
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        return f"a {'whole ' if kind is int else ''}number{_bounds(notes)}"
    return "text" if kind in (str, Path, SecretStr) else "another value"


def _bounds(notes: Sequence[Any]) -> str:
    found: dict[str, Any] = {}
    for note in notes:
        for each in note.metadata if isinstance(note, FieldInfo) else (note,):
            for kind, name in ((Ge, "ge"), (Gt, "gt"), (Le, "le"), (Lt, "lt")):
                if isinstance(each, kind):
                    found[name] = getattr(each, name)
    if "ge" in found and "le" in found:
        return f" from {found['ge']:.15g} to {found['le']:.15g}"
    named = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    words = " and ".join(f"{named[name]} {value:.15g}" for name, value in found.items())
    return f" that is {words}" if words else ""
