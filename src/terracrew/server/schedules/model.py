"""When a schedule starts: the next time of its cron expression in its time zone, how much later it begins, and what is too late."""

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from terracrew.api.schedules import Schedule
from terracrew.errors import Invalid

CRON_FIELD_COUNT = 5
MAX_STEPS = 4
"""When clocks are set back, the library may name times that have passed. More than this many in a row do not happen."""


def check_cron(cron: str) -> None:
    """Raise Invalid if this is not an expression with the five fields of cron."""
    if len(cron.split()) != CRON_FIELD_COUNT:
        raise Invalid.in_field(
            "cron",
            f"{cron[:80]!r} does not have the five fields minute, hour, day of the month, month and day of the week: "
            "`0 6 * * 1-5` is at 06:00 on workdays",
        )
    try:
        CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        what = str(error)
        raise Invalid.in_field(
            "cron", f"{cron[:80]!r} is not a cron expression: {what[:1].lower()}{what[1:]}. `0 6 * * 1-5` is one"
        ) from None


def zone(name: str) -> ZoneInfo:
    """Return a time zone of the IANA database; raise Invalid if it has none of this name."""
    try:
        return _zone(name)
    except (
        KeyError,
        ValueError,
        OSError,
    ):  # ZoneInfoNotFoundError is a KeyError; a folder of the database is an OSError
        raise Invalid.in_field(
            "time_zone", f"{name[:80]!r} is not a time zone: write its name in the IANA database, such as Europe/Berlin"
        ) from None


@lru_cache(maxsize=100)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def next_time(cron: str, time_zone: str, after: float) -> float | None:
    """Return the first time of a cron expression after a moment; None if there is none within 50 years.

    An expression with fixed hours and minutes is met once on every day, as by cron of Debian: a time that does not exist, because the
    clocks are set forward over it, is met at the first moment after the gap, and a time that exists twice is met the first time.
    Other expressions, such as `*/30 * * * *`, follow the real time: they skip the gap, and are met in both of the doubled hours.
    """
    started = datetime.fromtimestamp(after, zone(time_zone))
    for found in islice(CronSim(cron, started), MAX_STEPS):
        if (moment := found.timestamp()) > after:
            return moment
    return None


def jitter_seconds(key: str, window_seconds: float) -> float:
    """Return by how much one of many begins later: always the same for a key, spread evenly over the window."""
    digest = hashlib.sha256(key.encode()).digest()
    return window_seconds * int.from_bytes(digest[:8], "big") / (1 << 64)


def start_after(schedule: Schedule, after: float) -> datetime | None:
    """Return when an enabled schedule starts next. The checks of a DRIFT are spread one by one, so that it starts at its time."""
    if not schedule.is_enabled:
        return None
    planned = next_time(schedule.cron, schedule.time_zone, after)
    if planned is None:
        return None
    window = 0 if schedule.kind == "DRIFT" else schedule.jitter_minutes * 60
    # The delay of each time is another one, and the same on each server.
    return datetime.fromtimestamp(planned + jitter_seconds(f"{schedule.id} {planned}", window), UTC)


def is_too_late(schedule: Schedule, now: datetime) -> bool:
    """Return whether a start was missed so long ago that it is not made up."""
    return schedule.next_at is not None and (now - schedule.next_at).total_seconds() > schedule.late_minutes * 60


def is_too_far(schedule: Schedule, now: float) -> bool:
    """Return whether the next start is later than any that follows from the present time: the clock was ahead when it was computed."""
    if schedule.next_at is None:
        return False
    planned = next_time(schedule.cron, schedule.time_zone, now)
    return planned is None or schedule.next_at.timestamp() > planned + schedule.jitter_minutes * 60


MAX_SPREAD_SECONDS = 6 * 3600.0
"""Checks of a group without another choice are spread over the time until the next ones, and at most over this."""


def spread_seconds(schedule: Schedule, now: float) -> float:
    """Return over which time the checks of a DRIFT schedule are spread."""
    if schedule.jitter_minutes or schedule.module_id is not None:
        return schedule.jitter_minutes * 60.0
    following = next_time(schedule.cron, schedule.time_zone, now)
    return MAX_SPREAD_SECONDS if following is None else min(following - now, MAX_SPREAD_SECONDS)
