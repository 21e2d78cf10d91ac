"""Says in the error about a value what would be right: the possible values of an enumeration, or what a text has to be."""

import re
from typing import Any, cast

import msgspec
from msgspec import inspect

_INVALID = re.compile(r"Invalid (?:enum )?value (.*)\Z", re.DOTALL)
_PATTERN = "Expected `str` matching regex"
_INDEX = re.compile(r"\[[^\]]*\]")
_KEY = "{}"
"""What a place has instead of a name for the keys of a map."""


def explained(message: str, annotation: Any, place: str) -> str:
    """Return the message of the decoder, with the possible values if there is a fixed set of them. `place` is like `a.b[0]`."""
    if message.startswith(_PATTERN):
        return next((f"it is not {words}" for words in _descriptions_at(annotation, place)), message)
    found = _INVALID.match(message)
    values = _values_at(annotation, place) if found else []
    return f"{found[1]} is not one of {', '.join(values)}" if found and values else message


def _values_at(annotation: Any, place: str) -> list[str]:
    return list(dict.fromkeys(value for kind in _types_at(annotation, place) for value in _values(kind)))


def _descriptions_at(annotation: Any, place: str) -> list[str]:
    """Return what the text at this place has to be, where its type says so (`msgspec.Meta(description=…)`)."""
    kinds = [part for kind in _types_at(annotation, place) for part in _alternatives(kind)]
    found = (
        cast("dict[str, str] | None", kind.extra_json_schema) for kind in kinds if isinstance(kind, inspect.Metadata)
    )
    return [each["description"] for each in found if each and "description" in each]


def _types_at(annotation: Any, place: str) -> list[inspect.Type]:
    try:
        types = [inspect.type_info(annotation)]
    except (TypeError, NameError):  # a type that only the framework knows
        return []
    for name in filter(None, _INDEX.sub(".[]", place).split(".")):
        types = [each for kind in types for each in _inside(_plain(kind), name)]
    return types


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    return list(kind.types) if isinstance(kind, inspect.UnionType) else [kind]


def _inside(kinds: list[inspect.Type], name: str) -> list[inspect.Type]:
    found: list[inspect.Type] = []
    for kind in kinds:
        if isinstance(kind, inspect.StructType):
            found += [field.type for field in kind.fields if field.encode_name == name]
            if kind.tag_field == name and kind.tag is not None:
                found.append(inspect.LiteralType((kind.tag,)))
        elif isinstance(kind, inspect.ListType) and name == "[]":
            found.append(kind.item_type)
        elif isinstance(kind, inspect.DictType) and name == "[]":
            found.append(kind.value_type)
        elif isinstance(kind, inspect.DictType) and name == _KEY:
            found.append(kind.key_type)
    return found


def _plain(kind: inspect.Type) -> list[inspect.Type]:
    """Return the alternatives of a union, without their metadata."""
    if isinstance(kind, inspect.Metadata):
        return _plain(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [each for part in kind.types for each in _plain(part)]
    return [kind]


def _values(kind: inspect.Type) -> list[str]:
    found: list[str] = []
    for each in _plain(kind):
        if isinstance(each, inspect.EnumType):
            found += [str(member.value) for member in each.cls]
        elif isinstance(each, inspect.LiteralType):
            found += [str(value) for value in each.values]
    return found


def struct_error(error: msgspec.ValidationError, annotation: Any) -> tuple[str, str]:
    """Return where in the body the error is, and what is wrong there."""
    message, _, place = str(error).partition(" - at `")
    of_map = place.removeprefix("key` in `")  # the key itself is wrong, and msgspec names the map
    found = of_map.rstrip("`").removeprefix("$").removeprefix(".")
    return found, explained(message, annotation, found if of_map == place else f"{found}.{_KEY}")
