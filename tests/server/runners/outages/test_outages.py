"""People are notified once of each outage of a self-hosted runner, and once when it is back."""

import asyncio

import pytest

from terracrew.server.db.seam import Database
from terracrew.server.runners.outages.watching import BACK_SECONDS, MAX_AGE_SECONDS, Outages
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import JobRows, change_instances, change_runners
from tests.server.announcements.channels import add, outbox

pytestmark = pytest.mark.feature("M3.runners")
OFFLINE_SECONDS = 300.0


class Watchers:
    """The loops of two servers that have run for a while."""

    def __init__(self, db: Database, clock: ShiftedClock) -> None:
        self._clock = clock
        self._loops = [Outages(db, OFFLINE_SECONDS) for _ in range(2)]

    async def after(self, seconds: float) -> None:
        self._clock.advance(seconds)
        await asyncio.gather(*(each.step() for each in self._loops))


@pytest.fixture
async def watchers(database: Database, clock: ShiftedClock) -> Watchers:
    made = Watchers(database, clock)
    await made.after(0)
    await made.after(OFFLINE_SECONDS)
    return made


async def titles(rows: JobRows, channel: str) -> list[str]:
    return [each.content.title for each in await outbox(rows.db, channel)][::-1]


async def test_an_outage_is_one_message_and_its_end_another(rows: JobRows, watchers: Watchers) -> None:
    runner = await rows.runner()
    channel, silent = await add(rows), await add(rows, events=("job_failed",))
    await runner.disconnect()
    await watchers.after(OFFLINE_SECONDS - 1)
    assert await titles(rows, channel) == []
    await watchers.after(1)
    await watchers.after(OFFLINE_SECONDS)
    assert await titles(rows, channel) == [f"The runner {runner.runner_id} is offline"]
    [told] = await outbox(rows.db, channel)
    assert (told.event, told.subject_id) == ("runner_offline", runner.runner_id)
    assert told.content.link == f"/dashboard/runners/{runner.runner_id}"
    assert told.content.text.startswith("No instance of it has been connected since 20")
    brief = await rows.instance_of(runner.runner_id, name="two")
    await watchers.after(BACK_SECONDS / 2)
    await brief.disconnect()
    await watchers.after(OFFLINE_SECONDS)
    assert len(await titles(rows, channel)) == 1, "a runner that cannot stay connected is one outage"
    await rows.instance_of(runner.runner_id, name="three")
    await watchers.after(BACK_SECONDS)
    await watchers.after(BACK_SECONDS)
    assert (await titles(rows, channel))[1:] == [f"The runner {runner.runner_id} is online again"]
    assert await titles(rows, silent) == []


async def test_the_runners_of_a_group_that_are_gone_together_are_one_message(rows: JobRows, watchers: Watchers) -> None:
    group = await rows.group("shop")
    channels = {"": await add(rows), "shop": await add(rows, group, "shop"), "other": await add(rows, "grp_1", "other")}
    runners = [await rows.runner() for _ in range(3)]
    for each in runners[1:]:
        await change_runners(rows.db, each.runner_id, group_id=group)
    for each in runners:
        await each.disconnect()
    await watchers.after(OFFLINE_SECONDS)
    assert sorted(await titles(rows, channels[""])) == [
        "2 runners are offline",
        f"The runner {runners[0].runner_id} is offline",
    ]
    [told] = await outbox(rows.db, channels["shop"])
    assert (told.path, told.subject_id) == ("shop", group)
    assert all(each.runner_id in told.content.text for each in runners[1:])
    assert await titles(rows, channels["other"]) == []


async def test_a_shared_runner_is_told_to_every_organization(rows: JobRows, watchers: Watchers) -> None:
    runner = await rows.runner()
    await runner.share()
    channels = [await add(rows), await add(await JobRows.make(rows.db))]
    await runner.disconnect()
    await watchers.after(OFFLINE_SECONDS)
    for channel in channels:
        assert await titles(rows, channel) == [f"The shared runner {runner.runner_id} is offline"]


async def test_what_somebody_has_chosen_is_no_outage(rows: JobRows, watchers: Watchers) -> None:
    channel, runners = await add(rows), [await rows.runner() for _ in range(4)]
    for each in runners:
        await each.disconnect()
    disabled, draining, in_cloud, once = (each.runner_id for each in runners)
    await change_runners(rows.db, disabled, is_disabled=True)
    await change_runners(rows.db, draining, is_draining=True)
    await change_runners(rows.db, in_cloud, type="cloud-hosted")
    await change_instances(rows.db, once, once_token_id="ott_1")
    await watchers.after(OFFLINE_SECONDS)
    assert await titles(rows, channel) == []


async def test_an_outage_of_a_runner_that_is_disabled_ends_quietly(rows: JobRows, watchers: Watchers) -> None:
    runner, channel = await rows.runner(), await add(rows)
    await runner.disconnect()
    await watchers.after(OFFLINE_SECONDS)
    await change_runners(rows.db, is_disabled=True)
    await watchers.after(1)
    await change_runners(rows.db, is_disabled=False)
    await (await rows.instance_of(runner.runner_id, name="two")).disconnect()
    await watchers.after(OFFLINE_SECONDS)
    assert await titles(rows, channel) == [f"The runner {runner.runner_id} is offline"] * 2


async def test_a_server_that_has_just_started_waits_for_its_runners(rows: JobRows, clock: ShiftedClock) -> None:
    runner, channel = await rows.runner(), await add(rows)
    await runner.disconnect()
    clock.advance(3600)  # in which no server was running
    started = Watchers(rows.db, clock)
    await started.after(0)
    assert await titles(rows, channel) == []
    await started.after(OFFLINE_SECONDS)
    assert len(await titles(rows, channel)) == 1


async def test_nobody_is_notified_of_a_runner_that_was_away_before(rows: JobRows, clock: ShiftedClock) -> None:
    runner, channel = await rows.runner(), await add(rows)
    await runner.disconnect()
    clock.advance(MAX_AGE_SECONDS)
    updated = Watchers(rows.db, clock)
    await updated.after(0)
    await updated.after(OFFLINE_SECONDS)
    assert await titles(rows, channel) == []
