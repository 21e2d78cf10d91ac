"""The fields of a JSON schema as rows of a table: name, type in words, whether it is required, and what it means."""

from collections.abc import Iterator
from typing import Any

import msgspec

MAX_LEVELS = 2
"""How many levels of nested objects are shown. Deeper ones are only named."""
_NUMBERS = {"minimum": "at least", "maximum": "at most", "minLength": "at least", "maxLength": "at most"}


class FieldRow(msgspec.Struct, frozen=True):
    name: str
    kind: str
    is_required: bool
    text: str
    choices: list[str]
    default: str
    depth: int = 0


def parameters(operation: dict[str, Any], schemas: dict[str, Any]) -> list[FieldRow]:
    """Return the parameters in the path, the query and the headers."""
    found: list[FieldRow] = []
    for each in operation.get("parameters", []):
        row = _field(each["name"], each["schema"], schemas, bool(each.get("required")), each.get("description", ""))
        kind = f"{each['in']}, {row.kind.replace(' or null', '')}"
        found.append(msgspec.structs.replace(row, kind=kind))
    return found


def of_content(content: dict[str, Any], schemas: dict[str, Any]) -> list[FieldRow]:
    """Return the fields of a JSON or form body; empty for any other body."""
    schema = content.get("application/json", content.get("application/x-www-form-urlencoded", {})).get("schema", {})
    return list(_rows(_resolved(schema, schemas), schemas, 0, frozenset()))


def _rows(schema: dict[str, Any], schemas: dict[str, Any], depth: int, above: frozenset[str]) -> Iterator[FieldRow]:
    required = set(schema.get("required", []))
    for name, content in schema.get("properties", {}).items():
        row = _field(name, content, schemas, name in required, content.get("description", ""))
        yield msgspec.structs.replace(row, depth=depth)
        for part in _parts(content):
            inner = _resolved(part.get("items", part), schemas)
            title = inner.get("title", "")
            if depth < MAX_LEVELS and "properties" in inner and title not in above:
                yield from _rows(inner, schemas, depth + 1, above | {title})


def _field(name: str, schema: dict[str, Any], schemas: dict[str, Any], is_required: bool, text: str) -> FieldRow:
    parts = [_resolved(part, schemas) for part in _parts(schema)]
    choices = [str(value) for part in parts for value in part.get("enum", []) if value is not None]
    default = schema.get("default")
    shown = "" if default in (None, "", [], {}) else msgspec.json.encode(default).decode()
    return FieldRow(name, _words(schema, parts, schemas), is_required, text, choices, shown)


def _words(schema: dict[str, Any], parts: list[dict[str, Any]], schemas: dict[str, Any]) -> str:
    kinds = list(dict.fromkeys(word for part in parts for word in _kinds(part, schemas)))
    bounds = [
        f"{word} {schema[key]:.15g}{' characters' if key.endswith('Length') else ''}"
        for key, word in _NUMBERS.items()
        if key in schema and abs(schema[key]) < 1 << 31
    ]
    return ", ".join([" or ".join(kinds) or "anything", *bounds])


def _kinds(schema: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    kind: str | list[str] = schema.get("type", "object" if "properties" in schema else "")
    names = [kind] if isinstance(kind, str) else kind
    if schema.get("items"):
        inner = _resolved(schema["items"], schemas)
        return [f"list of {inner.get('title') or ' or '.join(_kinds(inner, schemas)) or 'anything'}"]
    if "properties" in schema and schema.get("title"):
        return [schema["title"]]
    return ["time" if schema.get("format") == "date-time" and each == "string" else each for each in names if each]


def _parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return schema.get("oneOf") or schema.get("anyOf") or [schema]


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    reference: str = schema.get("$ref", "")
    return schemas.get(reference.rpartition("/")[2], {}) if reference else schema
