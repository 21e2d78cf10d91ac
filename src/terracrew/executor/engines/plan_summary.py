"""Summarizes what a plan would do: how many resources it adds, changes, destroys and replaces, and which."""

from typing import Literal

import msgspec

from terracrew.protocol.events import MAX_RECORD_BYTES, FailedCheck, PlanSummary, ResourceChange
from terracrew.wording import plan_words

_MAX_SUMMARY_BYTES = MAX_RECORD_BYTES - (64 << 10)
MAX_CHECKS = 50
_MAX_CHECK_CHARACTERS = 1_000


Action = Literal["create", "update", "delete", "replace", "read", "import", "move", "forget"]


class PlannedChange(msgspec.Struct, frozen=True):
    address: str
    action: Action
    reason: str = ""
    """Why the engine plans it, as a code of `plan_words`."""
    previous_address: str = ""
    """Where a moved resource was before."""
    import_id: str | None = None
    """The id that a resource is imported by; None if it is not imported. An id may be hidden, and is then empty."""


class PlanFacts(msgspec.Struct, frozen=True):
    changes: list[PlannedChange]
    outputs: dict[str, str]
    """Output name → create, update or delete."""
    vanished: frozenset[str]
    """The addresses of resources that are in the state but no longer exist."""
    refreshed: int
    """How many resources of the state the engine looked at. It counts them if the state itself is not known here."""
    checks: list[FailedCheck] = []
    """The checks that failed."""


def summarize(facts: PlanFacts, resources: int | None) -> PlanSummary:
    """Return the summary of a plan. Each resource is counted once: one that is replaced is not counted as added and destroyed.

    `resources` is the number of resources in the state. If the module stores its state elsewhere, it is not known here (None),
    and the resources that were refreshed are counted.
    """
    changes = facts.changes
    existing = facts.refreshed if resources is None else max(resources - len(facts.vanished), 0)
    touched = sum(
        change.action in ("update", "delete", "replace", "forget") and change.import_id is None for change in changes
    )

    def count(action: Action) -> int:
        return sum(change.action == action for change in changes)

    return _bounded(
        PlanSummary(
            add=count("create"),
            change=count("update"),
            destroy=count("delete"),
            replace=count("replace"),
            imports=sum(change.import_id is not None for change in changes),
            moves=sum(bool(change.previous_address) for change in changes),
            forgets=count("forget"),
            unchanged=max(existing - touched, 0),
            existing=existing,
            resources=[_resource(change) for change in changes],
            outputs=facts.outputs,
            checks=[_shortened(each) for each in facts.checks[:MAX_CHECKS]],
        )
    )


def _resource(change: PlannedChange) -> ResourceChange:
    detail = plan_words.reason(change.reason, change.action)
    if change.previous_address:
        detail = f"moved from {change.previous_address}"
    elif change.import_id is not None:
        detail = f"imported from {change.import_id}"
    return ResourceChange(change.address, change.action, detail)


def _shortened(check: FailedCheck) -> FailedCheck:
    return FailedCheck(check.address[:_MAX_CHECK_CHARACTERS], check.message.strip()[:_MAX_CHECK_CHARACTERS])


def _bounded(summary: PlanSummary) -> PlanSummary:
    """Shorten the list of resources until the summary fits into an event. The counts stay complete, and the log has all resources."""
    while summary.resources and len(msgspec.json.encode(summary)) > _MAX_SUMMARY_BYTES:
        summary = msgspec.structs.replace(summary, resources=summary.resources[: len(summary.resources) // 2])
    return summary
