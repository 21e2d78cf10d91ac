"""Says in sentences why an engine plans a change, and in which order a replacement happens."""

import json
from typing import TYPE_CHECKING

from terracrew.plan_diff import values
from terracrew.plan_diff.values import Mask
from terracrew.wording import plan_words

if TYPE_CHECKING:
    from terracrew.plan_diff.resources import PlannedResource

_MAX_NAMED_ATTRIBUTES = 5


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
