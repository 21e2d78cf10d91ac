"""Reads what the fields of the API's structs say of themselves, and derives requests from settings (ADR 0083).

The settings of a noun, such as `ModuleSettings`, have each field once: its type with bounds and choices, its default, its words
(`Field`) and its description (the docstring below it). Three structs extend them: the noun itself, the request that creates one
(`new`), and the request that changes one (`change`). Options, forms, details, the columns that people may change and the API's
description all come from `describe`.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from enum import Enum
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType
from msgspec import inspect as types

from terracrew.protocol.field import Field

__all__ = ["UNCHANGED", "Field", "StructField", "change", "changed", "created", "describe", "given", "key_order", "new"]

S = TypeVar("S", bound=msgspec.Struct)
Shape = Literal["boolean", "integer", "number", "text", "choice", "list", "map", "struct", "other"]
UNCHANGED: Any = UNSET
"""The default of a field in a change that has none in the settings."""
_changes: dict[type[msgspec.Struct], type[msgspec.Struct]] = {}
"""The change of each kind of settings that is changed in parts when it is the value of a field."""


class StructField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a struct: its own words, and what its type says."""

    name: str
    words: Field
    owner: type[msgspec.Struct]
    type: Any
    """The annotation without `Field` and without `UnsetType`."""
    default: Any
    """The default value; `msgspec.NODEFAULT` if the field is required."""
    shape: Shape
    is_nullable: bool
    choices: tuple[str, ...] = ()
    """The possible values, if there is a fixed set of them; of a list, those of its items."""
    minimum: float | None = None
    is_minimum_excluded: bool = False
    """Whether the value must be more than the minimum."""
    maximum: float | None = None
    max_length: int | None = None
    """The most characters of a text, or the most items of a list."""
    fields: dict[str, "StructField"] = {}
    """The fields of a struct, by their names."""

    @property
    def label(self) -> str:
        return self.words.label or self.name.removeprefix("is_").removeprefix("has_").replace("_", " ").capitalize()

    @property
    def option(self) -> str | None:
        """The name of the option of the command line, without the `--no-…` of a yes-or-no field; None if it has none."""
        return f"--{self.name.replace('_', '-')}" if self.words.option == "" else self.words.option

    @property
    def help(self) -> str:
        """The description of the field, in one line."""
        return " ".join(docstrings(self.owner).get(self.name, "").split())

    @property
    def is_required(self) -> bool:
        return self.default is msgspec.NODEFAULT


@cache
def describe(kind: type[msgspec.Struct]) -> dict[str, StructField]:
    """Return the fields of a struct by their names, in the order in which they are written; those of its parents come first."""
    return {field.name: _described(kind, field) for field in msgspec.structs.fields(kind)}


