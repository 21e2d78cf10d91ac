"""Says in words of our own what is wrong with settings, and which values a setting may have."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, time
from pathlib import Path as FilePath
from types import NoneType
from typing import Any, Literal, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from terracrew.settings.names import Part, SettingKind, is_mapping, is_model, is_section, kinds_at, tagged
from terracrew.settings.trees import Path, Tree, find

SECTION = "a section with settings of its own (a table in TOML, an object in JSON)"
_TAG_ERRORS = ("union_tag_not_found", "union_tag_invalid")
MAX_SHOWN_CHARACTERS = 32
"""A longer value is not repeated. Tokens of ours are longer, should one be where a number belongs."""
_NOT_ALLOWED = frozenset(
    {
        "bool_parsing",
        "finite_number",
        "float_parsing",
        "greater_than",
        "greater_than_equal",
        "int_from_float",
        "int_parsing",
        "int_parsing_size",
        "less_than",
        "less_than_equal",
        "literal_error",
    }
)
"""Errors of numbers, of true and false, and of one value out of several: such a setting holds no secret, so it is repeated."""


def describe(problem: ErrorDetails, allowed: str) -> str:
    """Return what is wrong with a value. `allowed` describes the values that its setting may have."""
    kind, context = problem["type"], problem.get("ctx", {})
    value: Any = problem.get("input")
    match kind:
        case "value_error":
            return str(context["error"])
        case "string_too_short":
            return "must not be empty"
        case "string_too_long":
            return f"has {len(value)} characters; at most {context['max_length']} are allowed"
        case "too_long":
            return f"has {len(value)} entries; at most {context['max_length']} are allowed"
        case _ if kind in _NOT_ALLOWED and isinstance(value, str | bool | int | float):
            return f"must be {allowed}, not {_shown(value)}"
        case _:
            return f"must be {allowed}, not {kind_of(value)}"


def kind_of(value: Any) -> str:
    """Return what a value is, without the value itself, which may be a secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text" if value else "an empty text"
        case list():
            return "a list"
        case dict():
            return "a section"
        case date() | time():
            return "a date or time"
        case _:
            return "another value"


def _shown(value: str | bool | int | float) -> str:
    if not isinstance(value, str):
        return (
            str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
        )
    if not value:
        return "an empty text"
    return repr(value) if len(value) <= MAX_SHOWN_CHARACTERS else f"a text of {len(value)} characters"


def allowed(model: type[BaseModel], path: Sequence[Part]) -> str:
    """Return words for the values that the setting at a path may have; empty if the model does not know it."""
    return " or ".join(dict.fromkeys(_words(kind) for kind in kinds_at(model, path)))


def listed(names: Iterable[str]) -> str:
    """Return names as a person lists them: `a`, `b` or `c`."""
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} or {last}" if first else last


def _words(found: SettingKind) -> str:
    kind = found.type
    if is_model(kind) or get_origin(kind) is dict:
        return SECTION
    if get_origin(kind) is Literal:
        return listed(str(each) for each in get_args(kind))
    if get_origin(kind) is list:
        return "a list"
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        return f"a {'whole ' if kind is int else ''}number{_bounds(found.notes)}"
    return "text" if kind in (str, FilePath, SecretStr) else "another value"


def _bounds(notes: Sequence[Any]) -> str:
    found: dict[str, Any] = {}
    for note in notes:
        for kind, name in ((Ge, "ge"), (Gt, "gt"), (Le, "le"), (Lt, "lt")):
            if isinstance(note, kind):
                found[name] = getattr(note, name)
    if "ge" in found and "le" in found:
        return f" from {found['ge']:.15g} to {found['le']:.15g}"
    named = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    words = " and ".join(f"{named[name]} {value:.15g}" for name, value in found.items())
    return f" that is {words}" if words else ""


def beside(model: type[BaseModel], values: Tree, problem: ErrorDetails) -> list[ErrorDetails]:
    """Return the further errors of a section if the problem is that its kind is not known: the library does not look for them.

    Each setting is checked by the first kind that knows it. One that no kind knows is reported once.
    """
    if problem["type"] not in _TAG_ERRORS:
        return []
    path = [str(part) for part in problem["loc"]]
    given: Any = find(values, path)
    candidates = tagged(model, path)
    found: dict[str, list[ErrorDetails]] = {}
    for tag, kind in candidates.items():
        errors: list[ErrorDetails] = []
        try:
            kind.model_validate({**given, "kind": tag})
        except ValidationError as error:
            errors = error.errors(include_url=False)
        for name in given:
            is_known = name in kind.model_fields
            if name in found or (not is_known and any(name in other.model_fields for other in candidates.values())):
                continue
            found[name] = [
                {**each, "loc": (*path, tag, *each["loc"])} for each in errors if each["loc"] and each["loc"][0] == name
            ]
    return [each for errors in found.values() for each in errors]


def without(values: Tree, path: Path) -> Tree:
    """Return the values without the one at a path."""
    name, rest = path[0], path[1:]
    if not rest:
        return {key: value for key, value in values.items() if key != name}
    return {**values, name: without(values[name], rest)}


def misplaced(model: type[BaseModel], values: Tree, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of everything in one layer that is where a section must be, such as `runner = 3`.

    Merging such a layer with others would hide it.
    """
    for name, value in values.items():
        here = (*path, name)
        if not (is_section(model, here) or is_mapping(model, here)):
            continue
        if not isinstance(value, dict):
            if value is not None or not _is_optional(model, here):
                yield here, value
        elif is_section(model, here):
            yield from misplaced(model, cast("Tree", value), here)


def _is_optional(model: type[BaseModel], path: Path) -> bool:
    """Return whether the setting at a path may be null."""
    sections = [kind.type for kind in kinds_at(model, path[:-1]) if is_model(kind.type)]
    fields = [each.model_fields[path[-1]] for each in sections if path[-1] in each.model_fields]
    return any(NoneType in get_args(field.annotation) for field in fields)
