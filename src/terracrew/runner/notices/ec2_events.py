"""What the instance metadata of EC2 says about the end of a machine, as the announced end of the runner on it."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

DRAIN_BEFORE_SECONDS = 900.0
"""How long before a scheduled event the runner stops taking jobs. Events are announced up to two weeks ahead."""
_SCHEDULED = {
    "instance-retirement": "scheduled retirement",
    "instance-stop": "scheduled stop",
    "instance-reboot": "scheduled reboot",
    "system-reboot": "scheduled reboot",
}
_LEAVING_STATES = ("Terminated", "Stopped", "Hibernated")


class MetadataAnswers(msgspec.Struct, frozen=True):
    """The text of each page of the metadata; None if there is no such page, which is the normal case."""

    spot: str | None = None
    rebalance: str | None = None
    scheduled: str | None = None
    lifecycle: str | None = None


class AnnouncedEnd(msgspec.Struct, frozen=True):
    reason: str
    ends_at: float | None = None
    """Seconds since 1970."""
    is_final: bool = False
    """Whether it is never moved to a later time."""


class _SpotAction(msgspec.Struct, frozen=True):
    action: str
    time: datetime


class _ScheduledEvent(msgspec.Struct, frozen=True):
    not_before: str = msgspec.field(name="NotBefore")
    code: str = msgspec.field(default="", name="Code")
    state: str = msgspec.field(default="active", name="State")


def announced(answers: MetadataAnswers, now: float) -> AnnouncedEnd | None:
    """Return the end that comes first, or None if none is announced. Raises ValueError if an answer cannot be read."""
    found = [*_spot(answers.spot), *_scheduled(answers.scheduled, now)]
    if found:
        return min(found, key=lambda each: each.ends_at or 0.0)
    if answers.lifecycle is not None and answers.lifecycle.strip().endswith(_LEAVING_STATES):
        return AnnouncedEnd("termination by its Auto Scaling group")
    return AnnouncedEnd("rebalance recommendation") if answers.rebalance is not None else None


def _spot(text: str | None) -> list[AnnouncedEnd]:
    if text is None:
        return []
    action = msgspec.json.decode(text, type=_SpotAction)
    return [AnnouncedEnd("spot notice", _utc(action.time).timestamp(), is_final=True)]


def _scheduled(text: str | None, now: float) -> list[AnnouncedEnd]:
    if text is None:
        return []
    events = msgspec.json.decode(text, type=list[_ScheduledEvent])
    found = [
        AnnouncedEnd(
            _SCHEDULED.get(each.code, "scheduled maintenance"),
            _utc(parsedate_to_datetime(each.not_before)).timestamp(),
        )
        for each in events
        if each.state == "active"
    ]
    return [each for each in found if each.ends_at is not None and each.ends_at - now <= DRAIN_BEFORE_SECONDS]


def _utc(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
