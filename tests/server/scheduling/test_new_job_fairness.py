"""Of many new jobs, those are claimed at once that the scheduler would have claimed from the queue, for the same instances."""

import asyncio
import random
from collections import Counter

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from terracrew import ids
from terracrew.api.jobs import Job
from terracrew.api.modules import Module
from terracrew.protocol.messages import Credits
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db import Database
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import store
from terracrew.server.jobs.attempts.claims import ClaimGroup, ClaimWon
from terracrew.server.jobs.create import NotClaimedAhead
from terracrew.server.scheduling.new_job_claims import NewJobClaims
from tests.builders.job_rows import (
    KEYS,
    SOURCE,
    Instance,
    JobRows,
    change_groups,
    change_modules,
    change_runners,
    insert,
)
from tests.server.scheduling.recorded_claims import ClaimRecorder

pytestmark = pytest.mark.feature("S3.offers", "S2.claim")
GROUPS = ["a", "b", "c"]
OPTIONS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class ModuleCase(msgspec.Struct, frozen=True):
    group: int
    pin: int | None
    """The only runner that may take its jobs."""
    tags: tuple[str, ...]


class RunnerOfCrew(msgspec.Struct, frozen=True):
    place: int | None
    """The group that it is assigned to; None for the whole organization."""
    slots: int
    credits: int
    """How many of its slots it claims ahead, at most."""
    tags: tuple[str, ...]


class JobCase(msgspec.Struct, frozen=True):
    module: int
    priority: int


class Rush(msgspec.Struct, frozen=True):
    """Jobs that are created together in a few transactions, one after the other."""

    modules: list[ModuleCase]
    runners: list[RunnerOfCrew]
    caps: list[int | None]
    """How many jobs of each group may run at once."""
    transactions: list[list[JobCase]]


