"""Says in words when a schedule starts, and what it starts."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

KINDS = {"PLAN": "Plan", "APPLY": "Apply", "DESTROY": "Destroy", "DRIFT": "Drift check"}


def moment(at: datetime, now: datetime, time_zone: str) -> str:
    """Return a time in a time zone as people say it: `today at 06:00 CET`, `on Monday, 23 November, at 06:00 CET`."""
    there, today = at.astimezone(ZoneInfo(time_zone)), now.astimezone(ZoneInfo(time_zone)).date()
    clock = f"at {there:%H:%M} {there:%Z}"
    days = (there.date() - today).days
    if days in (0, 1):
        return f"{'today' if days == 0 else 'tomorrow'} {clock}"
    year = f" {there:%Y}" if there.year != today.year else ""
    return f"on {there:%A}, {there.day} {there:%B}{year}, {clock}"


def next_start(at: datetime | None, now: datetime, time_zone: str, *, is_enabled: bool) -> str:
    """Return when something starts next, in words."""
    if not is_enabled:
        return "not enabled"
    if at is None:
        return "never: its times do not come"
    if at <= now:
        return "now"
    return moment(at.astimezone(UTC), now, time_zone)


def times(explained: str, time_zone: str) -> str:
    """Return the times of a schedule from what the library for cron says of them."""
    return f"{explained[:1].lower()}{explained[1:]}, {time_zone}"


CONSEQUENCES = {
    "APPLY": "The modules are planned and applied, with all of their approvals.",
    "DESTROY": "Everything in the modules is destroyed, with all of their approvals. This cannot be undone.",
}
