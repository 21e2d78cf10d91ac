"""Masks the texts of an event's fact. Addresses of states, hashes and statuses stay as they are.

Every text is masked, also that of a kind of fact or a field that is added later, unless it is listed here as data.
"""

from enum import Enum
from functools import cache
from typing import Any, cast

import msgspec
from msgspec import inspect

from terracrew.masking.redactor import Redactor
from terracrew.protocol.events import (
    EngineUsed,
    Fact,
    KeptPlan,
    Output,
    OutputsRead,
    PlanSummary,
    Result,
    SourceResolved,
)

replace = msgspec.structs.replace

_DATA: dict[type[msgspec.Struct], set[str]] = {
    SourceResolved: {"digest", "commit", "moved_from"},
    KeptPlan: {"sha256", "path"},
    EngineUsed: {"name", "version"},
    OutputsRead: {"outputs", "sha256"},
    Result: {"failure_kind"},
}
"""The fields that are hashes, paths of Terracrew's own and other data. Outputs are data, too; `hide_outputs` handles them."""
_ACTIONS: dict[type[msgspec.Struct], set[str]] = {PlanSummary: {"outputs"}}
"""The fields that map names, which are masked, to words of Terracrew's own."""
_PLAIN_TYPES = (
    inspect.LiteralType,
    inspect.EnumType,
    inspect.IntType,
    inspect.FloatType,
    inspect.BoolType,
    inspect.NoneType,
)


def masked(fact: Fact, redactor: Redactor) -> Fact:
    """Return the fact without the secrets in its texts."""
    return _masked(fact, redactor) if redactor else fact


def _masked(value: Any, redactor: Redactor) -> Any:
    """Return the value without secrets; the same object if it has none."""
    if isinstance(value, msgspec.Struct):
        return _masked_struct(value, redactor)
    if isinstance(value, str):
        return value if isinstance(value, Enum) else redactor.mask_text(value)
    if isinstance(value, dict):
        found = cast("dict[Any, Any]", value)
        return {_masked(name, redactor): _masked(each, redactor) for name, each in found.items()}
    if isinstance(value, list):
        return [_masked(each, redactor) for each in cast("list[Any]", value)]
    return value


def _masked_struct(value: msgspec.Struct, redactor: Redactor) -> msgspec.Struct:
    changed: dict[str, Any] = {}
    for name in _text_fields(type(value)):
        before = getattr(value, name)
        if name in _ACTIONS.get(type(value), ()):
            after = {redactor.mask_text(each): action for each, action in before.items()}
        else:
            after = _masked(before, redactor)
        if after != before:
            changed[name] = after
    return replace(value, **changed) if changed else value


@cache
def _text_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of the fields of a struct that may hold a text for people."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    data = _DATA.get(kind, set[str]())
    return tuple(each.name for each in info.fields if each.name not in data and not _is_plain(each.type))


def _is_plain(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return all(map(_is_plain, kind.types))
    return isinstance(kind, _PLAIN_TYPES)


def hide_outputs(outputs: OutputsRead, redactor: Redactor) -> OutputsRead:
    """Mark each output that holds a secret as sensitive. Its value is unchanged, but not shown to everybody."""
    if not redactor or not _has_secret(outputs.outputs, redactor):
        return outputs
    hidden = {
        name: replace(one, is_sensitive=True) if _has_secret({name: one}, redactor) else one
        for name, one in outputs.outputs.items()
    }
    return replace(outputs, outputs=hidden)


def _has_secret(outputs: dict[str, Output], redactor: Redactor) -> bool:
    text = msgspec.json.encode({name: one.value for name, one in outputs.items()})
    return redactor.mask(text) is not text
