"""The queued jobs that a runner may take are found by its modules if it has few, and otherwise in the order of the queue."""

from typing import Any

import pytest

from terracrew.server.db.sqlite.database import SqliteDatabase
from terracrew.server.jobs import runner_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM
from tests.builders.job_rows import JobRows, change_jobs
from tests.server.hub.statement_counts import RecordingTx

pytestmark = pytest.mark.feature("S1.assigned")


async def test_both_ways_find_the_same_jobs_in_the_same_order(rows: JobRows, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of a runner read 10,000 queued jobs to find the few of its own group: 80 ms."""
    network = await rows.group("network")
    core = await rows.group("network/core", network)
    own = [await rows.module("network/a", network), await rows.module("network/core/b", core)]
    runner = await rows.runner(assigned=False)
    for place, kind, path in ((network, "group", "network"), (own[1], "module", "network/core/b")):
        await rows.insert("assignments", runner_id=runner.runner_id, place_id=place, kind=kind, path=path)
    first, second = [await rows.job(each) for each in own]
    await rows.job(await rows.module("elsewhere"))
    await change_jobs(rows.db, second, priority=5)

    async def found() -> list[str]:
        return await rows.db.read(
            lambda tx: runner_reads.waiting(tx, rows.organization, everything, runner.runner_id, 10)
        )

    everything = await rows.db.read(lambda tx: authorize.visible(tx, SYSTEM, Verb.JOB_READ))
    assert await found() == [second, first]
    monkeypatch.setattr(runner_reads, "MAX_OWN_MODULES", 1)
    assert await found() == [second, first]
    await runner.share()
    assert len(await found()) == 3, "a shared runner serves every module"


async def test_sqlite_finds_the_waiting_jobs_of_few_modules_by_these_modules(rows: JobRows) -> None:
    """It read all jobs of the organization for each of the modules: the page of a runner took 9 seconds with 200,000 jobs."""
    if not isinstance(rows.db, SqliteDatabase):
        pytest.skip("PostgreSQL shows its plans in another way")
    said: list[tuple[Any, dict[str, Any]]] = []
    everything = await rows.db.read(lambda tx: authorize.visible(tx, SYSTEM, Verb.JOB_READ))

    async def read(tx: Any) -> list[str]:
        recording: Any = RecordingTx(tx, said)
        return await runner_reads.waiting(recording, rows.organization, everything, "rnr", 5)

    await rows.db.read(read)
    sql, params = said[-1]
    plan = await rows.db.read(lambda tx: tx.all("EXPLAIN QUERY PLAN " + sql, **params))
    assert any("jobs_open_of_module" in row["detail"] for row in plan), plan
