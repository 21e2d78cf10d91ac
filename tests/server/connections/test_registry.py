"""The registry tells which server hears an attempt, and for how long nobody has heard it."""

import asyncio

import pytest

from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import heartbeats
from terracrew.server.connections.heartbeats import Heartbeats
from terracrew.server.connections.registry import REMEMBER_SECONDS, Registry
from terracrew.server.db.seam import Database
from terracrew.server.hub.runners.grants import KEPT_BYTES, Archives
from terracrew.server.jobs.attempts.claims import ClaimWon
from terracrew.server.jobs.reaper import Reaper
from terracrew.server.objects import Objects
from tests.builders.clock import ManualClock, ShiftedClock
from tests.builders.job_rows import Instance, JobRows, begin_code, change_jobs
from tests.server.connections.registered_sessions import LONG, REF, Watched, executor, runner
from tests.server.hub.hub_clients import Hub


def test_a_grant_that_no_heartbeat_ever_names_is_not_heard() -> None:
    """A runner that claimed a job and never started it kept it for ever, as long as it sent heartbeats."""
    watched = Watched()
    watched.registry.grant(watched.session, REF)
    watched.registry.set_reported_attempts(watched.session, [])  # this one was on its way when the grant left
    watched.registry.note_contact(watched.session)
    assert watched.silence() == (0.0, False)
    watched.registry.set_reported_attempts(watched.session, [])
    watched.wait(7)
    assert watched.silence() == (7.0, True)


def test_ten_seconds_count_from_when_the_last_of_both_went_and_not_from_what_it_last_said() -> None:
    watched = Watched()
    connected = executor(REF)
    watched.registry.add_executor(connected)
    watched.registry.grant(watched.session, REF)
    watched.wait(9)
    watched.registry.remove_executor(connected)
    watched.wait(5)
    assert watched.silence() == (5.0, False), "its runner is connected, and silent"
    watched.registry.remove(watched.session)
    watched.wait(3)
    assert watched.silence() == (3.0, True)


def test_whom_nobody_saw_go_is_silent_and_not_gone() -> None:
    watched = Watched()
    assert watched.silence() == (LONG, False)
    assert watched.registry.silence(REF, "ins_1", 4.0) == (4.0, False), "another server has heard it"


@pytest.mark.feature("O6.blameless")
def test_after_a_gap_in_which_nobody_looked_all_have_a_full_period() -> None:
    watched = Watched()
    watched.registry.grant(watched.session, REF)
    watched.clock.now += 300  # the database was away, or this process was stopped
    watched.registry.note_check()
    watched.wait(2)
    assert watched.silence() == (2.0, False)


def test_nothing_is_kept_of_attempts_that_have_ended() -> None:
    """Each executor that went left something in memory, for as long as the server ran; and so did names that a runner made up."""
    watched = Watched()
    for number in range(100):
        connected = executor(AttemptRef("job_1", number))
        watched.registry.add_executor(connected)
        watched.registry.remove_executor(connected)
    watched.registry.set_reported_attempts(watched.session, [AttemptRef(f"job_{n}", 1) for n in range(100)])
    watched.registry.remove(watched.session)
    assert len(watched.registry.closed) == 100, "only names of jobs that it has"
    watched.wait(REMEMBER_SECONDS)
    assert not watched.registry.closed


# ---- several servers


async def _started(database: Database) -> tuple[JobRows, Instance, AttemptRef]:
    rows = await JobRows.make(database)
    instance = await rows.runner()
    return rows, instance, await instance.start(await rows.job(await rows.module(), kind="APPLY"))


def _watching() -> Registry:
    """A registry that has looked at its attempts every second for a while."""
    clock = ManualClock(1_000.0)
    registry = Registry(clock)
    for _ in range(200):
        clock.advance(1)
        registry.note_check()
    return registry


@pytest.mark.parametrize("is_executor", [True, False])
async def test_an_attempt_that_another_server_hears_is_not_lost(
    database: Database, clock: ShiftedClock, is_executor: bool
) -> None:
    """A server that did not know of an executor on its neighbour took the job away from it."""
    world, instance, ref = await _started(database)
    ours, theirs = _watching(), Registry()
    reaper, heartbeats = Reaper(database, ours), Heartbeats(database, theirs)
    clock.advance(LONG)
    if is_executor:
        theirs.add_executor(executor(ref))
    else:
        session = runner(instance)
        session.active_jobs = {ref.job_id}
        theirs.add(session)
        theirs.grant(session, ref)
        heartbeats.note(instance.id, 1)
    await heartbeats.step()
    await reaper.step()
    assert (await world.load(ref.job_id)).attempt == 1
    clock.advance(LONG)
    await reaper.step()
    assert (await world.load(ref.job_id)).attempt == 2


async def test_a_runner_that_names_what_is_not_its_own_keeps_nothing_alive(database: Database) -> None:
    world, _, ref = await _started(database)
    registry = Registry()
    session = runner(await world.runner())
    session.active_jobs = {ref.job_id}
    registry.add(session)
    registry.set_reported_attempts(session, [ref])
    heard = Heartbeats(database, registry)
    heard.note(session.instance_id, 1)
    await heard.step()
    (attempt,) = await world.attempts(ref.job_id)
    assert attempt.heard_at is None


async def test_the_heartbeats_of_a_large_fleet_are_all_written(
    database: Database, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "MAX_INSTANCES_PER_WRITE", 2)
    rows = await JobRows.make(database)
    instances = [await rows.runner() for _ in range(5)]
    clock.advance(LONG)
    heard = Heartbeats(database, Registry())
    for each in instances:
        heard.note(each.id, 1)
    await heard.step()
    since = "SELECT count(*) AS heard FROM instances WHERE heard_at > :since"
    row = await database.read(lambda tx: tx.one(since, since=tx.now - 1))
    assert row is not None
    assert row["heard"] == 5


async def test_an_attempt_that_has_begun_is_not_requeued_by_silence(database: Database, clock: ShiftedClock) -> None:
    world, _, ref = await _started(database)
    assert await begin_code(database, ref, 0) == "begun"
    clock.advance(LONG)
    await Reaper(database, _watching()).step()
    assert (await world.load(ref.job_id)).attempt == 1


# ---- grants


class Store(Objects):
    """Archives of one megabyte each."""

    def __init__(self) -> None:
        pass

    async def get(self, name: str) -> bytes:
        await asyncio.sleep(0)
        return bytes(1 << 20)


async def test_a_grant_leaves_even_if_its_archive_cannot_be_had(hub: Hub) -> None:
    """The claim was committed and the grant was never sent: the runner heard nothing, and kept the job alive by its heartbeats."""
    job = await hub.job()
    source = '{"kind":"archive","archive_id":"arc_0","sha256":"x","size":10}'
    await change_jobs(hub.server.db, source=source)
    async with hub.runner() as client:
        granted = await client.granted(job)
        assert (granted.spec.job_id, granted.spec.archive) == (job, None)


async def test_one_archive_that_is_asked_for_by_many_at_once_is_counted_once(rows: JobRows) -> None:
    """Its size was counted for each, until there was nothing left to forget and every grant failed."""
    won = ClaimWon(await (await rows.runner()).has(await rows.job(await rows.module())), "archives/one", "")
    archives = Archives(Store())
    many = asyncio.gather(*(archives.complete(won) for _ in range(2 * KEPT_BYTES >> 20)))
    assert all(granted.spec.archive is not None for granted in await many)
