"""What people decide about a runner reaches its connections: a new token, the drain, the removal, another service account."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from terracrew.errors import Removed, Unauthenticated
from terracrew.protocol import messages
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.jobs.reaper import Reaper
from terracrew.server.runners.removal.service import Removals
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, delivery
from tests.builders.job_rows import JobRows, begin_code, change_runners
from tests.server.application import Application
from tests.server.hub.hub_clients import Client, Hub, ref_of, refusal


@pytest.fixture(autouse=True)
async def notify(hub: Hub) -> AsyncIterator[None]:
    running = asyncio.create_task(HubNotifier(hub.server.hub.runners).run())
    yield
    running.cancel()


class Managed:
    """A runner of the organization that was registered by the API."""

    def __init__(self, hub: Hub, made: dict[str, Any]) -> None:
        self.hub, self.id, self.secret = hub, str(made["id"]), str(made["worker_token"])
        self.path = f"/api/v1/runners/{self.id}"

    @property
    def app(self) -> Application:
        return self.hub.crew.app

    @asynccontextmanager
    async def connected(self, **hello: Any) -> AsyncGenerator[Client]:
        async with self.hub.connected(await self.token()) as client:
            welcome = await client.ask(self.hub.hello(runner_id=self.id, **hello))
            assert welcome["type"] == "welcome", welcome
            yield client

    async def token(self) -> str:
        client_id = f"{self.hub.server.organization_id}:{self.id}"
        return (await self.hub.server.identity.tokens.exchange(client_id, self.secret, "127.0.0.1")).access_token

    async def shown(self) -> Any:
        return (await self.app.admin.get(self.path)).json()

    async def remove(self, *, force: bool = False) -> Any:
        answer = await self.app.admin.delete(self.path, params={"force": force})
        assert answer.status_code == 200, answer.text
        return answer.json()


async def registered(hub: Hub, name: str = "own", **options: Any) -> Managed:
    return Managed(hub, await hub.crew.app.admin.made("/api/v1/runners/register", {"name": name, **options}))


@pytest.mark.feature("A6.revocation", "R5.replace")
async def test_a_new_token_ends_the_connections_of_the_old_one_and_running_jobs_continue(hub: Hub) -> None:
    own = await registered(hub)
    async with own.connected() as runner:
        granted = await runner.granted(await hub.job())
        answer = await own.app.admin.post(f"{own.path}/reregister")
        assert answer.status_code == 200, answer.text
        assert await refusal(runner) == ("unauthenticated", True)
    with pytest.raises(Unauthenticated):
        await own.token()
    own.secret = answer.json()["worker_token"]
    async with own.connected(attempts=[ref_of(granted)]):
        assert (await own.shown())["jobs"] == 1
        await hub.crew.rows.take(delivery(ref_of(granted), 1, RUNNING, DONE))
    assert (await hub.crew.rows.load(granted.spec.job_id)).status == "SUCCEEDED"


@pytest.mark.feature("R7.disable")
async def test_a_disabled_runner_connects_and_reports_and_only_its_claims_are_refused(hub: Hub) -> None:
    own = await registered(hub)
    async with own.connected() as runner:
        granted = await runner.granted(await hub.job())
        await own.app.admin.patch(own.path, json={"is_disabled": True})
        await runner.send(messages.Heartbeat("0.9.0", is_draining=False, attempts=[ref_of(granted)]))
        assert not await runner.claim(await hub.job())
        await runner.send(messages.HandBack(granted.spec.job_id, 1, "it did not start"))
        assert (await runner.get("settled"))["job_id"] == granted.spec.job_id, "what it reports counts"
        assert (await own.shown())["status"] == "ONLINE"
    async with own.connected() as again:
        await own.app.admin.patch(own.path, json={"is_disabled": False})
        await hub.until(lambda: any(not each.is_closed for each in hub.server.registry.of(own.id)))
        await again.granted(await hub.job())


@pytest.mark.feature("R7.drain", "R7.remove")
async def test_a_runner_that_is_being_removed_is_told_to_drain_and_its_process_ends_after_its_last_job(
    hub: Hub,
) -> None:
    own, removals = await registered(hub), Removals(hub.server.db)
    async with own.connected() as runner:
        granted = await runner.granted(await hub.job())
        assert [each["number"] for each in (await own.remove())["remaining"]["jobs"]] == [granted.spec.number]
        assert (await runner.get("drain"))["on"] is True
        assert not await runner.claim(await hub.job())
        assert await removals.step()
        await hub.crew.rows.take(delivery(ref_of(granted), 1, RUNNING, DONE))
        await removals.step()
        assert await refusal(runner) == ("removed", True)
    assert (await own.app.admin.get(own.path)).status_code == 404


@pytest.mark.feature("R7.drain", "R7.remove")
async def test_the_end_of_the_drain_stops_a_removal_and_the_runner_claims_again(hub: Hub) -> None:
    own = await registered(hub)
    async with own.connected() as runner:
        assert (await own.remove())["is_removed"] is False
        assert (await runner.get("drain"))["on"] is True
        await own.app.admin.post(f"{own.path}/drain", json={"on": False})
        assert (await runner.get("drain"))["on"] is False
        assert not await Removals(hub.server.db).step()
        await runner.granted(await hub.job())


@pytest.mark.feature("R7.remove")
async def test_a_claim_that_wins_while_a_removal_is_asked_for_keeps_the_record_until_its_job_has_ended(
    hub: Hub,
) -> None:
    own = await registered(hub)
    async with own.connected() as runner:
        job = await hub.job()
        is_claimed, _ = await asyncio.gather(runner.claim(job), own.remove())
        await Removals(hub.server.db).step()
        found = await own.app.admin.get(own.path)
        assert found.status_code == (200 if is_claimed else 404)
        status = await own.app.scalar("SELECT status FROM jobs WHERE id = :id", id=job)
        assert status == ("CLAIMED" if is_claimed else "QUEUED")


@pytest.mark.feature("O3.fenced", "R7.force")
async def test_after_a_forced_removal_the_executor_delivers_and_the_process_cannot_come_back(hub: Hub) -> None:
    own = await registered(hub)
    async with own.connected() as runner:
        granted = await runner.granted(await hub.job())
        await own.remove(force=True)
        assert await refusal(runner) == ("removed", True)
    with pytest.raises(Removed):
        await own.token()
    async with hub.executor(granted):
        await hub.crew.rows.take(delivery(ref_of(granted), 1, RUNNING, DONE))
    job = (await own.app.admin.get(f"/api/v1/jobs/{granted.spec.job_id}")).json()
    assert (job["status"], job["attempt"], job["runner_path"]) == ("SUCCEEDED", 1, "own")


@pytest.mark.feature("O3.doubt", "O3.requeued", "R7.force")
@pytest.mark.parametrize("has_begun", [False, True])
async def test_after_a_forced_removal_a_silent_job_is_requeued_or_leaves_its_module_in_doubt(
    hub: Hub, clock: ShiftedClock, has_begun: bool
) -> None:
    """The removal decides nothing about the job: before the change it is queued again, after it a person must look."""
    own, db = await registered(hub), hub.server.db
    job_id = await hub.job("APPLY")
    async with own.connected() as runner:
        granted = await runner.granted(job_id)
        await hub.crew.rows.take(delivery(ref_of(granted), 1, RUNNING))
        if has_begun:
            assert await begin_code(db, ref_of(granted), 0) == "begun"
        await own.remove(force=True)
        await refusal(runner)
    reaper = Reaper(db, hub.server.registry)
    for _ in range(3):  # it is silent, it counts as lost, its lease ends
        clock.advance(3600)
        hub.server.registry.pause()
        hub.server.registry.watching_since -= 3600
        await reaper.step()
    job = await hub.crew.rows.load(job_id)
    (attempt,) = await hub.crew.rows.attempts(job_id)
    assert (job.status, job.attempt) == ("QUEUED", 2)
    assert (attempt.outcome, attempt.is_in_doubt) == ("lost", has_begun)
    ref = await hub.crew.instance.start(job_id, 2)
    assert await begin_code(db, ref, 0) == ("approval" if has_begun else "begun"), "nothing is made twice"


@pytest.mark.feature("A5.one", "R6.place", "R6.serves")
async def test_a_service_account_serves_the_runner_that_names_it_until_it_is_unbound(hub: Hub) -> None:
    admin, tokens = hub.crew.app.admin, hub.server.identity.tokens
    await admin.made("/api/v1/groups", {"path": "a/b"}, parents=True)
    account = (await admin.made("/api/v1/service-accounts", {"name": "crew", "group": "a"}))["id"]
    secret = await admin.made(f"/api/v1/service-accounts/{account}/secrets", {})
    own = await admin.made("/api/v1/runners", {"name": "own", "group": "a/b", "service_account": "a/crew"})
    other = await admin.made("/api/v1/runners", {"name": "other", "group": "a/b"})
    assert own["service_account_id"] == account
    token = (await tokens.exchange(secret["client_id"], secret["client_secret"], "127.0.0.1")).access_token
    async with hub.connected(token) as stranger:
        await stranger.send(hub.hello(runner_id=other["id"]))
        assert await refusal(stranger) == ("not_found", True), "a runner that does not name the account is not served"
    rows = hub.crew.rows
    group_id = await hub.crew.app.scalar("SELECT id FROM groups WHERE path = 'a/b'")
    outside = await rows.job(await rows.module("outside"))
    async with hub.connected(token) as runner:
        assert (await runner.ask(hub.hello(runner_id=own["id"])))["type"] == "welcome"
        assert not await runner.claim(outside), "it serves only modules below its group"
        await runner.granted(await hub.job(module_id=await rows.module("a/b/m", group_id)))
        await admin.patch("/api/v1/runners/a%2Fb%2Fown", json={"service_account": None})
        assert await refusal(runner) == ("unauthenticated", True)


@pytest.mark.feature("R8.root", "R8.shared")
async def test_a_runner_of_the_organization_serves_its_whole_tree_and_a_shared_one_every_organization(hub: Hub) -> None:
    admin = hub.crew.app.admin
    await admin.made("/api/v1/groups", {"path": "a/b"}, parents=True)
    group_id = await hub.crew.app.scalar("SELECT id FROM groups WHERE path = 'a/b'")
    ours, theirs = hub.crew.rows, await JobRows.make(hub.server.db)
    foreign = await theirs.job(await theirs.module("m"))
    own = await registered(hub)
    async with own.connected() as root:
        await root.granted(await ours.job(await ours.module("top")))
        await root.granted(await ours.job(await ours.module("a/b/deep", group_id)))
        assert not await root.claim(foreign)
    # It is nearer than a shared runner, and would be waited for.
    await change_runners(ours.db, hub.crew.instance.runner_id, "own", is_disabled=True)
    async with hub.runner() as shared:
        await shared.granted(foreign)
        await shared.granted(await ours.job(await ours.module("a/b/other", group_id)))
