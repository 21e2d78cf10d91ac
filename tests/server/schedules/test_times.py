"""The next time of a schedule: time zones, clocks that are set forward and back, delays, and what is too late."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from terracrew.api.schedules import Schedule
from terracrew.errors import Invalid
from terracrew.server import time_zones
from terracrew.server.schedules import model
from terracrew.wording import schedule_words

pytestmark = pytest.mark.feature("M1.times")
BERLIN = ZoneInfo("Europe/Berlin")


def berlin(*parts: int, fold: int = 0) -> datetime:
    return datetime(*parts, tzinfo=BERLIN, fold=fold)  # type: ignore[arg-type]


def following(cron: str, after: datetime, count: int = 1) -> list[str]:
    """The next times in Berlin, with their distance from UTC."""
    found: list[str] = []
    at = after.timestamp()
    for _ in range(count):
        moment = model.next_time(cron, "Europe/Berlin", at)
        assert moment is not None
        assert moment > at
        at = moment
        found.append(datetime.fromtimestamp(moment, BERLIN).isoformat(timespec="minutes"))
    return found


def schedule(**changes: Any) -> Schedule:
    made = Schedule(
        id="sch_1",
        organization_id="org_1",
        group_id="grp_1",
        module_id=None,
        name="nightly",
        kind="PLAN",
        cron="0 3 * * *",
        created_at=berlin(2026, 1, 1),
        changed_by="usr_1",
        changed_by_name="ann",
        changed_at=berlin(2026, 1, 1),
    )
    return replace(made, **changes)


def test_a_time_that_does_not_exist_is_met_at_the_first_moment_after_the_gap() -> None:
    assert following("30 2 * * *", berlin(2026, 3, 28, 12), 2) == ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]


def test_a_time_that_exists_twice_is_met_once() -> None:
    assert following("30 2 * * *", berlin(2026, 10, 24, 12), 2) == ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]
    # Between its two occurrences, and after an hour that comes again: the first one has passed.
    assert following("30 2 * * *", berlin(2026, 10, 25, 2, 15, fold=1)) == ["2026-10-26T02:30+01:00"]


def test_an_interval_follows_the_real_time_through_both() -> None:
    assert following("*/30 * * * *", berlin(2026, 3, 29, 1, 30), 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-29T03:30+02:00",
    ]
    doubled = following("*/30 * * * *", berlin(2026, 10, 25, 1, 45), 5)
    assert doubled == [
        f"2026-10-25T{each}" for each in ("02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00", "03:00+01:00")
    ]


def test_the_zone_decides_what_a_time_means() -> None:
    after = datetime(2026, 7, 1, tzinfo=UTC).timestamp()
    hours = {
        zone: (model.next_time("0 12 * * *", zone, after) or 0) - after
        for zone in ("UTC", "Europe/Berlin", "America/New_York")
    }
    assert hours == {"UTC": 12 * 3600, "Europe/Berlin": 10 * 3600, "America/New_York": 16 * 3600}


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)),
    st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"]),
)
def test_times_only_go_forward_and_a_daily_one_comes_once_a_day(start: datetime, zone: str) -> None:
    at, found = start.replace(tzinfo=UTC).timestamp(), list[float]()
    for _ in range(4):
        moment = model.next_time("30 2 * * *", zone, at)
        assert moment is not None
        assert moment > at
        found.append(at := moment)
    assert all(22.5 * 3600 <= after - before <= 25.5 * 3600 for before, after in pairwise(found))


CLOCK_CHANGES = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/Sao_Paulo": ("2018-11-04", "2018-02-18"),  # at midnight
    "Africa/Cairo": ("2026-04-24", "2026-10-29"),  # at midnight, and from it to the day before
    "Australia/Lord_Howe": ("2026-10-04", "2026-04-05"),  # by half an hour
    "Antarctica/Troll": ("2026-03-29", "2026-10-25"),  # by two hours
    "America/St_Johns": ("2010-03-14", "2010-11-07"),  # a minute after midnight
    "Pacific/Apia": ("2011-12-30", "2011-09-24"),  # a day that does not exist
}
ALL_MINUTES, ALL_HOURS = range(60), range(24)
FIELDS: dict[str, tuple[Collection[int], Collection[int]]] = {
    "30 2": ([30], [2]),
    "0 0": ([0], [0]),
    "15,45 0-3": ([15, 45], range(4)),
    "0-59 1,2,23": (ALL_MINUTES, [1, 2, 23]),
    "*/15 2": (range(0, 60, 15), [2]),
    "*/10 1-2": (range(0, 60, 10), [1, 2]),
    "* 23": (ALL_MINUTES, [23]),
    "0 */2": ([0], range(0, 24, 2)),
    "30 *": ([30], ALL_HOURS),
}
"""The first two fields of expressions, with what they mean."""


def expected(fields: str, place: ZoneInfo, start: int, stop: int) -> list[int]:
    """Return when an expression is met from one moment to another, by looking at every minute as a clock on the wall shows it."""
    minutes, hours = FIELDS[fields]
    shown = {moment: datetime.fromtimestamp(moment, place).replace(tzinfo=None) for moment in range(start, stop, 60)}
    if "*" in fields.split()[0][0] + fields.split()[1][0]:
        return [moment for moment, each in shown.items() if each.minute in minutes and each.hour in hours]
    found: list[int] = []
    newest = shown[start] - timedelta(minutes=1)
    for moment, each in shown.items():
        while newest < each:  # a time that the clock shows for the first time, or that it has just jumped over
            newest += timedelta(minutes=1)
            if newest.minute in minutes and newest.hour in hours and moment not in found:
                found.append(moment)
    return found


@pytest.mark.parametrize("zone", CLOCK_CHANGES)
@pytest.mark.parametrize("fields", FIELDS)
def test_every_time_around_a_change_of_the_clocks_is_met(fields: str, zone: str) -> None:
    """`15,45 1-3 * * *` in Troll was met never again after the change: the library named only times that had passed."""
    place = ZoneInfo(zone)
    for day in CLOCK_CHANGES[zone]:
        noon = int(datetime.fromisoformat(f"{day}T12:00+00:00").timestamp())
        start, stop = noon - 36 * 3600, noon + 36 * 3600
        found, at = list[float](), start - 1.0
        while (moment := model.next_time(f"{fields} * * *", zone, at)) is not None and moment < stop:
            found.append(at := moment)
        assert found == expected(fields, place, start, stop)


@given(st.sampled_from(list(CLOCK_CHANGES)), st.sampled_from(list(FIELDS)), st.integers(0, 1), st.floats(0, 72 * 3600))
def test_the_next_time_is_the_same_from_every_moment_before_it(
    zone: str, fields: str, which: int, offset: float
) -> None:
    noon = datetime.fromisoformat(f"{CLOCK_CHANGES[zone][which]}T12:00+00:00").timestamp()
    start = noon - 36 * 3600
    moment = model.next_time(f"{fields} * * *", zone, start + offset)
    assert moment is not None
    between = (start + offset + moment) / 2
    if between < moment:
        assert model.next_time(f"{fields} * * *", zone, between) == moment


def test_a_time_that_never_comes_is_none_and_a_rare_one_is_found() -> None:
    after = berlin(2026, 5, 1).timestamp()
    for cron, day in (("0 12 29 2 *", "2028-02-29"), ("*/5 12 29 2 *", "2028-02-29"), ("0 0 31 12 *", "2026-12-31")):
        moment = model.next_time(cron, "Europe/Berlin", after)
        assert moment is not None
        assert datetime.fromtimestamp(moment, BERLIN).date().isoformat() == day


@pytest.mark.parametrize("cron", ["* * * * * *", "61 * * * *", "a b c d e", "", "0 0 30 2 *", "@daily"])
def test_what_is_no_cron_expression_is_refused_with_an_example(cron: str) -> None:
    with pytest.raises(Invalid, match="0 6"):
        model.check_cron(cron)


@pytest.mark.parametrize(
    "zone",
    ["Berlin", "../../etc/passwd", "Europe", "", "\0", "localtime", "posixrules", "Factory", "right/UTC", "posix/UTC"],
)
def test_what_is_no_time_zone_is_refused_with_an_example(zone: str) -> None:
    with pytest.raises(Invalid, match="Europe/Berlin"):
        time_zones.zone(zone)


def test_a_delay_is_within_the_jitter_and_another_one_each_day_and_for_each_schedule() -> None:
    days = [berlin(2026, 5, day, 12).timestamp() for day in range(1, 21)]
    found = [model.start_after(schedule(jitter_minutes=30, time_zone="Europe/Berlin"), day) for day in days]
    planned = [model.next_time("0 3 * * *", "Europe/Berlin", day) or 0.0 for day in days]
    delays = {round(at.timestamp() - due, 3) for at, due in zip(found, planned, strict=True) if at}
    assert len(delays) == len(days)
    assert all(0 <= each < 1800 for each in delays)
    other = model.start_after(schedule(id="sch_2", jitter_minutes=30, time_zone="Europe/Berlin"), days[0])
    assert other != found[0]


def test_a_delay_is_shorter_than_the_time_until_the_next_start() -> None:
    """An hourly schedule that was spread over a day started about twice a day, because each start was computed after the one before."""
    hourly = schedule(cron="0 * * * *", jitter_minutes=1440)
    at = berlin(2026, 5, 1).timestamp()
    for _ in range(48):
        found = model.start_after(hourly, at)
        assert found is not None
        planned = model.next_time("0 * * * *", "UTC", at) or 0.0
        assert planned <= found.timestamp() < planned + 3600
        at = found.timestamp()
    assert at < berlin(2026, 5, 1).timestamp() + 49 * 3600


def test_drift_starts_at_its_time_because_its_checks_are_spread_one_by_one() -> None:
    after = berlin(2026, 5, 1).timestamp()
    found = model.start_after(schedule(kind="DRIFT", jitter_minutes=30), after)
    assert found is not None
    assert found.minute == 0
    assert model.spread_seconds(schedule(kind="DRIFT", jitter_minutes=30), after) == 1800
    assert model.spread_seconds(schedule(kind="DRIFT", cron="0 * * * *"), after) == 3600
    assert model.spread_seconds(schedule(kind="DRIFT"), after) == 3 * 3600 + 2 * 3600  # from 22:00 UTC to 03:00 UTC
    assert model.spread_seconds(schedule(kind="DRIFT", group_id=None, module_id="mod_1"), after) == 0


def test_only_an_enabled_schedule_has_a_next_time() -> None:
    assert model.start_after(schedule(is_enabled=False), 0.0) is None


def test_a_missed_start_is_made_up_within_its_bound() -> None:
    due = datetime(2026, 5, 1, 3, tzinfo=UTC)
    missed = schedule(next_at=due, late_minutes=60)
    assert not model.is_too_late(missed, due + timedelta(minutes=60))
    assert model.is_too_late(missed, due + timedelta(minutes=61))


def test_a_time_that_was_computed_while_the_clock_was_ahead_is_noticed() -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    right = schedule(next_at=model.start_after(schedule(jitter_minutes=10), now.timestamp()), jitter_minutes=10)
    assert not model.is_too_far(right, now.timestamp())
    ahead = replace(right, next_at=now + timedelta(days=400))
    assert model.is_too_far(ahead, now.timestamp())


def test_the_next_time_is_said_in_words() -> None:
    now = berlin(2026, 10, 24, 12)

    def words(at: datetime | None, **more: Any) -> str:
        return schedule_words.next_start(at, now, "Europe/Berlin", is_enabled=more.get("is_enabled", True))

    assert words(berlin(2026, 10, 24, 18)) == "today at 18:00 CEST"
    assert words(berlin(2026, 10, 25, 2, 30)) == "tomorrow at 02:30 CEST"
    assert words(berlin(2026, 10, 26, 2, 30)) == "on Monday, 26 October, at 02:30 CET"
    assert words(berlin(2027, 1, 1, 0, 5)) == "on Friday, 1 January 2027, at 00:05 CET"
    assert words(now) == "now"
    assert words(None) == "never: its times do not come"
    assert words(None, is_enabled=False) == "not enabled"
