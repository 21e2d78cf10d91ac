"""The claim is decided by one SQL statement, for speed; it says what the pure function says, whatever the rows are."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings

from terracrew.api.jobs import Job, JobStatus
from terracrew.server.db import Database, Tx
from terracrew.server.jobs import store
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.claim_store import Claimant, ClaimRequest
from terracrew.server.jobs.attempts.claims import ClaimGroup
from tests.stateful.claim_cases import CASES, Case, build, expected
from tests.stateful.server_under_test import KEYS
from tests.thoroughness import examples


class _Undo(Exception):
    def __init__(self, won: bool, job: Job) -> None:
        self.won, self.job = won, job


async def claimed(db: Database, case: Case) -> tuple[bool, Job]:
    """What the statement does, and the job after it."""

    async def work(tx: Tx) -> None:
        await build(tx, case)
        offered = ClaimRequest(Claimant("job", case.asked, "mine", "one", case.asked_epoch), claims.make_credentials())
        (won,) = await ClaimGroup(KEYS, "online").work(tx, [offered])
        raise _Undo(won is not None, await store.get(tx, "job"))

    with pytest.raises(_Undo) as undone:
        await db.write(work)
    return undone.value.won, undone.value.job


@pytest.mark.feature("S2.claim")
def test_the_claim_statement_wins_exactly_when_the_decision_says_so(
    opened: tuple[asyncio.AbstractEventLoop, Database],
) -> None:
    loop, db = opened
    outcomes = {True: 0, False: 0}

    @settings(
        max_examples=examples(400),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(CASES)
    def same(case: Case) -> None:
        won, job = loop.run_until_complete(claimed(db, case))
        assert won == expected(case)
        if won:
            assert (job.status, job.runner_id, job.instance_id) == (JobStatus.CLAIMED, "mine", "one")
        else:
            assert (job.status, job.attempt) == (case.status, case.attempt)
        outcomes[won] += 1

    same()
    assert min(outcomes.values()) >= examples(80), f"it is no test if one of the two never comes: {outcomes}"
