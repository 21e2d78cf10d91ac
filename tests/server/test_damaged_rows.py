"""A row that something else than a server has changed stops no loop: the others are handled, and the log says which row it is."""

from typing import LiteralString

import pytest

from terracrew.protocol.events import Output
from terracrew.server.db.seam import Database
from terracrew.server.group_runs.loop import GroupRuns
from terracrew.server.jobs import approvals
from terracrew.server.jobs.lost_resources.search import MAX_ATTEMPTS, LostResourceSearch
from terracrew.server.jobs.triggers import Triggers
from terracrew.server.supervise import FailedRows
from tests.builders.job_rows import change_groups, change_instances, change_jobs, change_modules, change_plans
from tests.server.hub.hub_clients import Hub
from tests.server.jobs.lost_resources.cut_short_attempts import LINES, cut_short, printed
from tests.server.jobs.waiting_jobs import Waiting
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import SOURCE
from tests.server.tree.inputs.references import apply, refer

pytestmark = pytest.mark.feature("O6.damaged")


async def change(runner: SimulatedRunner, sql: LiteralString, **params: str) -> None:
    assert await runner.server.db.write(lambda tx: tx.run(sql, **params))


async def queued(runner: SimulatedRunner) -> set[str]:
    rows = await runner.server.db.read(
        lambda tx: tx.all(
            "SELECT modules.path FROM jobs JOIN modules ON modules.id = jobs.module_id AND status = 'QUEUED'"
        )
    )
    return {row["path"] for row in rows}


async def test_a_changed_output_queues_the_modules_that_can_be_read(
    runner: SimulatedRunner, caplog: pytest.LogCaptureFixture
) -> None:
    admin, server = runner.app.admin, runner.server
    made = {
        name: (await admin.made("/api/v1/modules", {"path": name, "source": SOURCE, "triggers": "auto"}))["id"]
        for name in ("a", "b", "c")
    }
    for user in ("b", "c"):
        await refer(admin, user, "a", "id", "a")
    await apply(runner, made["a"], id=Output(1))
    await change_modules(server.db, made["b"], tags="{damaged")
    loop = Triggers(server.db, server.keys, server.settings.local_roots)
    for _ in range(3):
        assert await loop.step(), "b still waits for its turn"
    assert await queued(runner) == {"c"}
    told = [each for each in caplog.messages if made["b"] in each]
    assert len(told) == 1, "once, not in every round"
    assert "the stored module" in told[0]
    await change_modules(server.db, made["b"], tags=[])
    await Triggers(server.db, server.keys, server.settings.local_roots).step()
    assert await queued(runner) == {"b", "c"}, "nothing was forgotten"


async def test_a_run_of_a_group_with_a_damaged_row_holds_up_no_other_run(runner: SimulatedRunner) -> None:
    admin, server = runner.app.admin, runner.server
    for group in ("bad", "good"):
        await admin.made("/api/v1/groups", {"path": group})
        await admin.made("/api/v1/modules", {"path": f"{group}/web", "source": SOURCE})
        await admin.made(f"/api/v1/groups/{group}/runs", {"type": "APPLY"})
    await change_groups(server.db, "bad", limits="[")
    loop = GroupRuns(server.db, server.keys, server.settings.local_roots)
    for _ in range(2):
        await loop.step()
    assert await queued(runner) == {"good/web"}


async def test_an_overdue_plan_of_a_damaged_job_holds_up_no_other(database: Database) -> None:
    damaged, other = await Waiting.make(database), await Waiting.make(database)
    await change_plans(database, decide_by=1)
    await change_jobs(other.rows.db, damaged.id, limits="damaged")
    assert [job.id for job in await approvals.expire(database)] == [other.id]


async def test_a_queued_job_of_a_damaged_module_says_so_and_the_others_run(hub: Hub) -> None:
    db, scheduler = hub.server.db, hub.server.scheduler
    damaged, limited, other = [await hub.crew.rows.module() for _ in range(3)]
    jobs = [await hub.job(module_id=each) for each in (damaged, limited, other)]
    await change_modules(db, damaged, tags="{")
    await change_jobs(db, jobs[1], limits="{")
    async with hub.runner() as runner:
        await change_instances(db, hub.crew.instance.id, is_connected=False)  # no other runner is nearer
        await hub.until(lambda: hub.session().takes_jobs)
        await runner.send_credits(3)
        await scheduler.sweep()
        assert (await runner.get("granted"))["spec"]["job_id"] == jobs[2]
        await hub.until(lambda: hub.server.registry.withheld.is_withheld(jobs[1]))
        await scheduler.sweep()
        assert not hub.session().reserved, "neither is claimed again and again"
    for job_id in jobs[:2]:
        found = hub.server.registry.withheld.reason(job_id)
        assert found is not None
        assert found.is_damaged
        assert "cannot be read" in found.problem


async def test_twenty_damaged_logs_do_not_hold_up_the_others(runner: SimulatedRunner) -> None:
    server = runner.server
    for _ in range(MAX_ATTEMPTS):
        await cut_short(runner, printed(LINES))
    await change(
        runner,
        "UPDATE log_chunks SET data = CAST('damaged' AS bytea)"
        if server.db.kind == "postgres"
        else "UPDATE log_chunks SET data = CAST('damaged' AS blob)",
    )
    healthy = await cut_short(runner, printed(LINES))
    search = LostResourceSearch(server.db, server.objects, server.keys)
    for _ in range(2):
        await search.step()
    stored = "SELECT count(*) FROM lost_resources WHERE job_id = :id"
    assert await runner.app.scalar(stored, id=healthy.ref.job_id) == 3


def test_a_row_that_failed_is_tried_again_later_and_later() -> None:
    now = 0.0
    failed = FailedRows("test", lambda: now)
    delays: list[float] = []
    for _ in range(12):
        with failed.handling("a"):
            raise ValueError("damaged")
        assert failed.due(["a", "b"]) == {"b"}
        before = now
        while failed.due(["a"]) == set():
            now += 1.0
        delays.append(now - before)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    with failed.handling("a"):
        pass
    assert (len(failed), failed.due(["a"])) == (0, {"a"})
