"""A job of the fleet allows exactly the transitions of its table, and the database enforces the same rules."""

from itertools import product

import pytest

from terracrew.api.fleet_jobs import (
    FLEET_TERMINAL,
    FLEET_TRANSITIONS,
    FleetJob,
    FleetJobStatus,
    FleetJobType,
    FleetLine,
    FleetStep,
)
from terracrew.errors import Conflict, Invalid, Superseded
from terracrew.server.fleet_jobs import service, store
from terracrew.server.principals.model import SYSTEM
from terracrew.server.tree.groups import store as groups
from tests.server.fleet_jobs.fleet_rows import FleetRows, owner

pytestmark = pytest.mark.feature("W4.fleet")
PAIRS = [pytest.param(a, b, id=f"{a.value}-{b.value}") for a, b in product(FleetJobStatus, repeat=2)]


@pytest.mark.parametrize(("before", "after"), PAIRS)
async def test_every_pair_of_statuses_goes_by_the_table(
    fleet: FleetRows, before: FleetJobStatus, after: FleetJobStatus
) -> None:
    job = await fleet.job_in(before)
    if after in FLEET_TRANSITIONS[before]:
        await fleet.save(job, job.to(after, job.created_at, **owner(after, job)))
        assert (await fleet.load(job)).status is after
    else:
        with pytest.raises(Conflict):
            job.to(after, job.created_at)


def test_terminal_is_terminal() -> None:
    assert all(not FLEET_TRANSITIONS[status] for status in FLEET_TERMINAL)


async def test_saving_over_a_job_that_has_moved_is_refused(fleet: FleetRows) -> None:
    job = await fleet.job()
    await fleet.save(job, job.to(FleetJobStatus.CANCELED, job.created_at))
    with pytest.raises(Superseded):
        await fleet.save(job, job.to(FleetJobStatus.CLAIMED, job.created_at, **owner(FleetJobStatus.CLAIMED, job)))


@pytest.mark.parametrize(
    "rubbish",
    [
        "UPDATE fleet_jobs SET status = 'DONE'",
        "UPDATE fleet_jobs SET status = 'PROCESSING'",
        "UPDATE fleet_jobs SET status = 'SUCCEEDED'",
        "UPDATE fleet_jobs SET server_id = 'srv_1'",
        "UPDATE fleet_jobs SET attempt = 0",
    ],
)
async def test_the_database_itself_refuses_what_the_table_excludes(fleet: FleetRows, rubbish: str) -> None:
    await fleet.job()
    with pytest.raises((Invalid, Conflict)):
        await fleet.db.write(lambda tx: tx.run(rubbish))  # pyright: ignore[reportArgumentType]


async def test_a_target_has_one_running_job(fleet: FleetRows) -> None:
    first = await fleet.job(FleetJobType.DEPLOY_WORKER, "rnr_1")
    second = await fleet.job(FleetJobType.DESTROY_WORKER, "rnr_1")
    other = await fleet.job(FleetJobType.DEPLOY_WORKER, "rnr_2")
    turn = await fleet.db.read(lambda tx: store.claimable(tx, 10))
    assert [each.id for each in turn] == [first.id, other.id], "the second waits for the first one of its target"
    await fleet.save(first, first.to(FleetJobStatus.CLAIMED, first.created_at, **owner(FleetJobStatus.CLAIMED, first)))
    claimed = second.to(FleetJobStatus.CLAIMED, second.created_at, **owner(FleetJobStatus.CLAIMED, second))
    with pytest.raises(Conflict):
        await fleet.save(second, claimed)
    turn = await fleet.db.read(lambda tx: store.claimable(tx, 10))
    assert [each.id for each in turn] == [other.id]


async def test_a_second_job_of_the_same_type_is_refused_while_one_is_open(fleet: FleetRows) -> None:
    first = await fleet.job(FleetJobType.DEPLOY_WORKER, "rnr_1")
    with pytest.raises(Conflict, match=f"job {first.number} .DEPLOY_WORKER of `burst`. has not ended"):
        await fleet.job(FleetJobType.DEPLOY_WORKER, "rnr_1")
    await fleet.save(first, first.to(FleetJobStatus.CANCELED, first.created_at))
    await fleet.job(FleetJobType.DEPLOY_WORKER, "rnr_1")


async def test_numbers_come_from_the_counter_of_the_organizations_jobs(fleet: FleetRows) -> None:
    first = await fleet.job()
    taken = await fleet.db.write(lambda tx: groups.take_job_numbers(tx, fleet.rows.organization, 1))
    assert [first.number, *taken, (await fleet.job()).number] == [
        first.number,
        first.number + 1,
        first.number + 2,
    ]


async def test_lines_and_steps_that_are_written_again_change_nothing(fleet: FleetRows) -> None:
    job = await fleet.job()
    lines = [FleetLine(1, number, job.created_at, f"line {number}") for number in (1, 2)]
    step = FleetStep(job_id=job.id, attempt=1, name="role", position=3, words="Task role")
    for _ in range(2):
        await fleet.db.write(lambda tx: store.add_lines(tx, job.id, lines))
        await fleet.db.write(lambda tx: store.put_steps(tx, [step]))
    other = [FleetLine(1, 2, job.created_at, "another text")]
    await fleet.db.write(lambda tx: store.add_lines(tx, job.id, other))
    found = await fleet.db.read(lambda tx: service.lines(tx, SYSTEM, job.id, 1, 0, 100))
    assert [each.text for each in found] == ["line 1", "line 2"]
    shown = await fleet.db.read(lambda tx: service.show(tx, SYSTEM, job.id))
    assert [(each.name, each.status) for each in shown.steps] == [("role", "pending")]


async def test_old_jobs_are_deleted_except_the_newest_of_each_target_and_type(fleet: FleetRows) -> None:
    found: list[FleetJob] = []
    for _ in range(3):
        job = await fleet.job(FleetJobType.CONNECTION_TEST, "cid_1")
        await fleet.save(job, job.to(FleetJobStatus.CANCELED, job.created_at))
        await fleet.db.write(
            lambda tx, job=job: store.add_lines(tx, job.id, [FleetLine(1, 1, job.created_at, "a line")])
        )
        found.append(job)
    late = found[-1].created_at.timestamp() + 1
    assert await fleet.db.write(lambda tx: store.delete_ended(tx, late, 100)) == 2
    assert await fleet.db.read(lambda tx: store.get(tx, found[0].id)) is None
    assert (await fleet.load(found[-1])).number == found[-1].number
