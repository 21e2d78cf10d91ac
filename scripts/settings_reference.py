"""How the pages of settings describe a property of a JSON Schema. `server_settings.py` and `runner_settings.py` use it."""

from collections.abc import Callable
from typing import Any, cast


def described(each: dict[str, Any]) -> str:
    """Return the description of a setting, for a cell of a table."""
    return each.get("description", "").replace("|", "\\|").replace("<", "&lt;")


def default(each: dict[str, Any], *, is_required: bool) -> str:
    if is_required:
        return "required"
    value = each.get("default")
    return "" if value in (None, "", [], {}) else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def limits(each: dict[str, Any]) -> list[str]:
    """Return what the schema says about the values, in words."""
    found: list[str] = []
    for kind in [each, *each.get("anyOf", [])]:
        found += [f"one of {', '.join(f'`{value}`' for value in kind['enum'])}"] if "enum" in kind else []
        found += [f"`{kind['const']}`"] if "const" in kind else []
        found += [f"at least {kind['minimum']:,.15g}"] if "minimum" in kind else []
        found += [f"more than {kind['exclusiveMinimum']:,.15g}"] if "exclusiveMinimum" in kind else []
        found += [f"at most {kind['maximum']:,.15g}"] if "maximum" in kind else []
        found += [f"at most {kind['maxLength']} characters"] if "maxLength" in kind else []
    values = each.get("additionalProperties")
    return found + (limits(cast("dict[str, Any]", values)) if isinstance(values, dict) else [])


def section_rows(
    schema: dict[str, Any],
    section: dict[str, Any],
    path: tuple[str, ...],
    variables: Callable[[tuple[str, ...]], list[str]],
) -> list[str]:
    """Return a row for each setting of a section. A section in it is part of the same table."""
    found: list[str] = []
    for name, each in section["properties"].items():
        below = (*path, name)
        if "$ref" in each:
            found += section_rows(schema, section_of(schema, each), below, variables)
            continue
        if optional := [kind for kind in each.get("anyOf", []) if "$ref" in kind]:
            inner: dict[str, Any] = {**section_of(schema, optional[0]), "required": []}  # unless the section is there
            found += section_rows(schema, inner, below, variables)
            continue
        words = ", ".join([*limits(each), *(f"`{one}`" for one in variables(below))])
        is_required = name in section.get("required", [])
        found.append(
            f"| `{'.'.join(below)}` | {default(each, is_required=is_required)} | {described(each)} ({words}) |"
        )
    return found


def section_of(schema: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
    return schema["$defs"][each["$ref"].rpartition("/")[2]]
