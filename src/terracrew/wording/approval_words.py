"""Approval rules in words, the same on pages and in a terminal."""

from collections.abc import Sequence
from typing import Any, Protocol


class Rule(Protocol):
    """An approval rule as it applies at a place: `terracrew.api.groups.ApprovalRule`."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> bool | int | str | None: ...
    @property
    def path(self) -> str | None: ...


_ANSWERS = {
    ("self_approval", True): "people may approve their own jobs",
    ("self_approval", False): "nobody approves their own jobs",
    ("service_account_approval", True): "service accounts may approve",
    ("service_account_approval", False): "service accounts do not approve",
    ("interrupted", "ask"): "after a change that was cut short, the next plan needs an approval",
    ("interrupted", "retry"): "a change that was cut short is tried again without asking",
}


def described(rules: Sequence[Rule]) -> list[str]:
    """Return each approval rule as a phrase with its place: `2 people must approve each change (corp)`. One that sets no limit is
    left out."""
    return [f"{words} ({_place(rule.path)})" for rule in rules if (words := phrase(rule.name, rule.value))]


def phrase(name: str, value: Any) -> str:
    """Return an approval rule in words; empty if it limits nothing."""
    if (answer := _ANSWERS.get((name, value))) is not None:
        return answer
    if value is None or (name == "min_approvals" and not value):
        return ""
    if name == "min_approvals":
        return f"{people(value)} must approve each change"
    if name == "max_destroy":
        return f"destroying more than {value:,} needs an approval"
    return f"destroying more than {value} % needs an approval"


def people(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"


def missing(count: int) -> str:
    """Say that a plan needs more approvals: `1 more person must approve it`."""
    return f"{count:,} more {'person' if count == 1 else 'people'} must approve it"


def button(carry_out: str, counted: int, needed: int, *, is_in_doubt: bool = False) -> str:
    """Return what the next approval does. `carry_out` is what happens after the last one: `apply`."""
    approve = "Approve in doubt" if is_in_doubt else "Approve"
    is_last = counted + 1 >= needed
    count = f" ({min(counted + 1, needed)} of {needed})" if needed > 1 else ""
    return f"{approve} and {carry_out}{count}" if is_last else f"{approve}{count}"


def consequence(counted: int, needed: int) -> str:
    """Say what follows the next approval."""
    if (left := needed - counted - 1) > 0:
        return f"Nothing is changed yet: {missing(left)} after you."
    return (
        "The plan is applied as it was made. If the state, the source or the inputs have changed since, "
        "the job plans again and asks again."
    )


def given(job: int, counted: int, needed: int) -> str:
    """Say what an approval that was just given has done. The job continues if `counted` has reached `needed`."""
    if (left := needed - counted) > 0:
        return f"Approved ({counted} of {needed}). Job #{job:,} still waits: {missing(left)}."
    return f"Approved. Job #{job:,} continues with its plan."


def named(names: Sequence[str], most: int = 5) -> str:
    """Return names as a list in words: `ada, grace and 3 more`."""
    shown = [*names[:most], *([f"{len(names) - most:,} more"] if len(names) > most else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def approvals(rules: Sequence[Rule]) -> int:
    """Return how many people must approve each change."""
    return _value(rules, "min_approvals") or 0


def requirement(rules: Sequence[Rule]) -> str:
    """Return when a plan needs an approval: `2 people for each change`, `only to destroy more than 5 resources, or all of them`."""
    if count := approvals(rules):
        return f"{people(count)} for each change"
    return f"only to destroy {limits}" if (limits := _destroy_limits(rules)) else "only to destroy everything"


def origin(rules: Sequence[Rule]) -> str:
    """Return the place that requires an approval of each change, in words; empty if none does."""
    path = next((rule.path for rule in rules if rule.name == "min_approvals"), None)
    return "" if path is None else _place(path)


def before_change(rules: Sequence[Rule], job_type: str, *, is_asked: bool = False) -> str:
    """Say who is asked before an APPLY or a DESTROY changes something. `is_asked`: the job or a doubt requires an approval, too."""
    if count := approvals(rules):
        alone = "" if _value(rules, "self_approval") is not False else "; nobody approves their own jobs"
        return (
            f"It plans first. Then {people(count)} must approve the plan, because {origin(rules)} requires it{alone}."
        )
    if is_asked:
        return "It plans first, and somebody must approve the plan."
    if job_type == "DESTROY":
        return "It plans first, and then destroys what the plan lists without asking again."
    limits = _destroy_limits(rules) or "everything"
    return f"It plans first, and then applies the plan without asking again, unless the plan destroys {limits}."


def before_kept_plan(rules: Sequence[Rule]) -> str:
    """Say who else is asked before a plan that was looked at is applied; empty if nobody is because of the rules."""
    if not (count := approvals(rules)):
        return ""
    own = (
        "your request counts as one approval, if you may approve it"
        if _value(rules, "self_approval") is not False
        else "your request counts as one approval, if you may approve and somebody else made the plan"
    )
    return f"{people(count).capitalize()} must approve it, because {origin(rules)} requires it; {own}."


def _destroy_limits(rules: Sequence[Rule]) -> str:
    """Return what a plan may not destroy without an approval, apart from everything; empty if there is no limit."""
    count, percent = _value(rules, "max_destroy"), _value(rules, "max_destroy_percent")
    if count == 0 or percent == 0:
        return "anything"
    found = [] if count is None else [f"more than {count:,} resource{'' if count == 1 else 's'}"]
    found += [] if percent is None or percent >= 100 else [f"more than {percent} % of the resources"]
    return ", ".join([*found, "or all of them"]) if found else ""


def _value(rules: Sequence[Rule], name: str) -> Any:
    return next((rule.value for rule in rules if rule.name == name), None)


def _place(path: str | None) -> str:
    return "the default" if path is None else path or "the organization"
