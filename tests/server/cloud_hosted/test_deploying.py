"""Cloud-hosted runners are made, changed and removed by jobs of the fleet, and only by those who may change runners of the group."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from terracrew.api.cloud_identities import NewIdentity
from terracrew.server.cloud_identities import service as identities
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.deployments.model import CloudDeployment
from tests.server.application import Application

IMAGE = "registry.example.com/terracrew-runner:0.1.0"
NEW = {"name": "burst", "group": "payments", "identity": "aws-prod", "settings": {"image": IMAGE, "capacity": 3}}
pytestmark = pytest.mark.feature("W2.deploy", "R1.cloud")


@pytest.fixture
async def identity(application: Application) -> IdentityRecord:
    await application.admin.made("/api/v1/groups", {"path": "payments"})
    role = "arn:aws:iam::123456789012:role/terracrew"
    wanted = NewIdentity(name="aws-prod", role_arn=role, region="eu-central-1")
    return await identities.create(application.server.db, application.admin.principal, wanted)


def with_settings(**settings: Any) -> dict[str, Any]:
    return NEW | {"settings": NEW["settings"] | settings}  # type: ignore[operator]


@pytest.mark.usefixtures("identity")
async def test_a_deployment_makes_a_record_of_its_type_and_region_and_queues_a_job(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners/deploy", NEW)
    runner, job = made["runner"], made["job"]
    assert (runner["path"], runner["type"], runner["region"]) == ("payments/burst", "cloud-hosted", "eu-central-1")
    assert (runner["max_jobs"], runner["allow_multiple_instances"]) == (3, True)
    assert runner["is_assigned_to_all_modules"]
    assert not runner["has_worker_token"], "the deployment makes it"
    assert (job["type"], job["status"], job["target_id"]) == ("DEPLOY_WORKER", "QUEUED", runner["id"])
    shown = (await application.admin.get("/api/v1/runners/payments%2Fburst/deployment")).json()
    assert (shown["status"], shown["identity"], shown["settings"]["capacity"]) == ("new", "aws-prod", 3)
    assert shown["job"]["number"] == job["number"]


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (with_settings(image=""), "settings.image: name the image"),
        (with_settings(min_instances=5), "min_instances: 5 is more than max_instances"),
        (with_settings(credential="federated"), "service_account: instances that are federated"),
        (with_settings(cpu_units=1), "cpu_units"),
        (with_settings(job_role="arn:aws:iam::123456789012:role/*"), "job_role: "),
        (NEW | {"identity": "other"}, "there is no cloud identity 'other'"),
    ],
)
async def test_what_cannot_work_is_refused_before_anything_is_written(
    application: Application, wanted: dict[str, Any], words: str
) -> None:
    answer = await application.admin.post("/api/v1/runners/deploy", json=wanted)
    assert answer.status_code in (400, 404), answer.text
    assert words in answer.text
    assert await application.admin.listed("/api/v1/runners", group="payments") == []


@pytest.mark.usefixtures("identity")
async def test_another_deployment_waits_for_the_open_job(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners/deploy", NEW)
    answer = await application.admin.post("/api/v1/runners/payments%2Fburst/deploy", json={"capacity": 5})
    assert answer.status_code == 409
    assert f"job {made['job']['number']}" in answer.text
    shown = (await application.admin.get("/api/v1/runners/payments%2Fburst/deployment")).json()
    assert shown["settings"]["capacity"] == 3, "nothing is changed by a request that was refused"


@pytest.mark.usefixtures("identity")
@pytest.mark.feature("W3.scale")
async def test_a_runner_that_sleeps_is_woken_once_and_only_if_something_can_be_started(
    application: Application,
) -> None:
    made = await application.admin.made("/api/v1/runners/deploy", NEW)
    runner_id, here = made["runner"]["id"], "/api/v1/runners/payments%2Fburst"
    assert "is not deployed" in (await application.admin.post(f"{here}/wake", json={})).text

    async def change(to: Callable[[CloudDeployment], CloudDeployment]) -> None:
        async def work(tx: Tx) -> None:
            before = await store.hold(tx, runner_id)
            assert before is not None
            await store.save(tx, before, to(before))

        await application.server.db.write(work)

    now = datetime.now(UTC)
    await change(lambda it: msgspec.structs.replace(it, status="deployed"))
    await change(lambda it: it.refused("quota", "the quota is 0 vCPU", now, now + timedelta(minutes=5)))
    refused = await application.admin.post(f"{here}/wake", json={})
    assert (refused.status_code, "the quota is 0 vCPU" in refused.text) == (409, True)
    await change(CloudDeployment.accepted)
    first, second = [(await application.admin.made(f"{here}/wake", {}))["instances"] for _ in range(2)]
    assert [each["status"] for each in first] == ["wanted"]
    assert first == second, "one is coming already"
    assert first[0]["asked_at"] is None, "a loop asks for it at once"
    await application.admin.post(f"{here}/drain", json={"on": True})
    assert "takes no jobs" in (await application.admin.post(f"{here}/wake", json={})).text


@pytest.mark.usefixtures("identity")
async def test_a_removal_drains_and_cannot_be_undone_beside_its_job(application: Application) -> None:
    await application.admin.made("/api/v1/runners/deploy", NEW)
    gone = await application.admin.made("/api/v1/runners/payments%2Fburst/destroy", {})
    assert gone["runner"]["is_draining"]
    assert gone["job"]["type"] == "DESTROY_WORKER"
    for path, body, words in (
        ("/api/v1/runners/payments%2Fburst/drain", {"on": False}, "is being removed from its cloud"),
        ("/api/v1/runners/payments%2Fburst/deploy", {}, "is being removed"),
        ("/api/v1/runners/payments%2Fburst/destroy", {}, "DESTROY_WORKER of `payments/burst`) has not ended"),
    ):
        answer = await application.admin.post(path, json=body)
        assert answer.status_code == 409, answer.text
        assert words in answer.text


@pytest.mark.usefixtures("identity")
async def test_a_later_change_is_checked_like_a_new_runner(application: Application) -> None:
    await application.admin.made("/api/v1/runners/deploy", NEW)
    role = "arn:aws:iam::123456789012:role/terracrew-0123456789ab-execution"
    words = await application.admin.refused(
        "POST", "/api/v1/runners/payments%2Fburst/deploy", 400, json={"job_role": role}
    )
    assert "was made for one runner" in words


@pytest.mark.usefixtures("identity")
async def test_an_ordinary_removal_would_leave_things_in_the_account(application: Application) -> None:
    await application.admin.made("/api/v1/runners/deploy", NEW)
    answer = await application.admin.delete("/api/v1/runners/payments%2Fburst")
    assert answer.status_code == 409
    assert "terracrew runner destroy" in answer.text


@pytest.mark.usefixtures("identity")
async def test_a_new_token_is_made_where_its_instances_read_it(application: Application) -> None:
    await application.admin.made("/api/v1/runners/deploy", NEW)
    words = await application.admin.refused("POST", "/api/v1/runners/payments%2Fburst/reregister", 409)
    assert "terracrew runner redeploy --new-token" in words


async def test_a_self_hosted_runner_has_no_deployment(application: Application) -> None:
    await application.admin.made("/api/v1/runners/register", {"name": "edge"})
    for path in ("deploy", "destroy"):
        answer = await application.admin.post(f"/api/v1/runners/edge/{path}", json={})
        assert answer.status_code == 409
        assert "self-hosted" in answer.text
