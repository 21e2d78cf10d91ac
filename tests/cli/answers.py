"""Answers of the API for scripted servers, complete as those of a real one."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import inspect

THEN = "2024-01-02T03:04:05Z"


def answer(kind: type[msgspec.Struct], /, **given: Any) -> dict[str, Any]:
    """Return an answer as JSON has it: what is given, and a plain value for every other field that the struct requires."""
    required = {
        field.name: _plain(inspect.type_info(field.type))
        for field in msgspec.structs.fields(kind)
        if field.required and field.name not in given
    }
    return msgspec.to_builtins(msgspec.convert(required | given, kind))


def _plain(of: inspect.Type) -> Any:
    match of:
        case inspect.Metadata(type=inner):
            return _plain(inner)
        case inspect.UnionType(types=types):
            return None if any(isinstance(each, inspect.NoneType) for each in types) else _plain(types[0])
        case inspect.StructType(cls=kind):
            return answer(kind)
        case inspect.EnumType(cls=members):
            return next(iter(members)).value
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.DateTimeType():
            return datetime.fromisoformat(THEN)
        case inspect.ListType() | inspect.VarTupleType():
            return []
        case inspect.DictType():
            return {}
        case inspect.BoolType():
            return False
        case inspect.IntType() | inspect.FloatType():
            return 0
        case _:
            return ""
