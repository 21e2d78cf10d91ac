"""The runners whose outages begin and end, and what people are notified of. The functions are pure."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby

import msgspec

from terracrew.api.notifications import NotificationContent
from terracrew.server.announcements.model import Announcement

MAX_NAMES = 20
"""How many runners a message names."""


class RunnerOutage(msgspec.Struct, frozen=True, kw_only=True):
    """A runner that people were notified of, because it stayed away. The row is deleted when the outage ends."""

    runner_id: str
    since: datetime
    """When its last instance disconnected."""


class AbsentRunner(msgspec.Struct, frozen=True, kw_only=True):
    """A runner whose outage begins or ends."""

    id: str
    name: str
    organization_id: str | None
    """None: a shared runner, which serves every organization."""
    group_id: str | None
    group_path: str
    since: float
    """When its last instance disconnected."""
    is_back: bool = False
    """Whether an instance is connected again. Otherwise the outage ends because somebody has disabled or drained the runner."""


def began(runners: Iterable[AbsentRunner]) -> list[Announcement]:
    """Return what people are notified of when these runners are offline: one message for each group, however many there are."""
    return [_announcement(each, "offline", _since(each)) for each in _by_group(runners)]


def ended(runners: Iterable[AbsentRunner]) -> list[Announcement]:
    """Return what people are notified of when these outages have ended."""
    back = (each for each in runners if each.is_back)
    return [_announcement(each, "online again", _were_since(each)) for each in _by_group(back)]


def _by_group(runners: Iterable[AbsentRunner]) -> list[list[AbsentRunner]]:
    def key(runner: AbsentRunner) -> tuple[str, str]:
        return runner.organization_id or "", runner.group_id or ""

    return [list(each) for _, each in groupby(sorted(runners, key=lambda each: (*key(each), each.name)), key)]


def _announcement(runners: list[AbsentRunner], word: str, text: str) -> Announcement:
    first = runners[0]
    is_one = len(runners) == 1
    shared = "" if first.organization_id else "shared "
    title = f"The {shared}runner {first.name} is {word}" if is_one else f"{len(runners):,} {shared}runners are {word}"
    return Announcement(
        event="runner_offline",
        organization_id=first.organization_id,
        path=first.group_path,
        subject_id=first.id if is_one else first.group_id or "",
        content=NotificationContent(
            title=title, text=text, link=f"/dashboard/runners/{first.id}" if is_one else "/dashboard/runners"
        ),
    )


def _since(runners: list[AbsentRunner]) -> str:
    if len(runners) == 1:
        return f"No instance of it has been connected since {_moment(runners[0])}."
    return "None of their instances is connected:\n" + _names(runners)


def _were_since(runners: list[AbsentRunner]) -> str:
    return (
        f"It was offline since {_moment(runners[0])}."
        if len(runners) == 1
        else "They were offline:\n" + _names(runners)
    )


def _names(runners: list[AbsentRunner]) -> str:
    named = [f"{each.name}, since {_moment(each)}" for each in runners[:MAX_NAMES]]
    return "\n".join([*named, *([f"and {len(runners) - MAX_NAMES:,} more"] if len(runners) > MAX_NAMES else [])])


def _moment(runner: AbsentRunner) -> str:
    return f"{datetime.fromtimestamp(runner.since, UTC):%Y-%m-%d %H:%M} UTC"
