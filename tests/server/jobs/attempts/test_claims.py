"""A job has one owner, because a claim is one atomic statement that checks everything."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import LiteralString, cast

import pytest

from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database
from terracrew.server.db.statements import sql as texts
from terracrew.server.jobs.attempts import claim_store, claims
from tests.builders.job_rows import JobRows, change_instances, change_modules, change_runners


@pytest.mark.feature("S3.first")
async def test_of_two_hundred_concurrent_claims_from_twenty_connections_exactly_one_wins(rows: JobRows) -> None:
    runners = [await rows.runner() for _ in range(20)]
    job = await rows.job(await rows.module())
    results = await asyncio.gather(*(runners[n % 20].claim(job) for n in range(200)))
    assert sum(won is not None for won in results) == 1
    assert (await rows.load(job)).status == "CLAIMED"
    assert len(await rows.attempts(job)) == 1


@pytest.mark.feature("S3.first", "S5.full")
async def test_one_free_slot_and_five_offers_give_one_grant(rows: JobRows) -> None:
    runner = await rows.runner(slots=1)
    jobs = [await rows.job(await rows.module()) for _ in range(5)]
    results = await asyncio.gather(*(runner.claim(job) for job in jobs))
    assert sum(won is not None for won in results) == 1


@pytest.mark.feature("J10.one")
async def test_two_jobs_of_one_module_run_one_at_a_time(rows: JobRows) -> None:
    runners = [await rows.runner() for _ in range(2)]
    module = await rows.module()
    jobs = [await rows.job(module) for _ in range(2)]
    results = await asyncio.gather(*(runner.claim(job) for runner, job in zip(runners, jobs, strict=True)))
    assert sum(won is not None for won in results) == 1


@pytest.mark.feature("S3.first")
async def test_a_claim_for_another_attempt_or_by_an_older_connection_is_refused(rows: JobRows) -> None:
    runner = await rows.runner()
    job = await rows.job(await rows.module())
    assert await runner.claim(job, attempt=2) is None
    assert await runner.claim(job, epoch=2) is None
    assert await runner.claim(job) is not None


@pytest.mark.feature("S1.assigned", "X2.enforced")
async def test_a_runner_that_is_not_assigned_cannot_claim(rows: JobRows) -> None:
    stranger = await rows.runner(assigned=False)
    assert await stranger.claim(await rows.job(await rows.module())) is None


@pytest.mark.feature("R8.root", "X4.tenants")
async def test_a_runner_of_another_organization_cannot_claim(database: Database) -> None:
    ours, theirs = await JobRows.make(database), await JobRows.make(database)
    assert await (await theirs.runner()).claim(await ours.job(await ours.module())) is None


@pytest.mark.feature("R7.disable", "S5.disabled", "S5.draining", "S5.engine")
@pytest.mark.parametrize(
    "closing",
    [
        partial(change_runners, is_disabled=True),
        partial(change_runners, is_draining=True),
        partial(change_instances, is_draining=True),
        partial(change_instances, is_connected=False),
        partial(change_modules, runner_instance_name="another"),
        partial(change_modules, runner_id="another"),
    ],
)
async def test_a_runner_that_may_not_take_the_job_cannot_claim_it(
    rows: JobRows, closing: Callable[[Database], Awaitable[None]]
) -> None:
    runner = await rows.runner()
    job = await rows.job(await rows.module())
    await closing(rows.db)
    assert await runner.claim(job) is None
    assert (await rows.load(job)).status == "QUEUED"


@pytest.mark.feature("S3.offers")
async def test_a_grant_carries_the_specification_and_credentials_of_its_own(rows: JobRows) -> None:
    runner = await rows.runner()
    module = await rows.module("platform/vpc")
    granted = await runner.has(await rows.job(module))
    assert (granted.spec.module_id, granted.spec.module_path, granted.spec.attempt) == (module, "platform/vpc", 1)
    assert granted.credentials.hub != granted.credentials.api
    assert granted.credentials.hub not in repr(granted)


@pytest.mark.feature("O6.database", "S3.first")
async def test_a_claim_whose_answer_was_lost_is_taken_back_and_no_other(rows: JobRows) -> None:
    """The database went away between the commit and its answer: the job belonged to an attempt that nobody had heard of."""
    job, runner = await rows.job(await rows.module()), await rows.runner()
    claimant = claim_store.Claimant(job, 1, runner.runner_id, runner.id, 1)
    unheard = claim_store.ClaimRequest(claimant, claims.make_credentials())
    assert await rows.claim(unheard) is not None
    ref, reason = AttemptRef(job, 1), "the database went away"
    await claims.take_back(rows.db, ref, claims.make_credentials(), reason)
    assert (await rows.load(job)).status == "CLAIMED", "another claim of the same attempt is not this one"
    await claims.take_back(rows.db, ref, unheard.credentials, reason)
    await claims.take_back(rows.db, ref, unheard.credentials, reason)
    again = await rows.load(job)
    assert (again.status, again.attempt, again.losses) == ("QUEUED", 2, 0)


async def test_postgres_looks_up_what_a_claim_asks_for_one_job(rows: JobRows) -> None:
    """It joined the tables of plans and attempts instead: after an analysis at the wrong time, each claim read all of them."""
    if rows.db.kind != "postgres":
        pytest.skip("SQLite never joins the tables of a condition")
    columns = tuple(claim_store.CLAIM_TYPES.items())
    text = texts.batch_from_arrays(claim_store.CLAIMS["online"], columns)
    text = cast("LiteralString", re.sub(r"\$\d+::", "NULL::", text))
    plan = "\n".join(row["QUERY PLAN"] for row in await rows.db.write(lambda tx: tx.all("EXPLAIN " + text)))
    joins, has_conditions, _ = plan.partition("SubPlan")
    assert has_conditions
    assert not re.search("Anti|Semi|Hash|Merge", joins), plan
    assert re.search("Index (Only )?Scan using jobs_queue_of_module on jobs head", plan), plan
