"""The jobs of one module are claimed in the order in which they were created, within a priority, whatever becomes of an attempt."""

import asyncio
from collections.abc import Callable
from datetime import datetime

import pytest

from terracrew.api.jobs import Attempt, Job
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import Registry
from terracrew.server.jobs import decide, service
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reasons
from tests.builders.deliveries import DONE, RUNNING, delivery
from tests.builders.job_rows import Instance, JobRows, begin_code, change_jobs, change_modules
from tests.server.jobs.waiting_jobs import Waiting

pytestmark = pytest.mark.feature("J10.order")


Settling = Callable[[Job, Attempt, datetime], decide.Decision | None]


class Pair:
    """Two jobs of one module. The first one is claimed."""

    def __init__(self, rows: JobRows, runner: Instance, first: str, second: str) -> None:
        self.rows, self.runner, self.first, self.second = rows, runner, first, second

    @classmethod
    async def make(cls, rows: JobRows) -> "Pair":
        module, runner = await rows.module(), await rows.runner()
        first, second = [await rows.job(module, kind=kind) for kind in ("DESTROY", "APPLY")]
        await runner.claimed(first)
        return cls(rows, runner, first, second)

    async def reason(self, job_id: str) -> str:
        job = await self.rows.load(job_id)
        watch = reasons.Watch(Registry(), decide.APPLY_LEASE)
        found = await self.rows.db.read(lambda tx: reasons.why(tx, job, watch))
        return found.text if found else ""


def _hand_back(job: Job, attempt: Attempt, now: datetime) -> decide.Decision | None:
    return decide.hand_back(job, attempt, "the runner drains", now)


def _missing(job: Job, attempt: Attempt, now: datetime) -> decide.Decision | None:
    return decide.missing(job, attempt, "the runner came back without it", now)


def _set_back(job: Job, attempt: Attempt, now: datetime) -> decide.Decision | None:
    return decide.send_back(job, attempt, "a state in quarantine", now)


def _gone(job: Job, attempt: Attempt, now: datetime) -> decide.Decision | None:
    return decide.gone(job, attempt, decide.Report("killed"), now)


@pytest.mark.parametrize("ended", [_hand_back, _missing, _set_back, _gone], ids=lambda each: each.__name__[1:])
async def test_a_job_that_is_queued_again_runs_before_the_later_jobs_of_its_module(
    rows: JobRows, ended: Settling
) -> None:
    """It went behind them: an old DESTROY destroyed what a later APPLY had made, and nobody was asked."""
    pair = await Pair.make(rows)
    await service.settle(rows.db, AttemptRef(pair.first, 1), ended)
    first, second = await rows.load(pair.first), await rows.load(pair.second)
    assert (first.status, first.attempt) == ("QUEUED", 2)
    assert first.queued_at > second.queued_at, "it was queued last"
    assert await pair.runner.claim(pair.second) is None
    assert await pair.reason(pair.second) == f"job #{first.number} of this module goes first"
    assert await pair.runner.claim(pair.first, attempt=2) is not None


async def test_a_later_job_runs_when_the_earlier_one_has_ended_or_was_canceled(rows: JobRows) -> None:
    pair = await Pair.make(rows)
    await service.settle(rows.db, AttemptRef(pair.first, 1), _hand_back)
    assert await pair.runner.claim(pair.second) is None
    admin = Principal("user", "usr_1", "olga", rows.organization, is_system_admin=True)
    await service.cancel(rows.db, admin, pair.first, "interrupt")
    assert await pair.runner.claim(pair.second) is not None


async def test_a_higher_priority_comes_first_and_a_changed_one_counts(rows: JobRows) -> None:
    module, runner = await rows.module(), await rows.runner()
    first, second, third = [await rows.job(module) for _ in range(3)]
    await change_jobs(rows.db, third, priority=5)
    assert await runner.claim(first) is None
    await change_jobs(rows.db, second, priority=5)
    assert await runner.claim(third) is None, "the second has the same priority now, and was created earlier"
    for job in (second, third, first):
        await runner.finish(job)


async def test_jobs_of_other_modules_and_organizations_hold_up_nothing(rows: JobRows) -> None:
    runner, module = await rows.runner(), await rows.module()
    await rows.job(module)
    assert await runner.claim(await rows.job(await rows.module())) is not None


async def test_of_two_jobs_that_are_claimed_in_one_transaction_the_first_wins(rows: JobRows) -> None:
    """Claims that come at the same time share a statement, and the order of its rows decides nothing."""
    module = await rows.module()
    runners = [await rows.runner() for _ in range(4)]
    jobs = [await rows.job(module) for _ in range(4)]
    won = await asyncio.gather(*(runner.claim(job) for runner, job in zip(runners, reversed(jobs), strict=True)))
    assert [each is not None for each in won] == [False, False, False, True]


@pytest.mark.feature("J8.same")
async def test_a_job_that_waits_for_an_approval_lets_later_ones_run_and_asks_again_afterwards(job: Waiting) -> None:
    """It has no place in the queue. If a later job has changed the state, nobody has seen the plan that it would apply."""
    rows = job.rows
    later = await rows.job(job.module, kind="APPLY")
    ref = await job.runner.start(later)
    assert await begin_code(rows.db, ref, 0) == "begun"
    await job.approve()
    assert (await job.job()).status == "QUEUED", "it was approved while the later job runs"
    await change_modules(rows.db, job.module, state_version=1)
    await job.take(delivery(ref, 2, DONE))
    last = await rows.job(job.module, kind="APPLY")
    assert await job.runner.claim(last) is None, "an approved job has its turn by its number again"
    granted = await job.runner.has(job.id, 2)
    assert granted.spec.resume is None, "its plan was made before the later job, so it plans again"
    await job.take(delivery(AttemptRef(job.id, 2), 1, RUNNING))
    assert await begin_code(rows.db, AttemptRef(job.id, 2), 1) == "approval"
