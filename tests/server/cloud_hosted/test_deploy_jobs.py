"""A deployment counts once an instance has passed a no-op job, and a failed one leaves nothing."""

import asyncio

import msgspec
import pytest

from terracrew import ids
from terracrew.api.deployments import CloudInstance
from terracrew.errors import Conflict, NotFound
from terracrew.fleet.messages import DeployWork, DestroyWork
from terracrew.protocol.messages import Heartbeat
from terracrew.server.app import cloud_facts
from terracrew.server.cloud_hosted import deploy_jobs, deploying
from terracrew.server.cloud_hosted.describing import describe
from terracrew.server.connections import store as instances
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.releases import service as release_service
from terracrew.server.releases import store as releases
from tests.builders.job_rows import change_instances
from tests.server.cloud_hosted.played_fleet import FACTS, RUNNER, Fleet, deploy, deployed
from tests.server.releases.release_rows import new_release, runner_image

pytestmark = pytest.mark.feature("W2.deploy")


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
    assert await fleet.steps(made) == {"first_instance": "done", "hello": "done", "trial": "done"}
    assert (after.version, after.revision) == ("0.1.0-rc.1", 1)
    shown = (await fleet.application.admin.get(RUNNER)).json()
    assert shown["has_worker_token"]


@pytest.mark.parametrize("ends", ["refused", "ended", "canceled"])
async def test_a_first_instance_that_proves_nothing_is_unwound(fleet: Fleet, ends: str) -> None:
    made, job = await deploy(fleet)
    if ends == "refused":
        fleet.cloud.refusal = ("quota", "the vCPU quota is 0: ask AWS to raise L-3032A538")
    fleet.process.end(job, **FACTS)
    name = "" if ends == "refused" else await fleet.started(made)
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
        now = tx.moment
        left = CloudInstance(id=ids.new("cin"), runner_id=runner_id, name=name, epoch=0, wanted_at=now, hello_at=now)
        await store.insert_instances(tx, [left.to("ended", now, "it had nothing to do, and left")])

    fleet.cloud.started = fleet.cloud.on_trial = [name]
    await fleet.hello(runner_id, name)
    await db.write(has_left)
    fleet.cloud.started = fleet.cloud.on_trial = []
    fleet.process.end(second, **FACTS)
    assert await fleet.ended(made) == "SUCCEEDED"
    assert not fleet.cloud.started, "no second one is started"


async def test_a_cancel_does_not_stop_a_first_instance_that_has_just_passed(fleet: Fleet) -> None:
    """From then on it is given jobs, like any other instance."""
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