_TAGS = st.sampled_from([(), (), (), ("gpu",)])
_PIN = st.sampled_from([None, None, None, 0, 1])
RUSHES = st.builds(
    Rush,
    st.lists(st.builds(ModuleCase, st.integers(0, 2), _PIN, _TAGS), min_size=6, max_size=6),
    st.lists(
        st.builds(
            RunnerOfCrew,
            st.sampled_from([None, None, 0, 1, 2]),
            st.integers(1, 4),
            st.sampled_from([0, 0, 0, 1]),
            _TAGS,
        ),
        min_size=2,
        max_size=3,
    ),
    st.lists(st.sampled_from([None, None, 1, 2]), min_size=3, max_size=3),
    st.lists(
        st.lists(st.builds(JobCase, st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=7),
        min_size=1,
        max_size=3,
    ),
)


class Crews:
    """The rows of a rush, and both ways in which its jobs can be given to runners."""

    def __init__(self, rows: JobRows, rush: Rush) -> None:
        self.rows, self.rush = rows, rush
        self.modules: list[str] = []
        self.instances: list[Instance] = []
        self.jobs = [[ids.new("job") for _ in each] for each in rush.transactions]

    async def build(self) -> None:
        rows, rush = self.rows, self.rush
        groups = [await rows.group(name) for name in GROUPS]
        for group_id, cap in zip(groups, rush.caps, strict=True):
            await change_groups(rows.db, group_id, max_running_jobs=cap)
        for each in rush.runners:
            made = await rows.runner(slots=each.slots, assigned=False)
            place = {"place_id": rows.root if each.place is None else groups[each.place]}
            path = "" if each.place is None else GROUPS[each.place]
            await rows.insert("assignments", runner_id=made.runner_id, kind="group", path=path, **place)
            await change_runners(rows.db, made.runner_id, tags=each.tags)
            self.instances.append(made)
        for number, each in enumerate(rush.modules):
            module_id = await rows.module(f"{GROUPS[each.group]}/m{number}", groups[each.group])
            pin = None if each.pin is None else self.instances[each.pin].runner_id
            await change_modules(rows.db, module_id, tags=each.tags, runner_id=pin)
            self.modules.append(module_id)

    def connected(self) -> ClaimRecorder:
        recorder = ClaimRecorder(self.rows)
        for instance, each in zip(self.instances, self.rush.runners, strict=True):
            session, _ = recorder.connect(instance, each.slots, tags=each.tags)
            recorder.registry.set_credits(session, Credits(each.credits, 0))
        return recorder

    async def insert(self, tx: Tx, number: int) -> list[tuple[Job, Module]]:
        """Insert the jobs of one of the transactions."""
        for place, each in enumerate(self.rush.transactions[number]):
            await insert(
                tx,
                "jobs",
                id=self.jobs[number][place],
                organization_id=self.rows.organization,
                module_id=self.modules[each.module],
                number=100 * number + place + 1,
                type="PLAN",
                status="QUEUED",
                priority=each.priority,
                source=SOURCE,
                created_by="test",
                created_at=tx.now,
                queued_at=tx.now,
            )
        found = [await store.get(tx, job_id) for job_id in self.jobs[number]]
        return [(job, await _module(tx, job.module_id)) for job in found]

    async def by_queue(self) -> dict[str, str]:
        """Return which instance gets each job that waits. All claims are decided before the next jobs are created."""
        recorder = self.connected()
        scheduler = recorder.scheduler
        first: dict[str, str] = {}
        for number in range(len(self.jobs)):
            await self.rows.db.write(lambda tx, number=number: self.insert(tx, number))
            await scheduler.sweep()
            await self._settle(recorder, first)
        return first

    async def _settle(self, recorder: ClaimRecorder, first: dict[str, str]) -> None:
        """Decide all claims, let the instances send credits for the rest of their slots, and decide the claims that follow."""
        await self._claim(recorder, first)
        for session in recorder.registry.runners.values():
            free = session.slots - len(session.active_jobs)
            recorder.registry.set_credits(session, Credits(free, session.used_credits))
            recorder.scheduler.serve(session)
        await self._claim(recorder, first)

    async def _claim(self, recorder: ClaimRecorder, first: dict[str, str]) -> None:
        for session in recorder.registry.runners.values():
            for job_id in sorted(session.reserved):
                assert first.setdefault(job_id, session.instance_id) == session.instance_id
        instances = {each.id: each for each in self.instances}
        for job_id, instance_id in first.items():
            session = recorder.registry.runners[instance_id]
            if job_id in session.active_jobs:
                continue
            assert await instances[instance_id].claim(job_id)
            recorder.scheduler.claimed(job_id)
        for session in recorder.registry.runners.values():
            assert not session.reserved

    async def by_creation(self) -> tuple[dict[str, str], int]:
        """Return which instance gets each job, and how many were claimed with their creation."""
        recorder = self.connected()
        scheduler = recorder.scheduler
        first: dict[str, str] = {}
        ahead: list[str] = []

        def send(session: RunnerSession, won: ClaimWon) -> None:
            first[won.granted.spec.job_id] = session.instance_id
            ahead.append(won.granted.spec.job_id)

        claims = NewJobClaims(scheduler, ClaimGroup(KEYS, "online"), send, lambda _: None)

        async def create(tx: Tx, number: int) -> None:
            await claims.claim(tx, await self.insert(tx, number))

        with scheduler.freshness.watching(self.rows.db) as wakeups:
            await scheduler.sweep()
            for number in range(len(self.jobs)):
                try:
                    await self.rows.db.write(lambda tx, number=number: create(tx, number))
                except NotClaimedAhead:  # the first cap that is found: the transaction is repeated
                    await self.rows.db.write(lambda tx, number=number: create(tx, number))
                while scheduler.is_admitting:
                    await asyncio.sleep(0)
                await self._settle(recorder, first)
                await scheduler.step(await wakeups.get(timeout=0))
        return first, len(ahead)


async def _module(tx: Tx, module_id: str) -> Module:
    row = await tx.one("SELECT * FROM modules WHERE id = :id", id=module_id)
    assert row is not None
    return row_to(Module, row)


async def _delete_jobs(tx: Tx) -> None:
    for table in ("attempts", "jobs"):
        await tx.run(f"DELETE FROM {table}")  # pyright: ignore[reportArgumentType]


async def _delete_all(tx: Tx) -> None:
    await _delete_jobs(tx)
    for table in ("instances", "assignments", "modules", "runners"):
        await tx.run(f"DELETE FROM {table}")  # pyright: ignore[reportArgumentType]
    await tx.run("DELETE FROM groups WHERE depth = 1")
    await tx.run("DELETE FROM groups")
    await tx.run("DELETE FROM organizations")


def _first(_: int) -> int:
    return 0


def test_of_many_new_jobs_those_are_claimed_that_would_have_been_claimed_from_the_queue(
    opened: tuple[asyncio.AbstractEventLoop, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Priorities, turns of groups, one job of a module at a time, tiers, pins, tags and caps are the same in both ways."""
    loop, db = opened
    outcomes: Counter[str] = Counter()
    monkeypatch.setattr(random, "randrange", _first)  # where the search begins; it only spreads load

    async def both(rush: Rush) -> tuple[dict[str, str], dict[str, str], int]:
        crews = Crews(await JobRows.make(db), rush)
        try:
            await crews.build()
            queued = await crews.by_queue()
            await db.write(_delete_jobs)
            return (queued, *await crews.by_creation())
        finally:
            await db.write(_delete_all)

    @OPTIONS
    @given(RUSHES)
    def same(rush: Rush) -> None:
        queued, claimed, ahead = loop.run_until_complete(both(rush))
        assert claimed == queued
        outcomes["with creation"] += ahead
        outcomes["later"] += len(claimed) - ahead
        outcomes["waiting"] += sum(map(len, rush.transactions)) - len(claimed)

    same()
    assert min(outcomes.values()) >= 20, outcomes
