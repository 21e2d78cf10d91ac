"""Makes the JSON of a plan that a command line at another place shows (`tofu show SAVED`), without sensitive values.

Such a command line needs the schemas of the resources beside the plan, and ends with a crash if a value does not have the type that
its schema says. So what replaces a value has the same kind, or is marked as sensitive: then the command line does not look at it.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines import masked_values
from terracrew.executor.engines.hcl import plan_for_hooks, shown_plan
from terracrew.executor.engines.masked_values import SHOWN
from terracrew.plan_diff import values
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.plan_diff.values import Hidden, Mask, is_list, is_object

_CHANGED = f"{SHOWN} before"
"""What a sensitive value that changes was before. If both were the same text, it would be shown as a value that stays."""
_SECTIONS = ("resource_changes", "resource_drift", "output_changes")


class _UsedResource(msgspec.Struct):
    type: str = ""
    mode: str = "managed"
    provider_name: str = ""


class _UsedResources(msgspec.Struct):
    resource_changes: list[_UsedResource] = []
    resource_drift: list[_UsedResource] = []


class _ProviderSchemas(msgspec.Struct):
    resource_schemas: dict[str, msgspec.Raw] = {}
    data_source_schemas: dict[str, msgspec.Raw] = {}


class _Schemas(msgspec.Struct):
    format_version: str
    provider_schemas: dict[str, _ProviderSchemas] = {}


_sections = msgspec.json.Decoder(dict[str, msgspec.Raw])
_resources = msgspec.json.Decoder(_UsedResources)
_schemas = msgspec.json.Decoder(_Schemas)


def has_resources(printed: bytes) -> bool:
    """Return whether schemas are needed to show the plan. Raises Invalid if this is not the description of a plan."""
    return bool(_used(printed))


def build(printed: bytes, schemas: bytes | None, mask: Mask) -> PlanJson:
    """Raises Invalid if this is not the description of a plan, or if a schema is missing."""
    version, wanted = _wanted(_used(printed), schemas)
    try:
        plan = _plan(shown_plan.document(printed), plan_for_hooks.masked(printed, mask))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"its JSON cannot be read: {error}") from error
    return PlanJson(msgspec.Raw(plan), version, msgspec.Raw(masked_values.encode(wanted)))


def _used(printed: bytes) -> dict[str, set[tuple[str, str]]]:
    """Return the modes and types of the resources in the plan, by provider."""
    try:
        found = _resources.decode(shown_plan.document(printed))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"its resources cannot be read: {error}") from error
    used: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for each in (*found.resource_changes, *found.resource_drift):
        used[each.provider_name].add((each.mode, each.type))
    return used


def _wanted(used: Mapping[str, set[tuple[str, str]]], printed: bytes | None) -> tuple[str, dict[str, Any]]:
    """Return the format of the schemas, and those of these types."""
    if printed is None:
        return "", {}
    try:
        found = _schemas.decode(shown_plan.document(printed))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the schemas of its resources cannot be read: {error}") from error
    wanted: dict[str, Any] = {}
    for provider, types in used.items():
        schemas = found.provider_schemas.get(provider, _ProviderSchemas())
        of_mode = {"managed": schemas.resource_schemas, "data": schemas.data_source_schemas}
        kept = _ProviderSchemas()
        to_mode = {"managed": kept.resource_schemas, "data": kept.data_source_schemas}
        for mode, name in sorted(types):
            if name not in of_mode.get(mode, {}):
                raise Invalid(f"the engine has no schema for {name} of {provider}")
            to_mode[mode][name] = of_mode[mode][name]
        wanted[provider] = kept
    return found.format_version, wanted


def _plan(printed: bytes, masked: bytes) -> bytes:
    """Return the masked document with changes that command lines can show."""
    given, shown = _sections.decode(printed), _sections.decode(masked)
    for name in _SECTIONS:
        if name not in given:
            continue
        real, found = masked_values.decode(given[name]), masked_values.decode(shown[name])
        pairs = zip(real, found, strict=True) if is_list(real) else zip(real.values(), found.values(), strict=True)
        for one, other in pairs:
            _fit(one.get("change", one), other.get("change", other))
        shown[name] = msgspec.Raw(masked_values.encode(found))
    return masked_values.encode(shown)


def _fit(given: dict[str, Any], shown: dict[str, Any]) -> None:
    """Give the masked values of a change the kinds of those that they stand for."""
    before = values.marked(given.get("before"), None, given.get("before_sensitive"))
    after = values.marked(given.get("after"), None, given.get("after_sensitive"))
    for name, one, other, text in (("before", before, after, _CHANGED), ("after", after, before, SHOWN)):
        if name in shown:
            mark = f"{name}_sensitive"
            shown[name], shown[mark] = _fitted(one, other, shown[name], shown.get(mark, False), text)


def _fitted(given: Any, other: Any, shown: Any, mark: Any, changed: str) -> tuple[Any, Any]:
    """Return what is shown of a value, and what is sensitive in it. `other` is the value on the other side of the change."""
    if isinstance(given, Hidden):
        is_same = not isinstance(other, Hidden) or values.is_same(given, other)
        return _of_kind(given.value, SHOWN if is_same else changed), True
    if is_object(given):
        return _fitted_object(given, other if is_object(other) else {}, shown, mark, changed)
    if is_list(given):
        return _fitted_list(given, other if is_list(other) else [], shown, mark, changed)
    is_replaced = not isinstance(given, str) and shown == SHOWN  # a number that is a secret
    return shown, True if is_replaced else mark


def _fitted_object(
    given: dict[str, Any], other: dict[str, Any], shown: dict[str, Any], mark: Any, changed: str
) -> tuple[Any, Any]:
    found: dict[str, Any] = {}
    marks: dict[str, Any] = dict(mark) if is_object(mark) else {}
    for (name, each), (key, masked) in zip(given.items(), shown.items(), strict=True):
        found[key], inner = _fitted(each, other.get(name), masked, marks.get(key, False), changed)
        if values.has_mark(inner):
            marks[key] = inner
    return found, marks or mark


def _fitted_list(given: list[Any], other: list[Any], shown: list[Any], mark: Any, changed: str) -> tuple[Any, Any]:
    marks: list[Any] = list(mark) if is_list(mark) else []
    marks += [False] * (len(given) - len(marks))
    found: list[Any] = []
    for index, (each, masked) in enumerate(zip(given, shown, strict=True)):
        beside = other[index] if index < len(other) else None
        value, marks[index] = _fitted(each, beside, masked, marks[index], changed)
        found.append(value)
    return found, marks if values.has_mark(marks) else mark


def _of_kind(value: Any, text: str) -> Any:
    """Return a text that stands for a sensitive value, in a list or an object if that is one."""
    if value is None:
        return None
    return [text] if is_list(value) else {SHOWN: text} if is_object(value) else text
