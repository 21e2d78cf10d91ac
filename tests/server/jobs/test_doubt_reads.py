"""Whether a module is in doubt is asked on the event loop of SQLite, so it must not take longer for a module with many jobs."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from terracrew import ids
from terracrew.server.db.seam import Tx
from terracrew.server.db.sqlite.database import SqliteDatabase
from terracrew.server.jobs import attempt_store
from terracrew.server.jobs.attempts import reads
from tests.builders.job_rows import JobRows

JOBS = 3_000
STEPS_PER_CALL = 100
"""How many instructions of SQLite's machine one call of the handler stands for."""


async def _for(tx: Tx, module_id: str, jobs: int) -> None:
    await reads.in_doubt_for_each(tx, [(ids.new("job"), module_id) for _ in range(jobs)])


@pytest.mark.parametrize(
    "ask",
    [
        reads.in_doubt,
        attempt_store.doubtful,
        attempt_store.end_doubt,
        partial(_for, jobs=1),
        partial(_for, jobs=2),
    ],
    ids=["in_doubt", "doubtful", "end_doubt", "for_one", "for_two"],
)
async def test_a_question_about_doubt_does_not_read_all_jobs_of_a_module(
    rows: JobRows, ask: Callable[[Tx, str], Awaitable[object]]
) -> None:
    """An apply that begins, and each view of it, took 0.1 to 0.4 s on the event loop in a module with 200,000 jobs."""
    if not isinstance(rows.db, SqliteDatabase):
        pytest.skip("PostgreSQL chooses by the numbers of rows")
    module_id = await rows.module()
    await rows.many_jobs([module_id], JOBS)
    await rows.run(
        """INSERT INTO attempts (job_id, number, runner_id, instance_id, claimed_at, hub_sha256, api_sha256, state_key)
        SELECT id, 1, 'r', 'i', 1, id, id, '' FROM jobs"""
    )
    calls: list[int] = []

    async def counted(tx: Any) -> None:
        tx.connection.set_progress_handler(lambda: calls.append(1), STEPS_PER_CALL)
        try:
            await ask(tx, module_id)
        finally:
            tx.connection.set_progress_handler(None, 0)

    await rows.db.write(counted)
    assert len(calls) * STEPS_PER_CALL < JOBS
