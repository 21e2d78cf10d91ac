"""Converts rows to frozen structs and back, by the types of the struct's fields.

Times are stored as seconds since 1970, booleans may come back as 0 and 1, and whatever is not a scalar is JSON text.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from terracrew.server.db.seam import Param, Row

S = TypeVar("S", bound=msgspec.Struct)
_SCALARS = (
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.StrType,
    inspect.BytesType,
    inspect.DateTimeType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.UUIDType,
)


def row_to(kind: type[S], row: Row) -> S:
    """Convert a row to a struct. Columns without a field are ignored."""
    decoders = _json_decoders(kind)
    if decoders:
        row = dict(row)
        for name, decoder in decoders.items():
            if isinstance(text := row.get(name), str):
                row[name] = decoder.decode(text)
    return msgspec.convert(row, kind, strict=False)


def rows_to(kind: type[S], rows: Iterable[Row]) -> list[S]:
    return [row_to(kind, row) for row in rows]


def to_params(struct: msgspec.Struct, *fields: str) -> dict[str, Param]:
    """Return the values of these fields (of all, if none is named) as the database accepts them."""
    as_json = _json_decoders(type(struct))
    return {name: _param(getattr(struct, name), name in as_json) for name in fields or struct.__struct_fields__}


@cache
def _json_decoders(kind: type[msgspec.Struct]) -> dict[str, msgspec.json.Decoder[Any]]:
    return {
        field.name: msgspec.json.Decoder(field.type)
        for field in msgspec.structs.fields(kind)
        if not _is_scalar(inspect.type_info(field.type))
    }


def _is_scalar(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _is_scalar(kind.type)
    if isinstance(kind, inspect.UnionType):
        return all(_is_scalar(member) for member in kind.types)
    return isinstance(kind, _SCALARS)


def _param(value: Any, as_json: bool) -> Param:
    if value is None:
        return None
    if as_json:
        return msgspec.json.encode(value).decode()
    if isinstance(value, datetime):
        return value.timestamp()
    plain: Param = value if isinstance(value, bytes) else msgspec.to_builtins(value)
    return plain
