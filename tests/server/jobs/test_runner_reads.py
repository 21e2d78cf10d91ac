"""The queued jobs that a runner may take are found by its modules if it has few, and otherwise in the order of the queue."""

import pytest

from terracrew.server.jobs import runner_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM
from terracrew.testing.job_rows import JobRows

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
    await rows.run("UPDATE jobs SET priority = 5 WHERE id = :id", id=second)

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
