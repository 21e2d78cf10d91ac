"""The loop moves roll-outs on with real rows: one update for each runner, wave after wave, whichever servers run it."""

import asyncio
import random
from collections import Counter

import pytest
from msgspec.structs import replace

from terracrew.api.rollouts import NewRollout
from terracrew.errors import Conflict, Invalid
from terracrew.server.db import open_database
from terracrew.server.db.seam import Database
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import service as releases
from terracrew.server.rollouts import loop, service, store
from terracrew.server.rollouts.loop import Rollouts
from terracrew.server.rollouts.updating import RunnerUpdaters
from terracrew.wording.update_words import ByHand
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import JobRows, change_instances, change_runners
from tests.server.releases.release_rows import new_release, wheel
from tests.server.rollouts.rollout_rows import NEW, NEWER, OLD, RolloutRows

pytestmark = pytest.mark.feature("V2.rollouts", "V2.outdated")


async def test_a_publication_updates_cloud_hosted_runners_and_a_failure_stops_it_until_somebody_resumes(
    rollouts: RolloutRows,
) -> None:
    for path in ("net/a", "net/b", "net/c"):
        await rollouts.runner(path)
    await rollouts.publish()
    await rollouts.loop.step()
    rollout = await rollouts.db.read(lambda tx: store.open_of(tx, rollouts.rows.organization))
    assert rollout is not None
    assert (rollout.version, rollout.is_automatic, rollout.started_by_name) == (NEW, True, "Terracrew")
    assert await rollouts.statuses(rollout.id) == {"net/a": "updating", "net/b": "waiting", "net/c": "waiting"}
    await rollouts.end("net/a")
    await rollouts.loop.step()
    assert await rollouts.statuses(rollout.id) == {"net/a": "updated", "net/b": "updating", "net/c": "waiting"}
    await rollouts.end("net/b", error="the trial did not pass: no engine")
    await rollouts.loop.step()
    stopped = await rollouts.load(rollout.id)
    assert (stopped.status, stopped.stop_reason) == ("stopped", "the trial did not pass: no engine")
    await rollouts.loop.step()
    assert len(await rollouts.jobs()) == 2, "a stopped roll-out queues nothing, and no other one begins by itself"
    await rollouts.db.write(lambda tx: service.resume(tx, rollouts.admin, rollouts.rules, rollout.id))
    for path in ("net/b", "net/c"):
        await rollouts.loop.step()
        await rollouts.end(path)
    await rollouts.loop.step()
    assert await rollouts.statuses(rollout.id) == {"net/a": "updated", "net/b": "updated", "net/c": "updated"}
    assert (await rollouts.load(rollout.id)).status == "done"
    await rollouts.loop.step()
    assert Counter(each.target_name for each in await rollouts.jobs()) == {"net/a": 1, "net/b": 2, "net/c": 1}


async def test_servers_that_run_the_loop_at_once_and_are_killed_queue_one_update_for_each_runner(
    database_url: str,
) -> None:
    """SQLite has one server: there, its tasks are cut off in the middle."""
    dice = random.Random(31)
    first = await open_database(database_url)
    rows = await JobRows.make(first)
    rollouts = RolloutRows(rows)
    others = [] if database_url.startswith("sqlite") else [await open_database(database_url) for _ in range(2)]
    try:
        paths = [f"{group}/{number}" for group in ("net", "pay") for number in range(4)]
        for path in paths:
            await rollouts.runner(path)
        await rollouts.publish()
        loops = [Rollouts(db, rollouts.rules) for db in (first, *others)]
        for number in range(100):
            tasks = [asyncio.create_task(each.step()) for each in loops]
            # Every third time all of them come to their end, so that a slow machine makes progress, too.
            await asyncio.wait(tasks, timeout=None if number % 3 == 2 else dice.choice([0.0, 0.001, 0.005, 0.02]))
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(result, int | asyncio.CancelledError), result
            open_ = [each.target_name for each in await rollouts.jobs() if not each.is_terminal]
            assert len(open_) <= 4
            if open_ and dice.random() < 0.7:
                await rollouts.end(dice.choice(open_))
            if await _ended(first):
                break
        assert await _ended(first)
        assert Counter(each.target_name for each in await rollouts.jobs()) == dict.fromkeys(paths, 1)
    finally:
        for db in (first, *others):
            await db.close()


async def _ended(db: Database) -> bool:
    """Return whether there is one roll-out, and it is done."""
    found = await db.read(lambda tx: tx.all("SELECT status FROM rollouts"))
    return [row["status"] for row in found] == ["done"]


