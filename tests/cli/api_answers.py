"""Completes what a scripted server answers with what the API says of the answer, so that a test has only the fields that it is about."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, get_args, get_origin

from litestar.handlers import HTTPRouteHandler
from litestar.response import Response
from msgspec import inspect as types

from terracrew.server.app import ROUTERS
from tests.client.scripted_server import Asked

THEN = "2024-01-02T03:04:05Z"


def completing(answer: Callable[..., None]) -> Callable[..., None]:
    """Return a method of `Asked` that answers as the given one does, with complete structs."""

    def complete_and_answer(
        asked: Asked, status: int, body: Any = None, kind: str = "application/json", **headers: str
    ) -> None:
        if status < 300 and isinstance(body, dict | list) and (found := _answer_of(asked)):
            body = _value(types.type_info(found), body)
        answer(asked, status, body, kind, **headers)

    return complete_and_answer


def complete(kind: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return a struct as JSON: the required fields that are not given get plain values."""
    return _value(types.type_info(kind), given)


@cache
def _answers() -> list[tuple[str, re.Pattern[str], Any]]:
    """Return the methods, the paths and the answers of the API."""
    found: list[tuple[str, re.Pattern[str], Any]] = []
    for router in ROUTERS:
        for route in router.routes:
            for handler in getattr(route, "route_handlers", ()):
                if isinstance(handler, HTTPRouteHandler):
                    answer = handler.fn.__annotations__["return"]
                    answer = get_args(answer)[0] if get_origin(answer) is Response else answer
                    path = re.compile(re.sub(r"\{[^}]*\}", "[^/]+", route.path))
                    found += [(str(method), path, answer) for method in handler.http_methods]
    return sorted(found, key=lambda each: each[1].pattern.count("[^/]+"))


def _answer_of(asked: Asked) -> Any:
    """Return the type of the answer to a request; None if it has none."""
    path = asked.path.partition("?")[0]
    for method, pattern, answer in _answers():
        if method == asked.method and pattern.fullmatch(path):
            try:
                types.type_info(answer)
            except TypeError:
                return None  # a stream
            return answer
    return None


def _value(info: types.Type, value: Any) -> Any:
    """Complete a struct, and those within a value."""
    kinds = _alternatives(info)
    if isinstance(value, list):
        items = [each.item_type for each in kinds if isinstance(each, types.ListType | types.VarTupleType)]
        return [_value(items[0], each) for each in value] if items else value
    if not isinstance(value, dict):
        return value
    structs = [each for each in kinds if isinstance(each, types.StructType)]
    for struct in structs:
        if len(structs) == 1 or not value or value.get(struct.tag_field or "") == struct.tag:
            return _completed(struct, value)
    maps = [each.value_type for each in kinds if isinstance(each, types.DictType)]
    return {key: _value(maps[0], each) for key, each in value.items()} if maps else value


def _completed(info: types.StructType, given: dict[str, Any]) -> dict[str, Any]:
    known = {field.encode_name: field for field in info.fields}
    made = {name: _value(known[name].type, value) if name in known else value for name, value in given.items()}
    made |= {name: _plain(field.type) for name, field in known.items() if field.required and name not in given}
    return made | ({info.tag_field: info.tag} if info.tag_field else {})


def _plain(info: types.Type) -> Any:
    """Return the plainest value of a type."""
    kinds = _alternatives(info)
    if any(isinstance(each, types.NoneType) for each in kinds):
        return None
    match kinds[0]:
        case types.BoolType():
            return False
        case types.IntType() | types.FloatType() as number:
            return number.ge or 0
        case types.DateTimeType():
            return THEN
        case types.ListType() | types.VarTupleType():
            return []
        case types.DictType():
            return {}
        case types.LiteralType() as literal:
            return literal.values[0]
        case types.EnumType() as enum:
            return next(iter(enum.cls)).value
        case types.StructType() as struct:
            return _completed(struct, {})
        case _:
            return ""


def _alternatives(info: types.Type) -> list[types.Type]:
    if isinstance(info, types.Metadata):
        return _alternatives(info.type)
    return (
        [each for part in info.types for each in _alternatives(part)] if isinstance(info, types.UnionType) else [info]
    )