def given(request: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a request that were not left out."""
    return {name: value for name in request.__struct_fields__ if (value := getattr(request, name)) is not UNSET}


def changed(before: S, request: msgspec.Struct, **values: Any) -> S:
    """Return a struct after a change. `values` come instead of those of the request.

    Fields that only the request has are left out: its caller decides what they mean.
    """
    asked = given(request) | values
    known = {name: asked[name] for name in asked if name in before.__struct_fields__}
    described = describe(type(request))
    after = {
        name: value if name in values else _changed_value(getattr(before, name), value, described[name].words)
        for name, value in known.items()
    }
    return msgspec.structs.replace(before, **after)


def created(kind: type[S], request: msgspec.Struct, /, **values: Any) -> S:
    """Return a new struct with the settings of a request, or with the fields of the same names of any other struct.

    `values` are the remaining fields, or come instead of those of the request.
    """
    described = describe(kind)
    asked = {name: value for name, value in given(request).items() if name in described and name not in values}
    settings = {
        name: _changed_value(_default(kind, name), value, described[name].words) for name, value in asked.items()
    }
    return kind(**settings, **values)


def change(kind: type[S]) -> type[S]:
    """Decorate the request that changes something: each of its fields may be left out (`UNSET`), and unknown ones are refused.

    Where another request has these settings within it, they are read in the same way. So a decorated request may be in use although
    its name is nowhere else.

    To the type checker, the request has the fields of the settings with their types, so that making one is checked. It is read with
    `given` and `changed` only, because a field of it may be left out.
    """
    derived = _derive(kind, lambda _: True)
    _changes[kind.__bases__[0]] = derived
    return derived


def new(kind: type[S]) -> type[S]:
    """Decorate the request that creates something: settings within its settings may be given in parts, and unknown fields are refused."""
    return _derive(kind, lambda field: _split(field.type)[0] in _changes)


def docstrings(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings below the fields of a struct; those of its parents are included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("terracrew."):
            found |= _docstrings_of_class(each)
    return found


def _derive(kind: type[S], is_optional: Callable[[msgspec.structs.FieldInfo], bool]) -> type[S]:
    derived = [
        (field.name, _optional(field.type), UNSET) for field in msgspec.structs.fields(kind) if is_optional(field)
    ]
    made = msgspec.defstruct(
        kind.__name__,
        derived,
        bases=(kind,),
        module=kind.__module__,
        namespace={"__doc__": kind.__doc__, "__qualname__": kind.__qualname__},
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        forbid_unknown_fields=True,
    )
    return cast("type[S]", made)


def _optional(annotation: Any) -> Any:
    """Return the annotation of a field that may be left out. Bounds belong to the type, and words to the field."""
    plain, bounds, words = _split(annotation)
    part = _in_parts(plain)
    if words is not None and words.is_merged:
        key, value = get_args(plain)
        part = dict[key, value | None] | None
    inner = Annotated[(part, *bounds)] if bounds else part
    return Annotated[inner | UnsetType, words] if words is not None else inner | UnsetType


def _in_parts(plain: Any) -> Any:
    """Return a type in which settings that can be changed in parts are replaced by their changes."""
    if get_origin(plain) in (Union, UnionType):
        return Union[tuple(_changes.get(each, each) for each in get_args(plain))]  # noqa: UP007 - of a computed tuple
    return _changes.get(plain, plain)


def _split(annotation: Any) -> tuple[Any, list[Any], Field | None]:
    """Return an annotation without its metadata, its bounds, and its words."""
    if get_origin(annotation) is not Annotated:
        return annotation, [], None
    words = next((each for each in annotation.__metadata__ if isinstance(each, Field)), None)
    bounds = [each for each in annotation.__metadata__ if not isinstance(each, Field)]
    plain, inner_bounds, inner_words = _split(annotation.__origin__)
    return plain, [*inner_bounds, *bounds], words or inner_words


def _described(kind: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> StructField:
    _, _, words = _split(field.type)
    plain = _without_unset(field.type)
    info = types.type_info(plain)
    alternatives = [each for each in _alternatives(info) if not isinstance(each, types.NoneType)]
    first = _bare(alternatives[0]) if alternatives else info
    item = _bare(first.item_type) if isinstance(first, types.ListType) else first
    return StructField(
        name=field.name,
        words=words or Field(),
        owner=kind,
        type=plain,
        default=field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        shape=_shape(first) if len(alternatives) == 1 else "other",
        is_nullable=any(isinstance(each, types.NoneType) for each in _alternatives(info)),
        choices=_choices(item, plain),
        minimum=_bound(first, "ge", "gt"),
        is_minimum_excluded=getattr(first, "gt", None) is not None,
        maximum=_bound(first, "le", "lt"),
        max_length=getattr(first, "max_length", None),
        fields=describe(first.cls) if isinstance(first, types.StructType) and len(alternatives) == 1 else {},
    )


def _bound(info: types.Type, *names: str) -> float | None:
    return next((bound for name in names if (bound := getattr(info, name, None)) is not None), None)


def _without_unset(annotation: Any) -> Any:
    plain, bounds, _ = _split(annotation)
    if get_origin(plain) in (Union, UnionType) and UnsetType in get_args(plain):
        plain = Union[tuple(each for each in get_args(plain) if each is not UnsetType)]  # noqa: UP007 - of a computed tuple
    return Annotated[(plain, *bounds)] if bounds else plain


def _alternatives(info: types.Type) -> list[types.Type]:
    plain = _bare(info)
    return (
        [each for part in plain.types for each in _alternatives(part)]
        if isinstance(plain, types.UnionType)
        else [plain]
    )


def _bare(info: types.Type) -> types.Type:
    return _bare(info.type) if isinstance(info, types.Metadata) else info


def _shape(info: types.Type) -> Shape:
    shapes: tuple[tuple[type[types.Type], Shape], ...] = (
        (types.BoolType, "boolean"),
        (types.IntType, "integer"),
        (types.FloatType, "number"),
        (types.StrType, "text"),
        (types.LiteralType, "choice"),
        (types.EnumType, "choice"),
        (types.ListType, "list"),
        (types.DictType, "map"),
        (types.StructType, "struct"),
    )
    for of, shape in shapes:
        if isinstance(info, of):
            return shape
    return "other"


def _choices(info: types.Type, annotation: Any) -> tuple[str, ...]:
    if isinstance(info, types.EnumType):
        return tuple(str(member.value) for member in info.cls)
    return _literals(annotation) if isinstance(info, types.LiteralType) else ()


def _literals(annotation: Any) -> tuple[str, ...]:
    """Return the values of a `Literal` in the order in which they are written."""
    if get_origin(annotation) is Literal:
        return tuple(str(value) for value in get_args(annotation))
    return next((found for each in get_args(annotation) if (found := _literals(each))), ())


def _default(kind: type[msgspec.Struct], name: str) -> Any:
    return describe(kind)[name].default


def _changed_value(before: Any, value: Any, words: Field) -> Any:
    if isinstance(value, msgspec.Struct) and type(value) in _changes.values():
        return changed(before, value)
    if words.is_merged:
        merged: dict[Any, Any] = {} if value is None else before | value
        return {key: merged[key] for key in sorted(merged, key=key_order) if merged[key] is not None}
    return value


def key_order(key: Any) -> Any:
    """Return what sorts the keys of a map: texts by themselves, and the values of an enumeration in its order."""
    return list(type(key)).index(key) if isinstance(key, Enum) else key


@cache
def _docstrings_of_class(kind: type) -> dict[str, str]:
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):  # the installation has no source files
        return {}
    found: dict[str, str] = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, after in pairwise(statements):
        text = after.value if isinstance(after, ast.Expr) else None
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            found[field.target.id] = inspect.cleandoc(text.value)
    return found