async def test_a_person_starts_one_and_runners_by_hand_keep_their_command(rollouts: RolloutRows) -> None:
    for path in ("a", "b", "c"):
        await rollouts.runner(path)
    await rollouts.runner("new", NEW)
    await rollouts.publish()
    rollouts.updates.hand["b"] = ByHand("its image is your own", "terracrew runner redeploy b --image …")
    preview = await rollouts.db.read(lambda tx: service.preview(tx, rollouts.admin, rollouts.rules))
    assert [(each.path, each.wave, each.command) for each in preview.runners] == [
        ("a", 0, ""),
        ("c", 1, ""),
        ("b", None, "terracrew runner redeploy b --image …"),
    ]
    rollout = await rollouts.start()
    assert (rollout.counts.waiting, rollout.counts.by_hand, rollout.wave, rollout.waves) == (2, 1, 0, 2)
    with pytest.raises(Conflict, match=f"the roll-out of {NEW} is rolling: wait for its end, or stop it first"):
        await rollouts.start()
    await rollouts.loop.step()
    [job] = await rollouts.jobs()
    assert (job.created_by, job.created_by_name, job.spec) == ("usr_1", "marta", {"version": NEW})
    await rollouts.end("a")
    rollouts.updates.hand["c"] = ByHand("it is offline")
    await rollouts.loop.step()
    shown = await rollouts.db.read(lambda tx: service.show(tx, rollouts.admin, rollout.id))
    assert shown.status == "done", "a runner that went offline meanwhile holds up nobody"
    assert [(each.path, each.status.value, each.words) for each in shown.runners][1:] == [
        ("c", "by_hand", "it is offline"),
        ("b", "by_hand", "its image is your own"),
    ]


async def test_an_update_that_is_refused_stops_it_with_the_words(rollouts: RolloutRows) -> None:
    await rollouts.runner("a")
    await rollouts.publish()
    rollouts.updates.refused["a"] = Invalid("settings.image: name the image of the runner")
    rollout = await rollouts.start()
    await rollouts.loop.step()
    stopped = await rollouts.load(rollout.id)
    assert (stopped.status, stopped.stop_reason) == ("stopped", "settings.image: name the image of the runner")
    assert await rollouts.jobs() == []


async def test_a_runner_with_another_open_job_is_waited_for(rollouts: RolloutRows) -> None:
    runner_id = await rollouts.runner("a")
    await rollouts.publish()
    states = await rollouts.db.read(lambda tx: service.reads.states(tx, [runner_id]))
    await rollouts.db.write(lambda tx: rollouts.updates.update(tx, SYSTEM, states[runner_id].runner, OLD))
    rollout = await rollouts.start()
    await rollouts.loop.step()
    assert await rollouts.statuses(rollout.id) == {"a": "waiting"}
    await rollouts.end("a", error="somebody has canceled it")
    await rollouts.loop.step()
    assert await rollouts.statuses(rollout.id) == {"a": "updating"}


async def test_a_canceled_update_counts_as_a_failure(rollouts: RolloutRows) -> None:
    await rollouts.runner("a")
    await rollouts.publish()
    rollout = await rollouts.start()
    await rollouts.loop.step()
    [job] = await rollouts.jobs()
    await rollouts.db.write(lambda tx: fleet_jobs.cancel(tx, rollouts.admin, job.id, {}))
    await rollouts.loop.step()
    assert (await rollouts.load(rollout.id)).stop_reason == "marta canceled it"


async def test_a_newer_release_replaces_an_open_roll_out_after_its_wave(rollouts: RolloutRows) -> None:
    for path in ("a", "b", "c"):
        await rollouts.runner(path)
    await rollouts.publish()
    await rollouts.loop.step()
    await rollouts.publish(NEWER)
    await rollouts.loop.step()
    assert len(await rollouts.jobs()) == 1
    await rollouts.end("a")
    await rollouts.loop.step()
    await rollouts.loop.step()
    found = await rollouts.db.read(lambda tx: tx.all("SELECT version, status, stop_reason FROM rollouts ORDER BY id"))
    assert [(row["version"], row["status"], row["stop_reason"]) for row in found] == [
        (NEW, "stopped", f"{NEWER} was published"),
        (NEWER, "rolling", ""),
    ]
    assert [(each.target_name, each.spec["version"]) for each in await rollouts.jobs()] == [("a", NEW), ("a", NEWER)]


async def test_the_withdrawal_of_the_release_stops_it_and_it_cannot_be_resumed(rollouts: RolloutRows) -> None:
    await rollouts.runner("a")
    await rollouts.runner("b")
    await rollouts.publish(OLD)  # it is the latest one again after the withdrawal
    await rollouts.publish()
    rollout = await rollouts.start()
    await rollouts.loop.step()
    await rollouts.db.write(lambda tx: releases.withdraw(tx, SYSTEM, NEW, "it loses logs"))
    await rollouts.loop.step()
    assert (await rollouts.load(rollout.id)).stop_reason == f"{NEW} was withdrawn: it loses logs"
    await rollouts.end("a")
    await rollouts.loop.step()
    assert await rollouts.statuses(rollout.id) == {"a": "updated", "b": "waiting"}, "what ran is followed to its end"
    with pytest.raises(Conflict, match=f"{NEW} was withdrawn: it loses logs"):
        await rollouts.db.write(lambda tx: service.resume(tx, rollouts.admin, rollouts.rules, rollout.id))


