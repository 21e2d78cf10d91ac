"""Turns what an engine plans for a resource into its diff."""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from terracrew.plan_diff import compare, values
from terracrew.plan_diff.model import AttributeDiff, ResourceAction, ResourceDiff, UnchangedAttribute
from terracrew.plan_diff.values import Mask
from terracrew.wording import plan_words

MAX_ATTRIBUTES = 300
"""How many changed attributes of a resource are kept; the others are counted."""
MAX_UNCHANGED = 60
_MAX_UNCHANGED_CHARACTERS = 120
NO_ATTRIBUTES = frozenset[ResourceAction]({"move", "forget"})
"""What is only moved or forgotten keeps its values."""


_MAX_NAMED_ATTRIBUTES = 5


class Values(msgspec.Struct, frozen=True):
    """The values of a resource or an output, as decoded JSON. A mark is True for a whole value, or has marks for its parts."""

    before: Any = None
    after: Any = None
    unknown: Any = None
    """Marks what is known only after the apply."""
    before_sensitive: Any = None
    after_sensitive: Any = None


class PlannedResource(msgspec.Struct, frozen=True):
    """What an engine plans for one resource, in words that all engines have in common."""

    address: str
    action: ResourceAction
    read_values: Callable[[], Values]
    """Reads the values when they are compared, so that those of a large plan are not in memory at the same time."""
    reason: str = ""
    """A code of `reasons`."""
    key: str | int | None = None
    """The key or index of an instance of a resource with several."""
    replace_paths: list[list[str | int]] = []
    """The attributes that cannot change in place, each as a path."""
    is_create_first: bool = False
    previous_address: str = ""
    import_id: str | None = None
    deposed: str = ""


def diff(planned: PlannedResource, mask: Mask, *, with_attributes: bool = True) -> ResourceDiff:
    """Return what becomes of a resource. Without attributes, it is only named with its action and reason."""
    is_replaced = planned.action == "replace"
    named = ResourceDiff(
        values.name(planned.address, mask),
        planned.action,
        why=sentence(planned, mask),
        is_create_first=planned.is_create_first if is_replaced else None,
        previous_address=values.name(planned.previous_address, mask),
        import_id=None if planned.import_id is None else values.name(planned.import_id, mask),
        deposed=values.name(planned.deposed, mask),
    )
    if not with_attributes or planned.action in NO_ATTRIBUTES:
        return named
    try:
        return _with_attributes(named, planned, mask)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.structs.replace(named, left_out="Its values cannot be compared: they are nested too deep.")


def _with_attributes(named: ResourceDiff, planned: PlannedResource, mask: Mask) -> ResourceDiff:
    found = planned.read_values()
    is_sensitive = values.has_mark(found.before_sensitive) or values.has_mark(found.after_sensitive)
    before = _parts(values.marked(found.before, None, found.before_sensitive))
    after = _parts(values.marked(found.after, found.unknown, found.after_sensitive))
    if is_sensitive:
        mask = with_hidden(mask, values.hidden_texts([before, after]))
    changed = [name for name in sorted({**before, **after}) if not values.is_same(before.get(name), after.get(name))]
    differing = set(changed)
    same = [name for name, value in after.items() if value is not None and name not in differing]
    forcing = {str(path[0]) for path in planned.replace_paths if path}
    changed.sort(key=lambda name: name not in forcing)
    attributes = [
        _attribute(name, before.get(name), after.get(name), mask, forces=name in forcing)
        for name in changed[:MAX_ATTRIBUTES]
    ]
    left = len(changed) - len(attributes)
    return msgspec.structs.replace(
        named,
        attributes=attributes,
        changed=len(changed),
        unchanged=len(same),
        unchanged_attributes=[_unchanged(name, after[name], mask) for name in sorted(same)[:MAX_UNCHANGED]],
        left_out=f"{left:,} more changed attributes are not kept." if left else "",
    )


def with_hidden(mask: Mask, hidden: set[str]) -> Mask:
    """Mask the sensitive values of a resource in its other attributes, too: engines do not mark every copy of them."""
    longest_first = sorted(hidden, key=len, reverse=True)

    def replaced(shown: str) -> str:
        for each in longest_first:
            shown = shown.replace(each, "***")
        return mask(shown)

    return replaced if hidden else mask


def _attribute(name: str, before: Any, after: Any, mask: Mask, *, forces: bool) -> AttributeDiff:
    found = compare.attribute(values.name(name, mask), before, after, mask)
    return msgspec.structs.replace(found, forces_replacement=True) if forces else found


def _unchanged(name: str, value: Any, mask: Mask) -> UnchangedAttribute:
    shown = values.name(name, mask)
    if values.has_marked_part(value):
        return UnchangedAttribute(shown, is_sensitive=True)
    return UnchangedAttribute(shown, values.short(values.text(value, mask)[0], _MAX_UNCHANGED_CHARACTERS))


def _parts(value: Any) -> dict[str, Any]:
    """Return the attributes of a resource. One that is sensitive or unknown as a whole has one part."""
    if value is None:
        return {}
    return value if values.is_object(value) else {"(all values)": value}


def sentence(planned: "PlannedResource", mask: Mask) -> str:
    """Return the reason of a change as sentences; empty if the engine gives none and none is needed."""
    parts = [] if planned.action == "forget" else [_reason(planned, mask)]
    if planned.action == "replace":
        parts.append(f"The {'new one is created' if planned.is_create_first else 'old one is destroyed'} first.")
    if planned.previous_address:
        parts.append(f"Moved from {_code(values.name(planned.previous_address, mask))}.")
    if planned.import_id is not None:
        named = values.name(planned.import_id, mask)
        parts.append(f"Imported by the ID {_code(named)}." if named else "Imported by an ID that is not known yet.")
    if planned.action == "forget":
        parts.append("It is no longer managed, and not destroyed.")
    return " ".join(filter(None, parts))


def _reason(planned: "PlannedResource", mask: Mask) -> str:
    if planned.deposed:
        return "Destroyed because it was left over when its replacement was created."
    code = planned.reason.replace(" ", "_")
    if code == "cannot_update" and planned.replace_paths:
        paths = list(dict.fromkeys(_path(each, mask) for each in planned.replace_paths))
        named = [_code(each) for each in paths[:_MAX_NAMED_ATTRIBUTES]]
        if len(paths) > len(named):
            named.append(f"{len(paths) - len(named):,} other attributes")
        return f"Replaced because {_list(named)} cannot change in place."
    if planned.key is not None:
        key = _code(values.name(json.dumps(planned.key, ensure_ascii=False), mask))
        if code == "delete_because_each_key":
            return f"Destroyed because the key {key} is no longer in `for_each`."
        if code == "delete_because_count_index":
            return f"Destroyed because the index {key} is beyond `count`."
    words = plan_words.reason(code) if code else ""
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _path(path: list[str | int], mask: Mask) -> str:
    shown = ""
    for key in path[: values.MAX_LEVELS]:
        shown = values.joined(shown, key, mask)
    return shown


def _code(shown: str) -> str:
    return f"`{shown.replace('`', chr(39))}`"


def _list(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
