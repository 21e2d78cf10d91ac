"""What pages and terminals say about the figures of an overview, in the same words."""

from datetime import datetime

from terracrew.protocol.events import PlanSummary
from terracrew.wording import plan_words, schedule_words
from terracrew.wording.durations import duration

SPANS = {"day": "the last 24 hours", "week": "the last 7 days", "month": "the last 30 days"}
NEEDS = {
    "approve": "Awaiting approval",
    "failed": "Failed",
    "lost": "Lost",
    "doubt": "In doubt",
    "quarantine": "State in quarantine",
    "stale": "Out of date",
    "waiting": "Waiting",
    "drift": "Drift",
    "offline": "Offline",
    "outdated": "Outdated",
}
"""The statuses of things that need somebody."""
_ENDED = {"SUCCEEDED": "succeeded", "FAILED": "failed", "CANCELED": "was canceled", "DECLINED": "was declined"}


def wait(seconds: float | None) -> str:
    """Return a wait in words; a dash if nothing has waited."""
    return "–" if seconds is None else duration(seconds, exact=True)


def percent(share: float | None) -> str:
    """Return a share in words; a dash if there is none. Something that is not nothing is never 0 %."""
    if share is None:
        return "–"
    return "<1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def moment(when: datetime, span: str) -> str:
    """Return the start of a part of a span: an hour of today, or a day."""
    if span == "month":
        return f"{when.day} {when:%b}"
    return f"{when:%H:%M}" if span == "day" else f"{when:%a %H:%M}"


def ended_job(job_type: str, number: int, status: str, plan: PlanSummary | None) -> str:
    """Return how a job ended, and how much it has planned or changed: `apply #12 succeeded: 1 to add, 0 to change, 0 to destroy`."""
    what = f"{job_type.lower()} #{number:,} {_ENDED.get(status, status.lower())}"
    if status != "SUCCEEDED" or plan is None:
        return what
    return f"{what}: {plan_words.counts(plan)}" if plan_words.has_changes(plan) else f"{what}: no changes"


def schedule_starts(kind: str, name: str) -> str:
    return f"{schedule_words.KINDS.get(kind, kind)} by the schedule {name}"


def approval_ends(number: int) -> str:
    return f"The time to approve #{number:,} ends"


def role_ends(role: str, name: str) -> str:
    return f"{name or 'A deleted account'} is not {role} any more"


def secret_ends(account: str) -> str:
    return f"A secret of the service account {account} expires"


def trust_policy_ends(account: str, issuer: str) -> str:
    return f"The service account {account} does not trust {issuer} any more"


def token_ends(name: str) -> str:
    return f"Your API token {name} expires"