async def test_a_breaking_release_does_not_start_by_itself_and_asks_first(rollouts: RolloutRows) -> None:
    await rollouts.runner("a")
    await rollouts.publish(NEW, is_breaking=True)
    await rollouts.publish(NEWER)
    await rollouts.loop.step()
    assert await rollouts.jobs() == []
    preview = await rollouts.db.read(lambda tx: service.preview(tx, rollouts.admin, rollouts.rules))
    assert [(each.version, each.words) for each in preview.breaking] == [(NEW, "stop the old one first")]
    assert preview.automatic_words.startswith(f"no runner is updated by itself, because {NEW} is breaking")
    with pytest.raises(Conflict, match="stop the old one first"):
        await rollouts.start()
    await rollouts.start(accept_breaking=True)
    await rollouts.loop.step()
    assert [each.spec["version"] for each in await rollouts.jobs()] == [NEWER]


async def test_without_the_setting_nothing_starts_by_itself(rollouts: RolloutRows) -> None:
    await rollouts.runner("a")
    await rollouts.publish()
    rules = replace(rollouts.rules, updates_cloud_runners=False)
    await Rollouts(rollouts.db, rules).step()
    assert await rollouts.jobs() == []
    preview = await rollouts.db.read(lambda tx: service.preview(tx, rollouts.admin, rules))
    assert "`updates_cloud_runners` is off" in preview.automatic_words


async def test_a_paused_roll_out_queues_nothing_until_it_is_resumed(rollouts: RolloutRows) -> None:
    await rollouts.runner("a")
    await rollouts.runner("b")
    await rollouts.publish()
    rollout = await rollouts.start()
    await rollouts.loop.step()
    await rollouts.db.write(lambda tx: service.pause(tx, rollouts.admin, rollout.id))
    await rollouts.end("a")
    await rollouts.loop.step()
    assert await rollouts.statuses(rollout.id) == {"a": "updated", "b": "waiting"}
    await rollouts.db.write(lambda tx: service.resume(tx, rollouts.admin, rollouts.rules, rollout.id))
    await rollouts.loop.step()
    assert await rollouts.statuses(rollout.id) == {"a": "updated", "b": "updating"}
    await rollouts.db.write(lambda tx: service.stop(tx, rollouts.admin, rollout.id))
    assert (await rollouts.load(rollout.id)).stop_reason == "marta stopped it"


async def test_many_organizations_in_which_nothing_can_be_done_hold_up_nobody(
    rollouts: RolloutRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them are read at a time. In the first three, people chose the image."""
    monkeypatch.setattr(loop, "PAGE_ROWS", 2)
    moved: dict[str, str] = {}
    for number in range(7):
        path = f"n{number}"
        moved[path] = await rollouts.runner(path)
        organization = f"org_{number}"
        await rollouts.rows.run(
            "INSERT INTO organizations (id, name, created_at) VALUES (:id, :id, 0)", id=organization
        )
        await change_runners(rollouts.rows.db, moved[path], organization_id=organization)
        if number < 3:
            rollouts.updates.hand[path] = ByHand("its image is your own")
    await rollouts.publish()
    await rollouts.loop.step()
    assert {each.target_name for each in await rollouts.jobs()} == {"n3", "n4", "n5", "n6"}


@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_runner_that_has_just_disconnected_is_waited_for_a_moment(
    rollouts: RolloutRows, clock: ShiftedClock, comes_back: bool
) -> None:
    """Every runner is away for seconds when its server is started again, which must not end a roll-out."""
    rules = replace(rollouts.rules, updaters=RunnerUpdaters(""))
    for path in ("a", "b"):
        own = await rollouts.rows.runner()
        await change_runners(rollouts.rows.db, own.runner_id, path=path, name=path)
        await change_instances(rollouts.rows.db, own.id, version=OLD, is_self_updating=True)
    await rollouts.db.write(lambda tx: releases.publish(tx, SYSTEM, new_release(NEW, artifacts=[wheel(NEW)])))
    started = await rollouts.db.write(lambda tx: service.start(tx, rollouts.admin, rules, NewRollout()))
    at_work = Rollouts(rollouts.db, rules)
    await at_work.step()
    await rollouts.end("a")
    await own.disconnect()
    clock.advance(5)
    await at_work.step()
    assert await rollouts.statuses(started.id) == {"a": "updated", "b": "waiting"}
    if comes_back:
        await change_instances(rollouts.rows.db, own.id, is_connected=True)
    else:
        clock.advance(loop.MAX_AWAY_SECONDS)
    await at_work.step()
    assert (await rollouts.statuses(started.id))["b"] == ("updating" if comes_back else "by_hand")