@pytest.mark.feature("V3.trial")
@pytest.mark.parametrize("fails", ["failed", "silent", "ended", "old"])
async def test_a_first_instance_that_does_not_pass_its_no_op_job_changes_nothing(
    fleet: Fleet, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await deployed(fleet)
    if fails == "silent":
        monkeypatch.setattr(deploy_jobs, "MAX_TRIAL_SECONDS", 0.3)
    monkeypatch.setattr(deploy_jobs, "REPORT_SECONDS", 0.2)
    runner_id, db = first["runner"]["id"], fleet.application.server.db
    again = await fleet.ask(f"{RUNNER}/deploy", {"capacity": 2})
    fleet.process.end(await fleet.process.given(2), cluster="arn:cluster", task_definition="arn:definition:2")
    async with asyncio.timeout(20):
        while len(fleet.cloud.started) < 2:
            await asyncio.sleep(0.02)
    name = fleet.cloud.started[-1]
    instance = await fleet.hello(
        runner_id, name, passes=False if fails == "failed" else None, is_on_trial=fails != "old"
    )
    if fails == "ended":
        fleet.cloud.change(name, phase="ended", words="Essential container in task exited", exit_code=1)
    words = {
        "failed": "the first instance did not prove itself: OpenTofu 1.12.0 did not run",
        "silent": "the first instance did not prove itself: it did not report within 0 minutes how its no-op job ended",
        "ended": "the first instance ended before it passed its no-op job: Essential container in task exited (exit code 1)",
        "old": "the first instance did not prove itself: it said hello without a trial",
    }
    assert (await fleet.ended(again)).startswith(f"FAILED {words[fails]}")
    assert (await fleet.steps(again))["trial"] == "failed"
    after = await fleet.deployment(runner_id)
    assert after is not None
    assert (after.status, after.facts, after.settings.capacity, after.revision) == ("deployed", FACTS, 1, 1)
    assert fleet.cloud.stopped == ([] if fails == "old" else [name]), "one without a trial may have a job"
    await change_instances(fleet.rows.db, instance.id, is_on_trial=False)
    await db.write(lambda tx: instances.set_reported(tx, runner_id, instance.id, 1, Heartbeat("x", False, [])))
    job_id = await fleet.rows.job(await fleet.rows.module())
    assert await instance.claim(job_id) is None, "it gets no job, even if it says now that it takes some"


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


@pytest.mark.feature("V3.update")
async def test_an_update_deploys_the_image_of_the_release_and_retires_older_instances(fleet: Fleet) -> None:
    default, version = "registry.example.com/runner:{version}", "0.1.0-rc.2"
    first, old = await deployed(fleet)
    runner_id, db, who = first["runner"]["id"], fleet.application.server.db, fleet.application.admin.principal

    async def use_default_image(tx: Tx) -> None:
        before = await store.hold(tx, runner_id)
        assert before is not None
        settings = msgspec.structs.replace(before.settings, image="")
        await store.save(tx, before, msgspec.structs.replace(before, settings=settings))

    await db.write(use_default_image)
    await db.write(lambda tx: releases.insert(tx, new_release(version, artifacts=[runner_image(version)])))
    await db.write(lambda tx: releases.insert(tx, new_release("0.1.0-rc.3")))
    with pytest.raises(NotFound, match=r"0\.1\.0-rc\.9"):
        await db.write(lambda tx: deploying.update(tx, who, runner_id, "0.1.0-rc.9", default))
    with pytest.raises(Conflict, match=r"there is no image of 0\.1\.0-rc\.3"):
        await db.write(lambda tx: deploying.update(tx, who, runner_id, "0.1.0-rc.3", "registry.example.com/runner:1"))
    for number, wanted, said, image in (
        (2, version, "0.1.0-rc.1", runner_image(version).reference),
        (3, version, version, runner_image(version).reference),
        (4, "0.1.0-rc.3", "0.1.0-rc.3", "registry.example.com/runner:0.1.0-rc.3"),
    ):
        queued = await db.write(lambda tx, wanted=wanted: deploying.update(tx, who, runner_id, wanted, default))
        made = {"job": {"id": queued.id}}
        job = await fleet.process.given(number)
        assert isinstance(job.work, DeployWork)
        assert (job.work.deployment.settings.image, job.work.deployment.version) == (image, wanted)
        fleet.process.end(job, cluster="arn:cluster", task_definition=f"arn:definition:{number}")
        async with asyncio.timeout(20):
            while len(fleet.cloud.started) < number:
                await asyncio.sleep(0.02)
        fleet.version = said
        young = await fleet.hello(runner_id, fleet.cloud.started[-1], passes=None if said != wanted else True)
        ended, after = await fleet.ended(made), await fleet.deployment(runner_id)
        assert after is not None
        if said != wanted:
            assert "its image has Terracrew 0.1.0-rc.1, and not 0.1.0-rc.2" in ended
            assert (after.version, after.facts, after.revision) == ("0.1.0-rc.1", FACTS, 1)
            continue
        assert ended == "SUCCEEDED"
        assert (after.version, after.image, after.settings.image) == (wanted, image, "")
        assert await old.claim(await fleet.rows.job(await fleet.rows.module())) is None
        found = await db.read(lambda tx: describe(tx, runner_id, cloud_facts(fleet.application.server.settings)))
        assert found is not None
        assert found.deployment.settings.image == image, "instances that are started later have it, too"
        old = young


@pytest.mark.feature("V3.update")
@pytest.mark.parametrize("is_claimed", [False, True])
async def test_a_release_that_is_withdrawn_before_an_instance_of_it_runs_is_not_deployed(
    fleet: Fleet, is_claimed: bool
) -> None:
    first, _ = await deployed(fleet)
    runner_id, db, who = first["runner"]["id"], fleet.application.server.db, fleet.application.admin.principal

    async def queue(tx: Tx) -> str:
        before = await store.hold(tx, runner_id)
        assert before is not None
        settings = msgspec.structs.replace(before.settings, image="")
        await store.save(tx, before, msgspec.structs.replace(before, settings=settings))
        await releases.insert(tx, new_release("0.1.0-rc.2"))
        job = await deploying.update(tx, who, runner_id, "0.1.0-rc.2", "registry.example.com/runner:{version}")
        if not is_claimed:
            await release_service.withdraw(tx, who, "0.1.0-rc.2", "it loses logs")
        return job.id

    queued = await db.write(queue)
    if is_claimed:
        job = await fleet.process.given(2)
        await db.write(lambda tx: release_service.withdraw(tx, who, "0.1.0-rc.2", "it loses logs"))
        fleet.process.end(job, cluster="arn:cluster", task_definition="arn:definition:2")
    ended = await fleet.ended({"job": {"id": queued}})
    assert ended == "FAILED the release 0.1.0-rc.2 was withdrawn: it loses logs"
    after = await fleet.deployment(runner_id)
    assert after is not None
    assert (after.status, after.facts, after.version) == ("deployed", FACTS, "0.1.0-rc.1")
    assert len(fleet.cloud.started) == 1


async def test_an_image_that_people_chose_is_theirs_to_update(fleet: Fleet) -> None:
    first, _ = await deployed(fleet)
    db, who = fleet.application.server.db, fleet.application.admin.principal
    await db.write(lambda tx: releases.insert(tx, new_release("0.1.0-rc.2")))
    with pytest.raises(Conflict, match="`burst` is updated by hand: its image is your own"):
        await db.write(lambda tx: deploying.update(tx, who, first["runner"]["id"], "0.1.0-rc.2", "x:{version}"))


async def test_a_stolen_token_is_replaced_by_an_update(fleet: Fleet) -> None:
    await deployed(fleet)
    first = fleet.process.jobs[0].work
    await fleet.ask(f"{RUNNER}/deploy", {"new_token": True})
    work = (await fleet.process.given(2)).work
    assert isinstance(first, DeployWork)
    assert isinstance(work, DeployWork)
    assert work.worker_token.startswith("tcw_")
    assert work.worker_token != first.worker_token
