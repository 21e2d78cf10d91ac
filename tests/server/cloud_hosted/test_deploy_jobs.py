"""A deployment counts once an instance has said hello, a failed one leaves nothing, and a removal waits for the jobs of its runner."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from terracrew import ids
from terracrew.fleet.messages import DeployWork, DestroyWork, RunJob
from terracrew.server.app import cloud_facts, fleet_handlers
from terracrew.server.cloud_hosted import deploy_jobs, destroy_jobs, starting
from terracrew.server.cloud_identities import service as identities
from terracrew.server.cloud_identities.model import NewIdentity
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.deployments.model import CloudDeployment, CloudInstance
from terracrew.server.fleet_jobs import reads as fleet_reads
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.fleet_jobs.loop import FleetJobs
from terracrew.testing.job_rows import Instance, JobRows
from tests.server.application import Application
from tests.server.cloud_hosted.simulated_cloud import SimulatedCloud
from tests.server.fleet_jobs.simulated_fleet import PlayedRunner

FACTS = {"cluster": "arn:cluster", "task_definition": "arn:definition:1"}
RUNNER = "/api/v1/runners/burst"
pytestmark = pytest.mark.feature("W2.deploy", "W5.destroy")


@dataclass
class Fleet:
    """A server whose fleet process the test plays."""

    application: Application
    process: PlayedRunner
    cloud: SimulatedCloud
    rows: JobRows

    async def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self.application.admin.made(path, body)

    async def deployment(self, runner_id: str) -> CloudDeployment | None:
        return await self.application.server.db.read(lambda tx: store.get(tx, runner_id))

    async def ended(self, made: dict[str, Any]) -> str:
        """Wait until a job has ended, and return its status and error."""
        db, who = self.application.server.db, self.application.admin.principal
        async with asyncio.timeout(20):
            while not (job := await db.read(lambda tx: fleet_jobs.find(tx, who, made["job"]["id"]))).is_terminal:
                await asyncio.sleep(0.02)
        return f"{job.status} {job.error}".strip()

    async def started(self, made: dict[str, Any]) -> str:
        """Wait until the cloud was asked for the first instance, and return its name."""
        async with asyncio.timeout(20):
            while not self.cloud.started:
                await asyncio.sleep(0.02)
        return self.cloud.started[-1]

    async def hello(self, runner_id: str, name: str) -> Instance:
        return await self.rows.instance_of(runner_id, name=name)

    async def steps(self, made: dict[str, Any]) -> dict[str, str]:
        job = made["job"]
        found = await self.application.server.db.read(lambda tx: fleet_reads.steps(tx, job["id"], 1))
        return {each.name: each.status for each in found}

    async def cancel(self, made: dict[str, Any]) -> None:
        db, who = self.application.server.db, self.application.admin.principal
        handlers = fleet_handlers(self.application.server.settings, self.application.server.keys, self.cloud)
        await db.write(lambda tx: fleet_jobs.cancel(tx, who, made["job"]["id"], handlers))


@pytest.fixture
async def fleet(application: Application, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    monkeypatch.setattr(deploy_jobs, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(deploy_jobs, "WATCH_SECONDS", 0.05)
    server = application.server
    role = "arn:aws:iam::123456789012:role/terracrew"
    wanted = NewIdentity(name="aws", role_arn=role, region="eu-central-1")
    await identities.create(server.db, application.admin.principal, wanted)
    process, cloud = PlayedRunner(), SimulatedCloud()
    loop = FleetJobs(server.db, server.id, process, fleet_handlers(server.settings, server.keys, cloud))
    running = asyncio.create_task(loop.run())
    rows = await JobRows.of_organization(server.db, server.organization_id)
    yield Fleet(application, process, cloud, rows)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def deploy(fleet: Fleet) -> tuple[dict[str, Any], RunJob]:
    body = {"name": "burst", "identity": "aws", "settings": {"image": "registry.example.com/runner:1"}}
    made = await fleet.ask("/api/v1/runners/deploy", body)
    return made, await fleet.process.given(1)


async def deployed(fleet: Fleet) -> tuple[dict[str, Any], Instance]:
    made, job = await deploy(fleet)
    fleet.process.end(job, **FACTS)
    instance = await fleet.hello(made["runner"]["id"], await fleet.started(made))
    assert await fleet.ended(made) == "SUCCEEDED"
    return made, instance


async def test_a_deployment_succeeds_with_the_hello_of_its_first_instance(fleet: Fleet) -> None:
    made, job = await deploy(fleet)
    runner_id = made["runner"]["id"]
    assert isinstance(job.work, DeployWork)
    assert job.work.worker_token.startswith("tcw_")
    fleet.process.end(job, **FACTS)
    name = await fleet.started(made)
    before = await fleet.deployment(runner_id)
    assert before is not None
    assert before.status == "new", "nothing is proven yet"
    await fleet.hello(runner_id, name)
    assert await fleet.ended(made) == "SUCCEEDED"
    after = await fleet.deployment(runner_id)
    assert after is not None
    assert (after.status, after.facts) == ("deployed", FACTS)
    assert await fleet.steps(made) == {"first_instance": "done", "hello": "done"}
    shown = (await fleet.application.admin.get(RUNNER)).json()
    assert shown["has_worker_token"]


@pytest.mark.parametrize("ends", ["refused", "ended", "canceled"])
async def test_a_first_instance_that_proves_nothing_is_unwound(fleet: Fleet, ends: str) -> None:
    made, job = await deploy(fleet)
    if ends == "refused":
        fleet.cloud.refusal = ("quota", "the vCPU quota is 0: ask AWS to raise L-3032A538")
    fleet.process.end(job, **FACTS)
    if ends != "refused":
        name = await fleet.started(made)
    if ends == "ended":
        fleet.cloud.tasks[name] = msgspec.structs.replace(
            fleet.cloud.tasks[name],
            phase="ended",
            words="CannotPullContainerError: no such image",
            exit_code=1,
            last_lines=["Traceback", "no server at https://x"],
        )
    if ends == "canceled":
        await fleet.cancel(made)
    undone = await fleet.process.given(2)
    assert isinstance(undone.work, DestroyWork)
    assert undone.work.deployment.facts == FACTS, "it is told what was made"
    fleet.process.end(undone)
    words = {
        "refused": "FAILED the first instance could not be started: the vCPU quota is 0: ask AWS to raise L-3032A538",
        "ended": "FAILED the first instance ended before it said hello: CannotPullContainerError: no such image (exit code 1)",
        "canceled": "CANCELED",
    }
    assert (await fleet.ended(made)).startswith(words[ends])
    after = await fleet.deployment(made["runner"]["id"])
    assert after is not None
    assert (after.status, after.facts) == ("failed", {})
    if ends != "refused":
        assert fleet.cloud.stopped == [name], "nothing is left that costs money"


async def test_another_attempt_finds_the_instance_of_the_first_one(fleet: Fleet) -> None:
    """The first instance has the token of the secret store, so a second attempt must not make another."""
    made, first = await deploy(fleet)
    fleet.process.crash(first)
    second = await fleet.process.given(2)
    assert second.attempt == 2
    assert second.work == first.work
    fleet.process.end(second, **FACTS)
    await fleet.hello(made["runner"]["id"], await fleet.started(made))
    assert await fleet.ended(made) == "SUCCEEDED"


async def test_a_first_instance_that_has_left_before_the_next_attempt_has_proven_it(fleet: Fleet) -> None:
    """A server was lost after the hello. When the next attempt has found everything again, the instance had nothing to do and left."""
    made, first = await deploy(fleet)
    runner_id, db = made["runner"]["id"], fleet.application.server.db
    fleet.process.crash(first)
    second = await fleet.process.given(2)
    job = await db.read(lambda tx: fleet_jobs.find(tx, fleet.application.admin.principal, made["job"]["id"]))
    name = deploy_jobs.proof_name(job)

    async def has_left(tx: Tx) -> None:
        now = store.moment(tx)
        left = CloudInstance(id=ids.new("cin"), runner_id=runner_id, name=name, epoch=0, wanted_at=now, hello_at=now)
        await store.insert_instances(tx, [left.to("ended", now, "it had nothing to do, and left")])

    await db.write(has_left)
    fleet.process.end(second, **FACTS)
    assert await fleet.ended(made) == "SUCCEEDED"
    assert not fleet.cloud.started, "no second one is started"


async def test_a_cancel_does_not_stop_a_first_instance_that_has_just_said_hello(fleet: Fleet) -> None:
    """From its hello on it is given jobs, like any other instance."""
    await deployed(fleet)
    again = await fleet.ask(f"{RUNNER}/deploy", {"log_days": 7})
    job = await fleet.process.given(2)

    async def canceled_and_says_hello() -> None:
        fleet.cloud.on_watch = None
        await fleet.cancel(again)
        seen = fleet.process.renewals
        while fleet.process.renewals < seen + 2:  # with each of them, the attempt is told that it was canceled
            fleet.application.server.db.wake_here("fleet", "")
            await asyncio.sleep(0.01)
        instance = await fleet.hello(again["runner"]["id"], fleet.cloud.started[-1])
        await instance.claimed(await fleet.rows.job(await fleet.rows.module()))

    fleet.cloud.on_watch = canceled_and_says_hello
    fleet.process.end(job, cluster="arn:cluster", task_definition="arn:definition:2")
    assert await fleet.ended(again) == "SUCCEEDED"
    assert fleet.cloud.stopped == []


async def test_a_first_deployment_that_cannot_be_proven_for_any_reason_is_unwound(fleet: Fleet) -> None:
    made, job = await deploy(fleet)
    fleet.cloud.is_away = True
    fleet.process.end(job, **FACTS)
    undone = await fleet.process.given(2)
    assert isinstance(undone.work, DestroyWork)
    fleet.process.end(undone)
    assert (await fleet.ended(made)).startswith("FAILED the cloud is away")


async def test_a_failed_update_leaves_the_deployment_as_it_was(fleet: Fleet) -> None:
    first, _ = await deployed(fleet)
    fleet.cloud.refusal = ("capacity", "there is no capacity")
    again = await fleet.ask(f"{RUNNER}/deploy", {"capacity": 2})
    assert again["job"]["type"] == "UPDATE_WORKER"
    job = await fleet.process.given(2)
    assert isinstance(job.work, DeployWork)
    assert job.work.worker_token == "", "instances that run keep their token"
    fleet.process.end(job, cluster="arn:cluster", task_definition="arn:definition:2")
    assert (await fleet.ended(again)).startswith("FAILED the first instance could not be started")
    after = await fleet.deployment(first["runner"]["id"])
    assert after is not None
    assert (after.status, after.facts) == ("deployed", FACTS)
    assert after.settings.capacity == 1, "and the next start is made with the settings that work"
    assert (await fleet.application.admin.get(RUNNER)).json()["max_jobs"] == 1


async def test_a_stolen_token_is_replaced_by_an_update(fleet: Fleet) -> None:
    await deployed(fleet)
    first = fleet.process.jobs[0].work
    await fleet.ask(f"{RUNNER}/deploy", {"new_token": True})
    work = (await fleet.process.given(2)).work
    assert isinstance(first, DeployWork)
    assert isinstance(work, DeployWork)
    assert work.worker_token.startswith("tcw_")
    assert work.worker_token != first.worker_token


async def test_a_removal_waits_for_jobs_and_takes_the_record_with_it(fleet: Fleet) -> None:
    made, instance = await deployed(fleet)
    runner_id = made["runner"]["id"]
    held = await instance.claimed(await fleet.rows.job(await fleet.rows.module()))
    gone = await fleet.ask(f"{RUNNER}/destroy", {})
    await until(lambda: fleet.steps(gone), {"drain": "running"})
    assert len(fleet.process.jobs) == 1, "nothing is removed while it has a job"
    await fleet.rows.gone(held)
    job = await fleet.process.given(2)
    assert isinstance(job.work, DestroyWork)
    fleet.process.end(job)
    assert await fleet.ended(gone) == "SUCCEEDED"
    assert (await fleet.application.admin.get(RUNNER)).status_code == 404
    assert await fleet.deployment(runner_id) is None


async def test_a_removal_waits_for_the_answer_of_the_cloud_that_starts_an_instance(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance that started after the removal had listed them would be left, and cost money."""
    monkeypatch.setattr(destroy_jobs, "LOOK_SECONDS", 0.02)
    made, _ = await deployed(fleet)
    runner_id, db = made["runner"]["id"], fleet.application.server.db
    wanted = await db.write(lambda tx: wanted_one(tx, runner_id))
    gone = await fleet.ask(f"{RUNNER}/destroy", {"force": True})
    await until(lambda: fleet.steps(gone), {"drain": "running"})
    await asyncio.sleep(0.2)
    assert len(fleet.process.jobs) == 1, "nothing is removed before the cloud has answered"
    assert await db.write(lambda tx: starting.take_unanswered(tx, runner_id)) == []
    await starting.ask(db, fleet.cloud, cloud_facts(fleet.application.server.settings), runner_id, wanted)
    assert len(fleet.cloud.started) == 1, "nothing is started behind the removal"
    assert isinstance((await fleet.process.given(2)).work, DestroyWork)


