"""Puts plans and changes into words: the same counts and the same verbs on every page and terminal.

Counts are the engine's: it counts a replacement as one to add and one to destroy. `PlanSummary` counts it once, as a replacement.
"""

from collections.abc import Mapping

from terracrew.protocol.events import FailedCheck, PlanSummary, ResourceChange

ORDER = ("replace", "delete", "forget", "update", "move", "import", "create", "read")
"""The actions of a plan in the order in which they are shown, the destructive ones first."""

LOGGED_CHANGES = {
    "created": "created",
    "changed": "changed",
    "destroyed": "destroyed",
    "creating": "had begun to create",
    "changing": "had begun to change",
    "destroying": "had begun to destroy",
    "planned_create": "was to create",
    "planned_replace": "was to replace",
    "planned_destroy": "was to destroy",
}
"""What an attempt did to a resource, by the action that its log reports, or was to do to it by its plan."""


CHECKED_BY_PLAN = "checked by plan"
"""What is said of a validate step that did not run because the plan makes the same checks."""


def is_checked_by_plan(step: str, statuses: Mapping[str, str]) -> bool:
    """Whether the plan made the checks of a step of a job. `statuses` are those of all its steps, by name."""
    is_skipped = step == "validate" and statuses.get(step) == "SKIPPED"
    return is_skipped and statuses.get("plan") in ("RUNNING", "SUCCEEDED", "FAILED", "CANCELED")


def instead_of_running(step: str, statuses: Mapping[str, str], kept_from: int | None) -> str:
    """Return why a step of a job did not have to run; '' for every other step."""
    if statuses.get(step) == "SKIPPED" and kept_from is not None:
        return f"kept from job #{kept_from}"
    return CHECKED_BY_PLAN if is_checked_by_plan(step, statuses) else ""


_CHANGES = ("add", "change", "destroy", "replace", "imports", "moves", "forgets", "resources", "outputs")


def counts(plan: PlanSummary | None) -> str:
    """Return the counts of a plan in the engine's wording, or an empty string if there is no plan."""
    if plan is None:
        return ""
    words = [f"{plan.imports} to import"] if plan.imports else []
    words += [
        f"{plan.add + plan.replace} to add",
        f"{plan.change} to change",
        f"{plan.destroy + plan.replace} to destroy",
    ]
    words += [f"{plan.forgets} to forget"] if plan.forgets else []
    words += [failed_checks(len(plan.checks))] if plan.checks else []
    return ", ".join(words)


def failed_checks(count: int) -> str:
    """Return how many checks of a plan failed: "1 check failed"."""
    return f"{count:,} check{'' if count == 1 else 's'} failed"


def check(failed: FailedCheck) -> str:
    """Return which check failed, and what its message says."""
    return f"{failed.address}: {failed.message}" if failed.message else failed.address


def destroy_count(plan: PlanSummary | None) -> int:
    """Return how many resources a plan destroys or replaces."""
    return 0 if plan is None else plan.destroy + plan.replace


def carry_out(plan: PlanSummary | None, job_type: str) -> str:
    """Return what is done with a plan after its approval, as a verb. If it destroys something, the text says how much."""
    if destroyed := destroy_count(plan):
        return f"destroy {destroyed:,}"
    return "destroy" if job_type == "DESTROY" else "apply"


def apply(plan: PlanSummary | None, *, is_destroy_plan: bool) -> str:
    """Return what applying the plan of a PLAN job does, as a verb. If it destroys something, the text says how much."""
    destroyed = destroy_count(plan)
    if is_destroy_plan:
        return f"Destroy {destroyed:,} resource{'' if destroyed == 1 else 's'}"
    return f"Apply this plan and destroy {destroyed:,}" if destroyed else "Apply this plan"


def has_changes(plan: PlanSummary | None) -> bool:
    """Return whether applying a plan would do anything, be it that only outputs change."""
    return plan is not None and any(getattr(plan, each) for each in _CHANGES)


def in_order(plan: PlanSummary | None) -> list[ResourceChange]:
    """Return the changes of a plan, the destructive ones first."""
    return sorted(plan.resources if plan else [], key=lambda each: ORDER.index(each.action))


def parts(kind: str, changed: int, total: int) -> str:
    """Return how many parts of an attribute change: "JSON, 1 of 11 values changes"."""
    if kind == "JSON" and not changed:
        return "JSON, only its formatting changes"
    noun = "line" if kind == "text" else "value"
    if changed == total:
        return f"{kind}, {changed:,} {noun}{'' if changed == 1 else 's'}"
    return f"{kind}, {changed:,} of {total:,} {noun}s change{'s' if changed == 1 else ''}"


_REASONS = {
    "tainted": "replaced because an earlier change of it failed",
    "requested": "replaced because that was requested",
    "replace triggered by": "replaced because something in its replace_triggered_by changes",
    "cannot update": "replaced because an attribute cannot change in place",
    "delete because no resource config": "destroyed because it is no longer in the configuration",
    "delete because no module": "destroyed because its module is no longer in the configuration",
    "delete because wrong repetition": "destroyed because count or for_each was added or removed",
    "delete because count index": "destroyed because its index is beyond count",
    "delete because each key": "destroyed because its key is no longer in for_each",
    "delete because no move target": "destroyed because the resource that it was moved to does not exist",
    "read because config unknown": "read during the apply because its configuration is not known yet",
    "read because dependency pending": "read during the apply because something that it depends on changes",
    "read because check nested": "read during the apply because it is part of a check",
}
_ACTIONS = {
    "create": "created",
    "update": "updated in place",
    "delete": "destroyed",
    "replace": "destroyed and created again",
    "read": "read during the apply",
    "import": "imported",
    "move": "moved",
    "forget": "no longer managed, not destroyed",
}


def reason(code: str, action: str = "") -> str:
    """Return why an engine plans a change, as part of a sentence. An unknown code is returned unchanged.

    An engine gives the reasons of what it destroys also for what it only forgets, so the action says more there.
    """
    if action == "forget":
        return _ACTIONS[action]
    return _REASONS.get(code.replace("_", " "), code.replace("_", " "))


def change(action: str, detail: str) -> str:
    """Return what happens to a resource, and why if that is known."""
    return reason(detail, action) if detail else _ACTIONS.get(action, action)
