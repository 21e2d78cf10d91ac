"""A group never has more running jobs than it may have, however many claims come at once."""

import asyncio
from collections.abc import Collection

import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.db.topics import FreedKey
from terracrew.server.jobs import queue_reads
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.claim_store import Claimant, ClaimRequest
from tests.builders.deliveries import DONE, RUNNING, delivery
from tests.builders.job_rows import KEYS, Instance, JobRows, change_groups, change_jobs
from tests.server.hub.hub_clients import on_postgres
from tests.server.scheduling.recorded_claims import ClaimRecorder

pytestmark = pytest.mark.feature("S5.caps")


async def _queue(rows: JobRows, count: int, cap: int, organization_cap: int | None = None) -> list[str]:
    """Queue jobs of modules in `network/core`, whose upper group has a cap."""
    network = await rows.group("network")
    core = await rows.group("network/core", network)
    await change_groups(rows.db, network, max_running_jobs=cap)
    if organization_cap is not None:
        await change_groups(rows.db, rows.root, max_running_jobs=organization_cap)
    return [await rows.job(await rows.module(f"network/core/m{n}", core)) for n in range(count)]


def _request(job_id: str, instance: Instance) -> ClaimRequest:
    return ClaimRequest(Claimant(job_id, 1, instance.runner_id, instance.id, 1), claims.make_credentials())


async def test_claims_that_come_at_once_do_not_exceed_the_cap_together(rows: JobRows) -> None:
    jobs = await _queue(rows, 6, cap=4, organization_cap=3)
    runners = [await rows.runner() for _ in range(6)]
    won = await asyncio.gather(*(runner.claim(job) for runner, job in zip(runners, jobs, strict=True)))
    assert sum(each is not None for each in won) == 3
    ended = next(job for job, each in zip(jobs, won, strict=True) if each is not None)
    await change_jobs(rows.db, ended, status="AWAITING_APPROVAL")
    waiting = [(runner, job) for runner, job, each in zip(runners, jobs, won, strict=True) if each is None]
    again = await asyncio.gather(*(runner.claim(job) for runner, job in waiting))
    assert sum(each is not None for each in again) == 1, "a job that waits for an approval does not run"


@on_postgres
async def test_claims_of_two_servers_do_not_exceed_the_cap_together(rows: JobRows) -> None:
    """Each of two transactions counted the running jobs without the claims of the other one."""
    jobs = await _queue(rows, 12, cap=5)
    runner = await rows.runner(slots=100)
    servers = [claims.claims(rows.db, KEYS) for _ in range(3)]
    attempts = [servers[n % 3](_request(job, runner)) for n, job in enumerate(jobs)]
    won = await asyncio.gather(*attempts)
    assert sum(each is not None for each in won) == 5


async def test_a_place_that_becomes_free_while_claims_are_decided_is_taken_once(
    rows: JobRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims below a full group were decided by one statement. It counted again, so all of them got the place of a job that had ended."""
    running, *jobs = await _queue(rows, 5, cap=1)
    runners = [await rows.runner() for _ in range(5)]
    group = claims.ClaimGroup(KEYS, "online")
    with pytest.raises(claims.CapFound):
        await rows.db.write(lambda tx: group.work(tx, [_request(running, runners[0])]))
    won = await rows.db.write(lambda tx: group.work(tx, [_request(running, runners[0])]))
    assert won[0] is not None
    count = queue_reads.running_jobs

    async def count_before_it_ends(tx: Tx, groups: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        found = await count(tx, groups)
        # On PostgreSQL, another transaction can do this: the next statement sees what it has committed.
        await change_jobs(tx, running, status="AWAITING_APPROVAL")
        return found

    monkeypatch.setattr(queue_reads, "running_jobs", count_before_it_ends)
    requests = [_request(job, runner) for job, runner in zip(jobs, runners[1:], strict=True)]
    won = await rows.db.write(lambda tx: group.work(tx, requests))
    assert sum(each is not None for each in won) <= 1


async def test_a_job_below_a_full_group_is_not_offered_and_takes_no_slot_from_others(rows: JobRows) -> None:
    first, second, third = await _queue(rows, 3, cap=1)
    other = await rows.job(await rows.module("elsewhere"))
    recorder = ClaimRecorder(rows)
    runner = await rows.runner()
    _, socket = recorder.connect(runner)
    await recorder.scheduler.sweep()
    assert set(socket.claims) == {first, other}
    module = (await rows.load(first)).module_id
    await runner.has(first)
    recorder.scheduler.claimed(first)
    await recorder.scheduler.sweep()
    assert second not in socket.claims
    await rows.take(delivery(runner.ref(first), 1, RUNNING))
    await rows.take(delivery(runner.ref(first), 2, DONE))
    await recorder.scheduler.step({("freed", FreedKey(first, module, runner.id).encode())})
    assert second in socket.claims
    assert third not in socket.claims
    await change_groups(rows.db, max_running_jobs=None)
    await recorder.scheduler.step({("tree", rows.root)})
    assert third in socket.claims