async def wanted_one(tx: Tx, runner_id: str) -> list[CloudInstance]:
    """Decide that an instance is started; the cloud was not asked yet."""
    held = await store.hold(tx, runner_id)
    assert held is not None
    return await starting.want(tx, held, 1)


async def test_a_cancel_before_anything_was_removed_takes_the_removal_back(fleet: Fleet) -> None:
    made, instance = await deployed(fleet)
    await instance.claimed(await fleet.rows.job(await fleet.rows.module()))
    gone = await fleet.ask(f"{RUNNER}/destroy", {})
    await until(lambda: fleet.steps(gone), {"drain": "running"})
    await fleet.cancel(gone)
    assert (await fleet.ended(gone)).startswith("CANCELED")
    after = await fleet.deployment(made["runner"]["id"])
    assert after is not None
    assert (after.status, after.facts) == ("deployed", FACTS)
    assert not (await fleet.application.admin.get(RUNNER)).json()["is_draining"]


async def test_a_removal_that_waits_for_a_deployment_can_be_taken_back(fleet: Fleet) -> None:
    made, job = await deploy(fleet)
    gone = await fleet.ask(f"{RUNNER}/destroy", {})
    await fleet.cancel(gone)
    fleet.process.end(job, **FACTS)
    await fleet.hello(made["runner"]["id"], await fleet.started(made))
    assert await fleet.ended(made) == "SUCCEEDED"
    after = await fleet.deployment(made["runner"]["id"])
    assert after is not None
    assert (after.status, after.facts) == ("deployed", FACTS)
    assert not (await fleet.application.admin.get(RUNNER)).json()["is_draining"], "it would never be woken"


