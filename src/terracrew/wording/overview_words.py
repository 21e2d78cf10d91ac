"""What pages and terminals say about the figures of an overview, in the same words."""

from datetime import datetime

from terracrew.wording.durations import duration

SPANS = {"day": "the last 24 hours", "week": "the last 7 days", "month": "the last 30 days"}
NEEDS = {
    "approve": "Awaiting approval",
    "failed": "Failed",
    "lost": "Lost",
    "doubt": "In doubt",
    "quarantine": "State in quarantine",
    "stale": "Out of date",
    "drift": "Drift",
    "offline": "Offline",
    "outdated": "Outdated",
}
"""The statuses of things that need somebody."""


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
