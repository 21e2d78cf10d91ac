"""A job that is claimed in the transaction that creates it goes where it would have gone, and a stale credit costs nothing but time."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from terracrew.api.jobs import Job
from terracrew.api.modules import Module
from terracrew.protocol.messages import Credits
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db import Database
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.engines import store as engine_store
from terracrew.server.engines.model import available
from terracrew.server.jobs import store
from terracrew.server.jobs.attempts.claim_store import ClaimRequest
from terracrew.server.jobs.attempts.claims import ClaimGroup, ClaimWon
from terracrew.server.jobs.create import NotClaimedAhead
from terracrew.server.scheduling import reads
from terracrew.server.scheduling.new_job_claims import NewJobClaims, as_waiting
from terracrew.server.scheduling.scheduler import Scheduler
from tests.builders.job_rows import KEYS, Instance, JobRows, change_instances, change_jobs, change_modules
from tests.server.scheduling.recorded_claims import ClaimRecorder, record
from tests.server.scheduling.selection_rows import build, connected, delete_all, insert_job
from tests.server.scheduling.selection_worlds import WORLDS, World

pytestmark = pytest.mark.feature("S3.offers", "S2.claim")
OPTIONS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
)


class Ahead:
    """Claims of new jobs that record what they send and take back."""

    def __init__(self, scheduler: Scheduler, group: ClaimGroup) -> None:
        self.sent: list[tuple[str, str]] = []
        """The instance and the job of each grant."""
        self.taken_back: list[str] = []
        self.unsendable: set[str] = set()
        self.claims = NewJobClaims(scheduler, group, self._send, self._take_back)

    def _send(self, session: RunnerSession, won: ClaimWon) -> None:
        if won.granted.spec.job_id in self.unsendable:
            raise KeyError("a grant that cannot be sent")
        self.sent.append((session.instance_id, won.granted.spec.job_id))

    def _take_back(self, request: ClaimRequest) -> None:
        self.taken_back.append(request.claimant.job_id)


async def created(tx: Tx, job_id: str) -> tuple[Job, Module]:
    """Return a job with its module, as the transaction that creates it has them. The scheduler would read the same of it."""
    job = await store.get(tx, job_id)
    row = await tx.one("SELECT * FROM modules WHERE id = :id", id=job.module_id)
    assert row is not None
    module = row_to(Module, row)
    (read,), _ = await reads.queued(tx, [job_id])
    # The rows of these tests have times with more digits than a server writes.
    assert as_waiting(job, module) == replace(read, queued_at=job.queued_at.timestamp())
    return job, module


# ---- any world


async def chosen_by_scheduler(db: Database, world: World) -> str | None:
    """Return the instance that the scheduler claims the job for when it finds it in the queue."""
    registry, found = connected(world), list[str]()
    await Scheduler(db, registry, lambda _, _job, each: found.append(each.instance_id), world.precedence).sweep()
    return found[0] if found else None


async def claimed_with_creation(db: Database, world: World, group: ClaimGroup) -> str | None:
    """Return the instance that gets the same job when it is created."""
    await db.write(lambda tx: tx.run("DELETE FROM jobs WHERE id = 'job'"))
    registry = connected(world)
    scheduler = Scheduler(db, registry, record, world.precedence)
    ahead = Ahead(scheduler, group)

    async def create(tx: Tx) -> set[str]:
        await insert_job(tx, world)
        return set(await ahead.claims.claim(tx, [await created(tx, "job")]))

    with scheduler.freshness.watching(db):
        await scheduler.sweep()
        try:
            claimed = await db.write(create)
        except NotClaimedAhead:  # the first cap that is found: the transaction is repeated
            claimed = await db.write(create)
    assert [job_id for _, job_id in ahead.sent] == sorted(claimed)
    assert not ahead.taken_back
    assert all(not each.reserved for each in registry.runners.values())
    return ahead.sent[0][0] if claimed else None


def _first(_: int) -> int:
    return 0


def test_in_any_world_a_new_job_goes_to_the_instance_that_it_would_get_if_it_had_waited(
    opened: tuple[asyncio.AbstractEventLoop, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, db = opened
    outcomes: Counter[bool] = Counter()
    monkeypatch.setattr(random, "randrange", _first)  # where the search begins; it only spreads load

    async def both(world: World) -> tuple[str | None, str | None]:
        await db.write(lambda tx: build(tx, world))
        try:
            group = ClaimGroup(KEYS, world.precedence)
            return await chosen_by_scheduler(db, world), await claimed_with_creation(db, world, group)
        finally:
            await db.write(delete_all)

    @settings(OPTIONS, max_examples=100)
    @given(WORLDS)
    def same(world: World) -> None:
        chosen, claimed = loop.run_until_complete(both(world))
        assert claimed == chosen
        outcomes[claimed is not None] += 1

    same()
    assert min(outcomes[True], outcomes[False]) >= 12, outcomes


# ---- single cases


class Crew:
    """A scheduler whose view is up to date, and instances with credits."""

    def __init__(self, rows: JobRows) -> None:
        self.rows = rows
        self.recorder = ClaimRecorder(rows)
        self.scheduler = self.recorder.scheduler
        self.ahead = Ahead(self.scheduler, ClaimGroup(KEYS, "online"))

    def connect(self, instance: Instance, slots: int = 1, sent: int = 1) -> RunnerSession:
        session, _ = self.recorder.connect(instance, slots)
        self.recorder.registry.set_credits(session, Credits(sent, 0))
        return session

    async def create(self, *job_ids: str) -> set[str]:
        """Let a transaction find jobs as if it had just created them."""

        async def work(tx: Tx) -> set[str]:
            changed = await self.ahead.claims.claim(tx, [await created(tx, each) for each in job_ids])
            assert list(changed.values()) == await store.get_many(tx, list(changed)), "it says what the rows say"
            return set(changed)

        return await self.rows.db.write(work)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        with self.scheduler.freshness.watching(self.rows.db):
            await self.scheduler.sweep()
            yield


@pytest.fixture
def crew(rows: JobRows) -> Crew:
    return Crew(rows)


async def test_the_job_with_the_highest_priority_gets_the_only_slot(crew: Crew) -> None:
    session = crew.connect(await crew.rows.runner(slots=1))
    async with crew.watching():
        jobs = [await crew.rows.job(await crew.rows.module()) for _ in range(3)]
        await change_jobs(crew.rows.db, jobs[1], priority=7)
        assert await crew.create(*jobs) == {jobs[1]}
    assert crew.ahead.sent == [(session.instance_id, jobs[1])]
    assert (session.credits, session.active_jobs) == (0, {jobs[1]})


async def test_a_new_job_does_not_overtake_one_that_waits_for_the_slot(crew: Crew) -> None:
    session = crew.connect(await crew.rows.runner(slots=1))
    waiting = await crew.rows.job(await crew.rows.module())
    async with crew.watching():
        assert session.reserved == {waiting}
        new = await crew.rows.job(await crew.rows.module())
        assert await crew.create(new) == set()


async def test_a_new_job_does_not_overtake_one_that_the_scheduler_has_not_read_yet(crew: Crew) -> None:
    crew.connect(await crew.rows.runner(slots=1))
    async with crew.watching():
        earlier = await crew.rows.job(await crew.rows.module())
        await crew.rows.db.write(lambda tx: _wake(tx, earlier))
        new = await crew.rows.job(await crew.rows.module())
        assert await crew.create(new) == set()


async def _wake(tx: Tx, job_id: str) -> None:
    store.wake_queue(tx, [job_id])


async def test_of_two_new_jobs_of_one_module_the_second_waits(crew: Crew) -> None:
    crew.connect(await crew.rows.runner(slots=4), slots=4, sent=4)
    async with crew.watching():
        module = await crew.rows.module()
        jobs = [await crew.rows.job(module) for _ in range(2)]
        assert len(await crew.create(*jobs)) == 1
        assert await crew.create(await crew.rows.job(module)) == set()


async def test_of_two_new_jobs_of_one_module_the_one_that_its_module_runs_first_is_claimed(crew: Crew) -> None:
    """The first row was claimed, and a job with a lower priority ran before the other one."""
    crew.connect(await crew.rows.runner(slots=4), slots=4, sent=4)
    async with crew.watching():
        module = await crew.rows.module()
        jobs = [await crew.rows.job(module) for _ in range(3)]
        await change_jobs(crew.rows.db, jobs[1], priority=7)
        assert await crew.create(*jobs) == {jobs[1]}


async def test_nothing_is_claimed_for_an_instance_that_withdrew_its_credits(crew: Crew) -> None:
    session = crew.connect(await crew.rows.runner(slots=4), slots=4, sent=2)
    crew.recorder.registry.set_credits(session, Credits(0, 0))
    async with crew.watching():
        assert await crew.create(await crew.rows.job(await crew.rows.module())) == set()


@pytest.mark.parametrize("silence", [19.0, 21.0])
async def test_nothing_is_claimed_for_an_instance_that_has_missed_two_heartbeats(crew: Crew, silence: float) -> None:
    """A runner that hung while it was idle got four of eight jobs by its credits, and they waited for a minute."""
    session = crew.connect(await crew.rows.runner(slots=4), slots=4, sent=2)
    assert session.configuration.heartbeat == 10.0
    session.last_contact_at -= silence
    async with crew.watching():
        job = await crew.rows.job(await crew.rows.module())
        assert await crew.create(job) == ({job} if silence < 20 else set())
    assert session.credits == (1 if silence < 20 else 2)


async def test_a_claim_of_an_instance_that_has_disconnected_is_refused_and_gives_everything_back(crew: Crew) -> None:
    """The row says that it is gone, and this server has not noticed yet."""
    instance = await crew.rows.runner(slots=1)
    session = crew.connect(instance)
    async with crew.watching():
        await change_instances(crew.rows.db, instance.id, epoch=2)
        job = await crew.rows.job(await crew.rows.module())
        assert await crew.create(job) == set()
        assert (session.credits, session.used_credits, session.reserved) == (1, 0, set())
    assert (await crew.rows.load(job)).status == "QUEUED"


async def test_a_grant_that_cannot_be_sent_does_not_keep_the_others_from_their_runners(crew: Crew) -> None:
    """All grants of a transaction were sent by one action, so an error in the first one delayed the others by a minute."""
    session = crew.connect(await crew.rows.runner(slots=4), slots=4, sent=4)
    async with crew.watching():
        jobs = [await crew.rows.job(await crew.rows.module()) for _ in range(4)]
        crew.ahead.unsendable = set(jobs[:2])
        assert await crew.create(*jobs) == set(jobs)
    assert sorted(job_id for _, job_id in crew.ahead.sent) == sorted(jobs[2:])
    assert (session.reserved, session.active_jobs) == (set(), set(jobs))


async def test_a_new_job_with_a_range_of_versions_is_told_as_it_was_claimed(crew: Crew) -> None:
    rows = crew.rows
    instance = await rows.runner(slots=1)
    session = crew.connect(instance)
    session.engines = available({"tofu": "1.12.6"}, {"tofu": ["1.12.6"]}, [])
    await rows.db.write(lambda tx: engine_store.set_available(tx, {instance.id: session.engines}))
    async with crew.watching():
        module = await rows.module()
        await change_modules(rows.db, module, engine_version="~> 1.12")
        await rows.db.write(lambda tx: engine_store.remember_range(tx, "tofu", "~> 1.12"))
        job = await rows.job(module)
        assert await crew.create(job) == {job}
    assert (await rows.load(job)).pinned_engine_version == "1.12.6"


async def test_a_transaction_that_fails_gives_back_the_slot_and_takes_back_the_claim(crew: Crew) -> None:
    session = crew.connect(await crew.rows.runner(slots=1))
    async with crew.watching():
        job = await crew.rows.job(await crew.rows.module())

        async def work(tx: Tx) -> None:
            assert set(await crew.ahead.claims.claim(tx, [await created(tx, job)])) == {job}
            assert (session.credits, session.free) == (0, 0)
            raise KeyError("not today")

        with pytest.raises(KeyError):
            await crew.rows.db.write(work)
    assert (session.credits, session.used_credits, session.free) == (1, 0, 1)
    assert (crew.ahead.sent, crew.ahead.taken_back) == ([], [job])


async def test_a_job_that_cannot_be_claimed_is_created_without_its_claim(crew: Crew) -> None:
    """A stored value of the instance is damaged."""
    instance = await crew.rows.runner(slots=1)
    crew.connect(instance)
    async with crew.watching():
        job = await crew.rows.job(await crew.rows.module())
        await change_instances(crew.rows.db, instance.id, engine_versions="{")
        with pytest.raises(NotClaimedAhead):
            await crew.create(job)
    assert (await crew.rows.load(job)).status == "QUEUED"
    assert crew.ahead.taken_back == []


async def test_grants_that_are_on_their_way_use_some_of_the_credits_that_are_sent(crew: Crew) -> None:
    """A runner announced its free slots before it received a grant, and was granted one job too many."""
    session = crew.connect(await crew.rows.runner(slots=4), slots=4, sent=4)
    async with crew.watching():
        await crew.create(await crew.rows.job(await crew.rows.module()))
    send = crew.recorder.registry.set_credits
    assert session.credits == 3
    send(session, Credits(4, received=0))
    assert session.credits == 3
    send(session, Credits(4, received=1))
    assert session.credits == 4
    send(session, Credits(1 << 40, received=1 << 40))
    assert session.free == 3, "the database knows four slots, and one has the job"


@pytest.mark.feature("J10.order")
async def test_a_job_is_not_claimed_while_another_server_claims_an_earlier_one(database: Database) -> None:
    """The other servers do not hear of a new job at once, and one of them claimed the second job of the module in this time."""
    rows = await JobRows.make(database)
    module = await rows.module()
    here, there = ClaimRecorder(rows), ClaimRecorder(rows)  # two servers
    here.connect(await rows.runner())
    _, distant = there.connect(await rows.runner())
    first = await rows.job(module)
    with here.scheduler.freshness.watching(database), there.scheduler.freshness.watching(database):
        await there.scheduler.sweep()
        assert distant.claims == [first]
        await here.scheduler.sweep()
        second = await rows.job(module)
        server = Ahead(here.scheduler, ClaimGroup(KEYS, "online"))

        async def create(tx: Tx) -> set[str]:
            return set(await server.claims.claim(tx, [await created(tx, second)]))

        assert await database.write(create) == set()
    assert [(await rows.load(each)).status for each in (first, second)] == ["QUEUED", "QUEUED"]


@pytest.mark.feature("S5.full")
@pytest.mark.parametrize("is_late", [False, True], ids=["the scheduler is first", "the new job is first"])
async def test_the_last_slot_is_not_given_to_a_job_that_waits_and_to_a_new_one(crew: Crew, is_late: bool) -> None:
    """On PostgreSQL, both claims were decided at the same time and counted the same free slot; the runner handed one job back."""
    session, scheduler = crew.connect(await crew.rows.runner(slots=1)), crew.recorder.scheduler
    async with crew.watching():
        waiting, new = [await crew.rows.job(await crew.rows.module()) for _ in range(2)]
        if not is_late:
            await scheduler.step({("queue", waiting)})
            assert session.reserved == {waiting}
            assert await crew.create(new) == set()
            scheduler.claimed(waiting)
            assert (session.active_jobs, session.free) == ({waiting}, 0)
            return

        async def work(tx: Tx) -> None:
            assert set(await crew.ahead.claims.claim(tx, [await created(tx, new)])) == {new}

        await crew.rows.db.write(work)
        await scheduler.step({("queue", waiting)})
    assert (session.reserved, session.active_jobs, session.free) == (set(), {new}, 0)
