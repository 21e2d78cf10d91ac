"""Converts rows to frozen structs and back, by the types of the struct's fields.

Times are stored as seconds since 1970, booleans may come back as 0 and 1, and whatever is not a scalar is JSON text.
"""

import contextlib
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from terracrew.errors import Damaged
from terracrew.server.db.seam import Param, Row

S = TypeVar("S", bound=msgspec.Struct)
_WORDS = re.compile("[A-Z][a-z]+")
_MAX_ERROR_CHARACTERS = 300
UNREADABLE_ADVICE = (
    "A newer server, or something else than a server, has changed its row: upgrade this server if the others are newer, else "
    "correct the row, or restore a backup"
)
_PLAIN = (
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.StrType,
    inspect.BytesType,
    inspect.LiteralType,
)
"""The types of fields whose values the database accepts as they are."""
_SCALARS = (*_PLAIN, inspect.DateTimeType, inspect.EnumType, inspect.UUIDType)


def row_to(kind: type[S], row: Row) -> S:
    """Convert a row to a struct. Columns without a field are ignored. Raises Damaged for a row that no server has written."""
    decoders = _json_decoders(kind)
    try:
        if decoders:
            found = dict(row)
            for name, decoder in decoders.items():
                if isinstance(text := row.get(name), str):
                    found[name] = _decoded(decoder, name, text)
            return msgspec.convert(found, kind, strict=False)
        return msgspec.convert(row, kind, strict=False)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise damaged(kind.__name__, _key(row), error) from error


def damaged(what: str, key: str, error: Exception) -> Damaged:
    """Return the error about a stored value that cannot be read."""
    words = " ".join(word.lower() for word in _WORDS.findall(what))
    return Damaged(
        f"the stored {words} {key} cannot be read: {str(error)[:_MAX_ERROR_CHARACTERS]}. {UNREADABLE_ADVICE}"
    )


def _decoded(decoder: msgspec.json.Decoder[Any], name: str, text: str) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise msgspec.ValidationError(f"{name}: {error}") from error


def _key(row: Row) -> str:
    return " ".join(str(row[name]) for name in ("id", "job_id", "attempt", "number") if name in row)


def rows_to(kind: type[S], rows: Iterable[Row]) -> list[S]:
    return [row_to(kind, row) for row in rows]


def readable_rows(kind: type[S], rows: Iterable[Row]) -> list[S]:
    """Convert the rows that can be read. The caller finds out about the others by their keys."""
    found: list[S] = []
    for row in rows:
        with contextlib.suppress(Damaged):
            found.append(row_to(kind, row))
    return found


def to_params(struct: msgspec.Struct, *fields: str) -> dict[str, Param]:
    """Return the values of these fields (of all, if none is named) as the database accepts them."""
    names = fields or struct.__struct_fields__
    return dict(zip(names, to_values(struct, *names), strict=True))


def to_values(struct: msgspec.Struct, *fields: str) -> list[Param]:
    """Return the values of these fields in their order, as the database accepts them."""
    get, converted = _conversion(type(struct), fields)
    found: list[Any] = list(get(struct)) if len(fields) > 1 else [get(struct)]
    for place, as_json in converted:
        if (value := found[place]) is not None:
            found[place] = _param(value, as_json)
    return found


@cache
def _conversion(
    kind: type[msgspec.Struct], fields: tuple[str, ...]
) -> tuple[Callable[[msgspec.Struct], Any], list[tuple[int, bool]]]:
    """Return a function that gets the values of fields, and the places of those to convert, each with whether it is JSON.

    Most fields are texts, numbers and booleans, which the database accepts as they are.
    """
    types = {field.name: inspect.type_info(field.type) for field in msgspec.structs.fields(kind)}
    as_json = _json_decoders(kind)
    places = [(place, name in as_json) for place, name in enumerate(fields) if not _is_of(types[name], _PLAIN)]
    return attrgetter(*fields), places


@cache
def _json_decoders(kind: type[msgspec.Struct]) -> dict[str, msgspec.json.Decoder[Any]]:
    return {
        field.name: msgspec.json.Decoder(field.type)
        for field in msgspec.structs.fields(kind)
        if not _is_of(inspect.type_info(field.type), _SCALARS)
    }


def _is_of(kind: inspect.Type, types: tuple[type[inspect.Type], ...]) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _is_of(kind.type, types)
    if isinstance(kind, inspect.UnionType):
        return all(_is_of(member, types) for member in kind.types)
    return isinstance(kind, types)


def _param(value: Any, as_json: bool) -> Param:
    if as_json:
        return msgspec.json.encode(value).decode()
    if isinstance(value, datetime):
        return value.timestamp()
    plain: Param = value if isinstance(value, bytes) else msgspec.to_builtins(value)
    return plain