async def test_a_canceled_removal_leaves_a_drain_that_somebody_had_begun(fleet: Fleet) -> None:
    _, instance = await deployed(fleet)
    await instance.claimed(await fleet.rows.job(await fleet.rows.module()))
    assert (await fleet.application.admin.post(f"{RUNNER}/drain", json={})).status_code == 200
    gone = await fleet.ask(f"{RUNNER}/destroy", {})
    await until(lambda: fleet.steps(gone), {"drain": "running"})
    await fleet.cancel(gone)
    assert (await fleet.ended(gone)).startswith("CANCELED")
    assert (await fleet.application.admin.get(RUNNER)).json()["is_draining"]


async def test_a_removal_that_the_cloud_refuses_keeps_the_record(fleet: Fleet) -> None:
    await deployed(fleet)
    gone = await fleet.ask(f"{RUNNER}/destroy", {"force": True})
    job = await fleet.process.given(2)
    fleet.process.end(job, "failed", "left: role terracrew-x, because iam:DeleteRole is not allowed")
    assert (await fleet.ended(gone)).startswith("FAILED left: role terracrew-x")
    again = await fleet.ask(f"{RUNNER}/destroy", {})
    fleet.process.end(await fleet.process.given(3))
    assert await fleet.ended(again) == "SUCCEEDED"


async def until(read: Callable[[], Any], wanted: object) -> None:
    async with asyncio.timeout(20):
        while await read() != wanted:
            await asyncio.sleep(0.02)
