"""A runner sends credits for its free slots, and is granted a job in the transaction that creates it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.postgres.transaction import PostgresTx
from terracrew.server.db.sqlite.transaction import SqliteTx
from tests.builders.job_rows import change_instances
from tests.server.hub.hub_clients import TIMEOUT_SECONDS, Client, Hub
from tests.server.metrics.counted import counted as counted_commits

pytestmark = pytest.mark.feature("S3.offers")


@asynccontextmanager
async def ready(hub: Hub, slots: int = 1) -> AsyncGenerator[Client]:
    """Connect a runner with credits to a server whose scheduler knows the queue."""
    scheduler = hub.server.scheduler
    with scheduler.freshness.watching(hub.server.db):
        async with hub.runner() as runner:
            await hub.until(lambda: hub.session().takes_jobs)
            await runner.send_credits(slots)
            assert hub.session().credits == slots
            await scheduler.sweep()
            yield runner


async def create(hub: Hub, module: str = "") -> dict[str, Any]:
    module = module or await hub.crew.rows.module()
    answer = await hub.crew.app.admin.post(f"/api/v1/modules/{module}/jobs", json={"type": "PLAN"})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_new_job_is_granted_when_it_is_created(hub: Hub) -> None:
    async with ready(hub) as runner:
        job = await create(hub)
        granted = await runner.get()
        assert (granted["type"], granted["spec"]["job_id"]) == ("granted", job["id"])
        assert (job["status"], job["instance_id"]) == ("CLAIMED", hub.session().instance_id), "the answer says so, too"
        stored = await hub.crew.rows.load(job["id"])
        assert (stored.status, stored.instance_id) == ("CLAIMED", hub.session().instance_id)
        assert hub.session().credits == 0
        assert hub.session().reported_attempts == {AttemptRef(job["id"], 1)}


MAX_STATEMENTS = 10
"""Two of them say who asks and find the module."""


async def test_a_job_is_created_claimed_and_granted_with_one_commit(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, a dispatch was two transactions."""
    said: list[str] = []

    def counted(method: Any) -> Any:
        def run(tx: Any, sql: str, *rest: Any, **params: Any) -> Any:
            if rest[1:] != ([],):  # a statement for no rows is not sent
                said.append(sql)
            return method(tx, sql, *rest, **params)

        return run

    for kind in (PostgresTx, SqliteTx):
        for name in ("all", "one", "run", "each"):
            monkeypatch.setattr(kind, name, counted(getattr(kind, name)))
    commits = hub.server.db.health.commits
    async with ready(hub, 2) as runner:
        await create(hub)
        await runner.get("granted")
        module = await hub.crew.rows.module("app")
        before = counted_commits(commits)
        said.clear()
        job = await create(hub, module)
        assert (await runner.get("granted"))["spec"]["job_id"] == job["id"]
        assert counted_commits(commits) - before == 1
        assert len(said) <= MAX_STATEMENTS, said


async def test_a_job_waits_until_there_is_a_credit_for_it(hub: Hub) -> None:
    async with ready(hub) as runner:
        first, second = await create(hub), await create(hub)
        assert (await runner.get("granted"))["spec"]["job_id"] == first["id"]
        await hub.server.scheduler.sweep()
        assert second["status"] == "QUEUED"
        assert not hub.session().reserved
        await runner.send(messages.Credits(1, received=1))
        assert (await runner.get("granted"))["spec"]["job_id"] == second["id"]
        assert hub.session().credits == 0


async def test_a_credit_that_was_withdrawn_is_not_used(hub: Hub) -> None:
    async with ready(hub) as runner:
        await runner.send_credits(0)
        assert (await create(hub))["status"] == "QUEUED"
        await hub.server.scheduler.sweep()
        assert not hub.session().reserved


async def test_credits_that_change_nothing_are_not_served(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them searched all lines for a job, so a flood of them blocked the server."""
    async with ready(hub) as runner:
        served: list[RunnerSession] = []

        def serve(*sessions: RunnerSession) -> None:
            served.extend(sessions)

        monkeypatch.setattr(hub.server.scheduler, "serve", serve)
        for slots in (1, 2, 1, 0, 0):
            await runner.send_credits(slots)
        assert served == []
        await runner.send_credits(1)
        await hub.until(lambda: served == [hub.session()])


async def test_a_job_is_granted_as_soon_as_an_instance_that_may_hang_is_heard_again(hub: Hub) -> None:
    """It waited for the next sweep, for up to five seconds."""
    async with ready(hub) as runner:
        session = hub.session()
        session.last_contact_at -= 1_000
        job = await create(hub)
        await hub.server.scheduler.sweep()
        assert (job["status"], session.reserved) == ("QUEUED", set())
        await runner.send(messages.Heartbeat("0.1.0", is_draining=False, attempts=[]))
        assert (await runner.get("granted"))["spec"]["job_id"] == job["id"]


async def test_nothing_is_claimed_for_an_instance_while_the_end_or_begin_of_its_drain_is_written(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a claim met a row that drained still, and was refused, so the job waited for the next sweep."""
    async with ready(hub) as runner:
        session, write = hub.session(), hub.server.db.write
        taking: list[bool] = []

        async def observed(work: Any) -> Any:
            taking.append(session.takes_jobs)
            return await write(work)

        monkeypatch.setattr(hub.server.db, "write", observed)
        for is_draining in (True, False):
            await runner.send(messages.Heartbeat("0.1.0", is_draining=is_draining, attempts=[]))
            await hub.until(lambda is_draining=is_draining: session.takes_jobs is not is_draining)
        assert taking == [False, False]


async def test_a_grant_whose_runner_has_just_gone_is_handed_back_and_the_job_is_queued_again(hub: Hub) -> None:
    async with ready(hub):
        session = hub.session()
        hub.server.registry.has = lambda _: False  # pyright: ignore[reportAttributeAccessIssue]  (it is gone for the sender)
        try:
            job = await create(hub)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while (stored := await hub.crew.rows.load(job["id"])).status != "QUEUED":
                    await asyncio.sleep(0.01)
        finally:
            del hub.server.registry.has
        assert stored.attempt == 2
        (attempt,) = await hub.crew.rows.attempts(job["id"])
        assert "its runner had gone" in attempt.reason
        assert session.credits == 0


async def test_a_job_that_cannot_be_granted_is_created_and_waits(hub: Hub) -> None:
    """A stored value of the instance is damaged. The request for the job is not to blame, and succeeds."""
    async with ready(hub):
        await change_instances(hub.crew.rows.db, hub.session().instance_id, engine_versions="{")
        job = await create(hub)
        assert (await hub.crew.rows.load(job["id"])).status == "QUEUED"
        assert hub.session().credits == 1
