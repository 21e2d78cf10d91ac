"""When a schedule starts: the next time of its cron expression in its time zone, how much later it begins, and what is too late."""

import hashlib
import math
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from terracrew.api.schedules import Schedule
from terracrew.errors import Invalid
from terracrew.server import time_zones

CRON_FIELD_COUNT = 5
STEP_SECONDS = 86_400
"""A clock is not set forward and back again within a day."""


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


def next_time(cron: str, time_zone: str, after: float) -> float | None:
    """Return the first time of a cron expression after a moment; None if there is none within 50 years.

    An expression with fixed hours and minutes is met once on every day, as by cron of Debian: a time that does not exist, because the
    clocks are set forward over it, is met at the first moment after the gap, and a time that exists twice is met the first time.
    Other expressions, such as `*/30 * * * *`, follow the real time: they skip the gap, and are met in both of the doubled hours.

    The library is asked for times without a zone only. Around changes of the clocks it leaves some out, or names past ones for ever.
    """
    minutes, hours = cron.split()[:2]
    is_interval = minutes.startswith("*") or hours.startswith("*")
    return (_next_real_time if is_interval else _next_shown_time)(cron, time_zones.zone(time_zone), after)


def _next_shown_time(cron: str, place: ZoneInfo, after: float) -> float | None:
    """Return the next time that a clock on the wall shows for the first time, or jumps over."""
    for shown in CronSim(cron, datetime.fromtimestamp(after, place).replace(tzinfo=None)):
        if (moment := _first_moment(shown, place)) > after:
            return moment
    return None


def _first_moment(shown: datetime, place: ZoneInfo) -> float:
    """Return when a clock shows a time first; if it never does, the first moment after the gap."""
    while True:
        moment = shown.replace(tzinfo=place, fold=0).timestamp()
        if datetime.fromtimestamp(moment, place).replace(tzinfo=None) == shown:
            return moment
        shown += timedelta(minutes=1)


def _next_real_time(cron: str, place: ZoneInfo, after: float) -> float | None:
    """Return the next time with the present distance from UTC. If that changes before, go on from the change with the new one."""
    since = int(after) + 1
    while True:
        offset = _offset(place, since)
        shown = datetime.fromtimestamp(since - 1, UTC).replace(tzinfo=None) + offset
        found = next(CronSim(cron, shown), None)
        if found is None:
            return None
        moment = (found - offset).replace(tzinfo=UTC).timestamp()
        if (change := _first_change(place, since, moment)) is None:
            return moment
        since = change


def _first_change(place: ZoneInfo, since: int, until: float) -> int | None:
    """Return the first second until a moment at which the distance from UTC is another one than at the beginning."""
    offset = _offset(place, since)
    while since < until:
        following = min(since + STEP_SECONDS, int(until))
        if _offset(place, following) != offset:
            while following - since > 1:
                middle = (since + following) // 2
                since, following = (middle, following) if _offset(place, middle) == offset else (since, middle)
            return following
        since = following
    return None


def _offset(place: ZoneInfo, moment: int) -> timedelta:
    offset = datetime.fromtimestamp(moment, place).utcoffset()
    assert offset is not None
    return offset


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
    window = 0.0
    if schedule.kind != "DRIFT" and schedule.jitter_minutes:
        following = next_time(schedule.cron, schedule.time_zone, planned)  # a longer delay would leave out starts
        until_following = following - planned if following is not None else math.inf
        window = min(schedule.jitter_minutes * 60.0, until_following)
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
