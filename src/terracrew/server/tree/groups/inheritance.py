"""What applies at a place of the tree, from its own settings and those of all places above it.

A setting of a place is a struct whose fields are optional. Each field says by which rule one of several values applies
(`Field.merge`): that of the nearest place, the smallest or the largest. Places are given with the nearest first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from terracrew.api import fields
from terracrew.api.fields import StructField
from terracrew.api.groups import ApprovalRule, Group, GroupSettings, GroupView, RuleName

S = TypeVar("S", bound=msgspec.Struct)
DEFAULTS: dict[RuleName, Any] = {
    "max_destroy": None,
    "max_destroy_percent": None,
    "self_approval": True,
    "service_account_approval": False,
    "min_approvals": 0,
    "interrupted": "ask",
}
"""The approval rules, and what applies where no place has the rule."""


class EffectiveRule(msgspec.Struct, frozen=True):
    """The value of an approval rule as it applies in a group."""

    value: Any
    origin: Group | None
    """The group that has the rule; None if the default applies."""
    overridden: "EffectiveRule | None" = None
    """What would apply if that group, and those below it, had no rule of their own."""


def effective(kind: type[S], places: Sequence[S]) -> S:
    """Return the setting that applies at the first of these places. Each key of a map is merged for itself."""
    counted, found = _counting(places), dict[str, Any]()
    for name, field in fields.describe(kind).items():
        values = [getattr(place, name) for place in counted]
        if field.shape == "map":
            found[name] = _merged_map(cast("Sequence[Mapping[Any, Any]]", values), field)
        elif (at := _deciding(values, field)) is not None:
            found[name] = values[at]
    return kind(**found)


def origins(kind: type[S], places: Sequence[tuple[str, S]]) -> dict[str, str]:
    """Return by field the path of the place that decides about it. Fields that no place has are left out."""
    counted, found = _counting([place for _, place in places]), dict[str, str]()
    for name, field in fields.describe(kind).items():
        if (at := _deciding([getattr(place, name) for place in counted], field)) is not None:
            found[name] = places[at][0]
    return found


def effective_rule(lineage: Sequence[Group], name: RuleName) -> EffectiveRule:
    """Return the approval rule that applies in the first group of a lineage (`level_reads.lineage`)."""
    at = _deciding([getattr(group, name) for group in lineage], _RULES[name])
    if at is None:
        return EffectiveRule(DEFAULTS[name], None)
    return EffectiveRule(getattr(lineage[at], name), lineage[at], effective_rule(lineage[at + 1 :], name))


def approval_rules(places: Sequence[Mapping[str, Any]]) -> list[ApprovalRule]:
    """Return the approval rules that apply at the first of these places. A place is its path and its value of each rule."""
    return [_rule(places, name) for name in DEFAULTS]


def effective_value(values: Sequence[Any], name: RuleName) -> Any:
    """Return the value of an approval rule that applies, from those of a place and all places above it."""
    at = _deciding(values, _RULES[name])
    return DEFAULTS[name] if at is None else values[at]


def view(lineage: Sequence[Group]) -> GroupView:
    """Return the first group of a lineage with the approval rules that apply in it."""
    places = [msgspec.structs.asdict(group) for group in lineage]
    return GroupView(**places[0], approval_rules=approval_rules(places))


_RULES: Mapping[str, StructField] = fields.describe(GroupSettings)


def _rule(places: Sequence[Mapping[str, Any]], name: RuleName) -> ApprovalRule:
    at = _deciding([place[name] for place in places], _RULES[name])
    value = DEFAULTS[name] if at is None else places[at][name]
    is_answer = isinstance(DEFAULTS[name], bool)  # SQLite answers with 0 and 1
    return ApprovalRule(name, bool(value) if is_answer else value, None if at is None else places[at]["path"])


def _counting(places: Sequence[S]) -> list[S]:
    """Return the places that count: none above one that inherits nothing."""
    alone = next((at for at, place in enumerate(places) if not getattr(place, "inherits", True)), len(places))
    return list(places[: alone + 1])


def _deciding(values: Sequence[Any], field: StructField) -> int | None:
    """Return which place decides about a field, from its value at each place (None: not set); None if none does.

    Of several places with the same smallest or largest value, the highest decides: it would still apply if the others had none.
    """
    found = [at for at, value in enumerate(values) if value is not None]
    if not found or field.words.merge == "nearest":
        return found[0] if found else None
    size: Callable[[Any], Any] | None = field.choices.index if field.choices else None
    strictest = min if field.words.merge == "smallest" else max
    value = strictest((values[at] for at in found), key=size)
    return next(at for at in reversed(found) if values[at] == value)


def _merged_map(values: Sequence[Mapping[Any, Any]], field: StructField) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    for key in sorted({key for each in values for key in each}, key=fields.key_order):
        of_key = [each.get(key) for each in values]
        if (at := _deciding(of_key, field)) is not None:
            merged[key] = of_key[at]
    return merged
