"""A change of a runner or an assignment moves the jobs that it concerns, and no others."""

from collections.abc import Sequence
from random import Random

import pytest

from terracrew import ids
from terracrew.server.db.seam import Database, Tx
from terracrew.server.runners import eligibility
from terracrew.server.scheduling import reads
from terracrew.server.scheduling.assignment_view import AssignmentView, places_in_database
from terracrew.server.scheduling.queue import Waiting
from tests.builders.job_rows import Instance, JobRows, insert
from tests.server.scheduling.recorded_claims import ClaimRecorder

pytestmark = pytest.mark.feature("S2.order")


async def _assign(tx: Tx, rows: JobRows, runner_id: str, kind: str, place_id: str, path: str) -> None:
    place = {"place_id": place_id, "kind": kind, "path": path, "organization_id": rows.organization}
    await insert(tx, "assignments", runner_id=runner_id, created_at=tx.now, **place)


async def _withdraw(tx: Tx, runner: Instance) -> None:
    await tx.run("DELETE FROM assignments WHERE runner_id = :id", id=runner.runner_id)


async def _expected_tiers(tx: Tx, job: Waiting) -> list[set[str]]:
    """The runners that may have a job, nearest first and each where it is nearest, by the condition that claims use."""
    rows = await tx.all(
        """SELECT assignments.runner_id AS id,
            CASE WHEN assignments.kind = 'module' THEN 1000 ELSE length(assignments.path) END AS nearness
        FROM modules JOIN assignments ON assignments.organization_id = modules.organization_id AND """
        + eligibility.covers("modules")
        + """ WHERE modules.id = :module_id
        UNION ALL SELECT id, -1 AS nearness FROM runners WHERE organization_id IS NULL ORDER BY nearness DESC""",
        module_id=job.module_id,
    )
    tiers: dict[int, set[str]] = {}
    seen: set[str] = set()
    for row in rows:
        if row["id"] not in seen:
            tiers.setdefault(row["nearness"], set()).add(row["id"])
        seen.add(row["id"])
    return list(tiers.values())


async def test_a_runner_that_joins_others_makes_nobody_read_the_queue(database: Database) -> None:
    """Each change of a runner or an assignment read the whole queue: 5 s with 10,000 jobs."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    session, socket = recorder.connect(await rows.runner())
    jobs = [await rows.job(await rows.module()) for _ in range(3)]
    await recorder.scheduler.sweep()
    assert session.reserved == set(jobs)
    later = await rows.job(await rows.module())  # queued, and nobody was woken for it
    second = await rows.runner(slots=1)
    _, other = recorder.connect(second)
    await recorder.scheduler.step({("assignments", second.runner_id)})
    assert session.reserved == set(jobs)
    assert later not in socket.claims + other.claims, "the rest of the queue was not read"
    for _ in range(5):  # the new runner is full with the first of them
        await recorder.scheduler.step({("queue", await rows.job(await rows.module()))})
    assert other.claims


async def test_jobs_go_to_the_first_runner_of_a_nearer_place_and_back_when_its_last_one_is_withdrawn(
    database: Database,
) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    far, near = await rows.runner(), await rows.runner(assigned=False)
    (_, its), (_, theirs) = recorder.connect(far, slots=0), recorder.connect(near)
    group = await rows.group("network")
    job = await rows.job(await rows.module("network/vpc", group))
    await recorder.scheduler.sweep()
    assert its.claims + theirs.claims == [], "the only runner of this job is full"
    await database.write(lambda tx: _assign(tx, rows, near.runner_id, "group", group, "network"))
    await recorder.scheduler.step({("assignments", near.runner_id)})
    assert theirs.claims == [job]
    await database.write(lambda tx: _withdraw(tx, near))
    recorder.registry.runners[far.id].slots = 4
    recorder.scheduler.unclaimed(job)  # the statement of the claim knows that the runner is not assigned
    await recorder.scheduler.step({("assignments", near.runner_id)})
    assert (its.claims, theirs.claims) == ([job], [job])
    assert recorder.registry.runners[near.id].reserved == set()


async def test_a_removed_runner_leaves_its_jobs_to_the_next_tier_at_once(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    far, near = await rows.runner(), await rows.runner(assigned=False)
    _, socket = recorder.connect(far)
    module = await rows.module()
    await database.write(lambda tx: _assign(tx, rows, near.runner_id, "module", module, module))
    job = await rows.job(module)
    await recorder.scheduler.sweep()
    assert socket.claims == [], "the nearer one is connected to another server"
    await database.write(lambda tx: tx.run("DELETE FROM runners WHERE id = :id", id=near.runner_id))
    await recorder.scheduler.step({("assignments", near.runner_id)})
    assert socket.claims == [job]


@pytest.mark.parametrize("seed", range(3))
async def test_the_view_in_memory_agrees_with_the_database_after_any_changes(database: Database, seed: int) -> None:
    world, random = await JobRows.make(database), Random(seed)
    paths = ["a", "a/b", "a/b/c", "ab", "d"]
    groups = {path: await world.group(path) for path in paths} | {"": world.root}
    modules = [await world.module(f"{path}/m".lstrip("/"), group) for path, group in groups.items()]
    jobs = [await world.job(module) for module in modules]
    runners = [(await world.runner(assigned=False)).runner_id for _ in range(4)]
    shared = ids.new("rnr")
    view = AssignmentView()
    await view.load(database)

    async def change(tx: Tx, runner_id: str, at: Sequence[str]) -> None:
        await tx.run("DELETE FROM assignments WHERE runner_id = :id", id=runner_id)
        for place in at:
            if place in groups:
                await _assign(tx, world, runner_id, "group", groups[place], place)
            else:
                await _assign(tx, world, runner_id, "module", place, place)

    async def toggle_shared(tx: Tx) -> None:
        if not await tx.run("DELETE FROM runners WHERE id = :id", id=shared):
            names = {"name": "shared", "path": "shared", "type": "self-hosted"}
            await insert(tx, "runners", id=shared, created_at=tx.now, **names)

    for _ in range(12):
        runner_id = random.choice([*runners, shared])
        if runner_id == shared:
            await database.write(toggle_shared)
        else:
            at = random.sample([*groups, *modules], random.randrange(4))
            await database.write(lambda tx, id_=runner_id, at=at: change(tx, id_, at))
        view.assign(runner_id, await database.read(lambda tx, id_=runner_id: places_in_database(tx, id_)))
        for job in (await database.read(lambda tx: reads.queued(tx, jobs)))[0]:
            expected = await database.read(lambda tx, job=job: _expected_tiers(tx, job))
            seen: set[str] = set()
            found: list[set[str]] = []
            for tier in view.tiers(view.route(job)):  # a runner counts where it is nearest
                found.append(set(tier.known - seen))
                seen |= tier.known
            assert [tier for tier in found if tier] == expected
