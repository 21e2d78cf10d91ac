"""Which approval rules apply at a place: of each, the strictest of the place and all places above it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from terracrew.api.groups import ApprovalRule, Group, GroupView, RuleName
from terracrew.api.place_settings import Interrupted


def _asking(values: Sequence[Interrupted]) -> Interrupted:
    return "ask" if "ask" in values else "retry"


STRICTEST: dict[RuleName, Callable[[Sequence[Any]], Any]] = {
    "max_destroy": min,
    "max_destroy_percent": min,
    "self_approval": min,
    "service_account_approval": min,
    "min_approvals": max,
    "interrupted": _asking,
}
"""The approval rules, each with the function that returns the strictest value: nobody weakens the rule of a place from below it."""
DEFAULTS: dict[RuleName, Any] = {
    "interrupted": "ask",
    "max_destroy": None,
    "max_destroy_percent": None,
    "self_approval": True,
    "service_account_approval": False,
    "min_approvals": 0,
}
"""What applies where no place has the rule."""


class InForce(msgspec.Struct, frozen=True):
    """The value of an approval rule as it applies in a group."""

    value: Any
    origin: Group | None
    """The group that has the rule; None if the default applies."""
    overridden: "InForce | None" = None
    """What would apply if that group, and those below it, had no rule of their own."""


def deciding(values: Sequence[Any], name: RuleName) -> int | None:
    """Return which place decides about a rule, from its value at each place (the nearest first; None: not set); None if none does.

    Of several places with the same value, the highest decides: it would still apply if the others had none.
    """
    found = [at for at, value in enumerate(values) if value is not None]
    if not found:
        return None
    value = STRICTEST[name]([values[at] for at in found])
    return next(at for at in reversed(found) if values[at] == value)


def in_force(lineage: Sequence[Group], name: RuleName) -> InForce:
    """Return the rule of this name that applies in the first group of a lineage (`level_reads.lineage`)."""
    at = deciding([getattr(group, name) for group in lineage], name)
    if at is None:
        return InForce(DEFAULTS[name], None)
    return InForce(getattr(lineage[at], name), lineage[at], in_force(lineage[at + 1 :], name))


def approval_rules(places: Sequence[Mapping[str, Any]]) -> list[ApprovalRule]:
    """Return the approval rules that apply at the first of these places, the others being those above it, the nearest first.

    A place is its path and its value of each rule.
    """
    rules: list[ApprovalRule] = []
    for name in STRICTEST:
        at = deciding([place[name] for place in places], name)
        default = DEFAULTS[name]
        value = default if at is None else places[at][name]
        is_answer = isinstance(default, bool)  # SQLite answers with 0 and 1
        rules.append(
            ApprovalRule(name, bool(value) if is_answer else value, None if at is None else places[at]["path"])
        )
    return rules


def view(lineage: Sequence[Group]) -> GroupView:
    """Return the first group of a lineage with the approval rules that apply in it."""
    places = [msgspec.structs.asdict(group) for group in lineage]
    return GroupView(**places[0], approval_rules=approval_rules(places))
