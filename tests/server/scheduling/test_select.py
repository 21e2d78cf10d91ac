"""The pure function of selection, the claim statement, the reasons and the scheduler agree, whatever the rows are."""

import asyncio
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from terracrew.server.connections.registry import Registry
from terracrew.server.db import Database
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import store
from terracrew.server.jobs.attempts import claim_store, claims
from terracrew.server.jobs.attempts.claim_store import Claimant
from terracrew.server.scheduling import explain
from terracrew.server.scheduling.scheduler import Scheduler
from tests.builders.job_rows import change_jobs
from tests.server.scheduling.selection_rows import build, connected, delete_all
from tests.server.scheduling.selection_worlds import WORLDS, World

pytestmark = pytest.mark.feature(
    "S1.assigned",
    "S2.order",
    "S2.online",
    "S2.configured",
    "S2.claim",
    "S4.runner",
    "S4.instance",
    "S5.disabled",
    "S5.draining",
    "S5.full",
    "S5.engine",
    "D1.asked",
    "S5.tags",
    "S5.caps",
)
OPTIONS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


CODES = {
    "offered",
    "all_full",
    "capped",
    "no_engine",
    "no_dispatcher",
    "wrong_tag",
    "instance_absent",
    "none_online",
    "settling",
    "waking",
}


class Undo(Exception):
    """Ends the transaction, so that the next world finds an empty database."""


class Observed:
    """What the database says about the job of a world."""

    def __init__(self) -> None:
        self.claimable: set[str] = set()
        self.code = ""
        self.dispatchers: dict[str, str | None] = {}
        """The dispatcher that the job gets on each of these instances; None if it asks for none."""


async def observe(db: Database, world: World) -> Observed:
    """Let every instance claim the job, each as if it were the only one, and ask for the reason."""
    seen = Observed()

    async def work(tx: Tx) -> None:
        await build(tx, world)
        job = await store.get(tx, "job")
        found = await explain.why_each(tx, [job], Registry(), precedence=world.precedence, with_turn=True)
        seen.code = found["job"].code
        for row in await tx.all("SELECT id, runner_id FROM instances ORDER BY id"):
            claimant = Claimant("job", 1, row["runner_id"], row["id"], 1)
            claimed = await claim_store.claim(tx, world.precedence, [claimant])
            if given := await claims.offered(tx, claimed):
                seen.claimable.add(row["id"])
                seen.dispatchers[row["id"]] = given[0]["choice"].name
                await change_jobs(tx, "job", status="QUEUED", instance_id=None, runner_id=None)
        raise Undo

    with pytest.raises(Undo):
        await db.write(work)
    return seen


def test_what_selection_finds_can_be_claimed_and_nothing_else_and_the_reason_says_the_same(
    opened: tuple[asyncio.AbstractEventLoop, Database],
) -> None:
    loop, db = opened
    codes: Counter[str] = Counter()

    @settings(OPTIONS, max_examples=300)
    @given(WORLDS)
    def same(world: World) -> None:
        expected = world.select()
        seen = loop.run_until_complete(observe(db, world))
        assert seen.claimable == set(expected.instances)
        assert seen.code == expected.code
        for name in seen.dispatchers.values():
            assert (name is None) == (not world.choice)
            assert name in (None, "default", "big", "small")
        codes[expected.code] += 1

    same()
    assert codes.keys() >= CODES, f"it is no test if a case never comes: {codes}"
    assert 60 <= codes["offered"] <= 240, codes


async def tried(db: Database, world: World) -> set[str]:
    """Return the instances that a scheduler claims the job for when every claim is refused."""
    registry = connected(world)
    found: list[str] = []
    scheduler = Scheduler(
        db, registry, lambda _scheduler, _job, session: found.append(session.instance_id), world.precedence
    )
    await db.write(lambda tx: build(tx, world))
    try:
        await scheduler.sweep()
        assert len(found) <= 1, "one instance after the other is tried"
        for _ in range(10):
            scheduler.unclaimed("job")
            await scheduler.step({("queue", "job")})
        assert len(found) == len(set(found)), "nobody is tried twice before the next sweep"
        return set(found)
    finally:
        await db.write(delete_all)


def test_the_scheduler_claims_a_job_for_the_instances_of_selection_and_for_no_other(
    opened: tuple[asyncio.AbstractEventLoop, Database],
) -> None:
    loop, db = opened
    outcomes: Counter[bool] = Counter()

    @settings(OPTIONS, max_examples=100)
    @given(WORLDS)
    def same(world: World) -> None:
        expected = set(world.select().instances)
        assert loop.run_until_complete(tried(db, world)) == expected
        outcomes[bool(expected)] += 1

    same()
    assert min(outcomes.values()) >= 12, outcomes
