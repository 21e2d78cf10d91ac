"""People deploy a runner in a cloud account on a page, follow the job, change, wake and remove it; what is wrong stands at its field."""

import re
from datetime import timedelta

import pytest

from terracrew.api.cloud_identities import NewIdentity
from terracrew.api.deployments import DeploymentSettings
from terracrew.api.fleet_jobs import FleetJobStatus
from terracrew.server.cloud_identities import service as identities
from terracrew.server.dashboard.runners import deploy
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.deployments.model import CloudDeployment
from tests.server.application import Application, on_one
from tests.server.dashboard.company import deployed as made
from tests.server.dashboard.visitor import Visitor, logged_in

FORM = {
    "name": "burst",
    "group": "payments",
    "identity": "aws-prod",
    "size": "1024/2048",
    "architecture": "x86_64",
    "has_public_address": "true",
    "max_instances": "4",
    "idle_minutes": "5",
    "image": "registry.example.com/terracrew-runner:1",
    "assign": "true",
}
HERE = "/dashboard/runners"
pytestmark = pytest.mark.feature("W2.deploy", "U3.deploy")


@pytest.fixture
async def someone(application: Application) -> Visitor:
    await application.admin.made("/api/v1/groups", {"path": "payments"})
    role = "arn:aws:iam::123456789012:role/terracrew"
    wanted = NewIdentity(name="aws-prod", role_arn=role, region="eu-central-1")
    await identities.create(application.server.db, application.admin.principal, wanted)
    visitor = await logged_in(application)
    await visitor.see(f"{HERE}/deploy")
    return visitor


async def deployed(application: Application, someone: Visitor) -> str:
    """Deploy a runner on the page, and note that its job has made it. Returns its id."""
    answer = await someone.submit(f"{HERE}/deploy", **FORM)
    assert answer.status_code == 303, answer.text
    runner_id = answer.headers["location"].split("/")[3]
    await made.deploy(application.server.db, runner_id)
    return runner_id


async def test_without_an_identity_the_page_says_what_comes_first(application: Application) -> None:
    shown = await (await logged_in(application)).see(f"{HERE}/deploy")
    assert "No cloud identity yet" in shown
    assert "/dashboard/cloud-identities/create" in shown


async def test_a_runner_is_deployed_on_the_page_and_its_job_is_followed_there(
    application: Application, someone: Visitor
) -> None:
    shown = await someone.see(f"{HERE}/deploy?group=payments")
    assert "aws-prod (123456789012, eu-central-1)" in shown
    assert re.search(r"about \$0\.06\d an hour", shown), "the price of one instance is not known"
    answer = await someone.submit(f"{HERE}/deploy", **FORM)
    assert answer.status_code == 303
    page = answer.headers["location"]
    runner = (await application.admin.get("/api/v1/runners/payments%2Fburst")).json()
    assert page == f"{HERE}/{runner['id']}/deployment"
    assert (runner["type"], runner["region"], runner["is_assigned_to_all_modules"]) == (
        "cloud-hosted",
        "eu-central-1",
        True,
    )
    shown = await someone.see(page)
    assert "It waits for its turn" in shown
    assert "fixed while #" in shown
    assert '<fieldset class="body" disabled>' in shown
    await made.run_job(application.server.db, runner["id"])
    shown = await someone.see(page)
    assert "Cancel and remove 1 resource…" in shown
    assert made.ROLE in shown
    assert "Deploying" in await someone.see(HERE)


WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"name": "Not A Name"}, "name", "lowercase"),
    ({"max_instances": "0"}, "max-instances", "at least 1"),
    ({"max_instances": "many"}, "max-instances", "whole number"),
    ({"idle_minutes": "soon"}, "idle-minutes", "number of minutes"),
    ({"idle_minutes": "0.01"}, "idle-minutes", "between 10s and 1d"),
    ({"image": ""}, "image", "name the image"),
    ({"min_instances": "9"}, "min-instances", "more than max_instances"),
    ({"identity": "other"}, "identity", "no cloud identity"),
    ({"size": "1/1"}, "size", "at least"),
    ({"job_role": "administrator"}, "job-role", "administrator"),
    ({"subnets": "everything"}, "subnets", "everything"),
]


@on_one
async def test_what_is_wrong_stands_at_its_field_and_nothing_is_made(
    application: Application, someone: Visitor
) -> None:
    for typed, field, words in WRONG:
        answer = await someone.submit(f"{HERE}/deploy", **FORM | typed)
        assert answer.status_code == 200
        found = re.search(rf'id="{field}-wrong"[^>]*>(.*?)</span>', answer.text)
        assert found, (typed, answer.text)
        assert words in found[1].lower(), typed
    assert await application.admin.listed("/api/v1/runners", group="payments") == []


async def test_a_name_that_is_taken_stands_at_the_name(application: Application, someone: Visitor) -> None:
    await deployed(application, someone)
    answer = await someone.submit(f"{HERE}/deploy", **FORM)
    assert 'id="name-wrong"' in answer.text


async def test_the_costs_follow_what_is_typed(someone: Visitor) -> None:
    shown = [
        await _part(someone, f"{HERE}/deploy/costs?identity=aws-prod&size={size}&max_instances=2&is_spot={spot}")
        for size, spot in (("1024/2048", "false"), ("1024/2048", "true"), ("nonsense", "false"))
    ]
    prices = [re.findall(r"\$([\d.]+)", each) for each in shown]
    assert prices[0] != prices[1]
    assert all(len(each) == 3 for each in prices[:2]), prices


async def _part(someone: Visitor, path: str) -> str:
    answer = await someone.get(path, headers={"HX-Request": "true"})
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_asleep_waking_and_refused_are_told_in_the_list_and_on_the_page(
    application: Application, someone: Visitor
) -> None:
    runner_id = await deployed(application, someone)
    for page in (HERE, f"{HERE}/{runner_id}", f"{HERE}/{runner_id}/deployment"):
        shown = await someone.see(page)
        assert "Asleep" in shown, page
        assert "about 45 s" in shown, page
        assert "Offline" not in re.sub(r"<nav.*?</nav>", "", shown, flags=re.S), page
    assert (await someone.submit(f"{HERE}/{runner_id}/wake")).status_code == 303
    for page in (HERE, f"{HERE}/{runner_id}", f"{HERE}/{runner_id}/deployment"):
        assert "Waking" in await someone.see(page), page
    await application.server.db.write(lambda tx: _refuse(tx, runner_id))
    for page in (f"{HERE}/{runner_id}", f"{HERE}/{runner_id}/deployment"):
        assert "The quota is 0 vCPU &lt;b&gt;" in await someone.see(page), page
    assert "cannot wake now" in await someone.see(HERE)


async def _refuse(tx: Tx, runner_id: str) -> None:
    for each in await store.live_instances(tx, runner_id):
        await store.save_instance(tx, each, each.to("ended", tx.moment, "refused"))
    before = await store.hold(tx, runner_id)
    assert before is not None
    now = tx.moment
    later = now + timedelta(minutes=5)
    await store.save(tx, before, before.refused("quota", "the quota is 0 vCPU <b>", now, later))


async def test_settings_are_changed_and_the_runner_is_deployed_again(
    application: Application, someone: Visitor
) -> None:
    runner_id = await deployed(application, someone)
    page = f"{HERE}/{runner_id}/deployment"
    wrong = await someone.submit(page, **FORM | {"max_instances": "0"})
    assert 'id="max-instances-wrong"' in wrong.text
    assert (await someone.submit(page, **FORM | {"max_instances": "8", "is_spot": "true"})).status_code == 303
    shown = (await application.admin.get(f"/api/v1/runners/{runner_id}/deployment")).json()
    assert (shown["settings"]["max_instances"], shown["settings"]["is_spot"]) == (8, True)
    assert shown["job"]["type"] == "UPDATE_WORKER"
    again = await someone.submit(page, **FORM)
    assert "has not ended" in again.text


async def test_a_removal_says_what_it_removes_and_is_followed(application: Application, someone: Visitor) -> None:
    runner_id = await deployed(application, someone)
    shown = await someone.see(f"{HERE}/{runner_id}/destroy")
    assert "1 resource that was made for it in aws-prod is removed, and nothing else" in shown
    assert "Remove with 1 resource" in shown
    answer = await someone.submit(f"{HERE}/{runner_id}/destroy")
    assert answer.status_code == 303
    shown = await someone.see(answer.headers["location"])
    assert "Removal" in shown
    again = await someone.submit(f"{HERE}/{runner_id}/destroy")
    assert (again.status_code, "has not ended" in again.text) == (409, True)


async def test_a_deployment_that_failed_says_why_and_can_be_repeated(
    application: Application, someone: Visitor
) -> None:
    answer = await someone.submit(f"{HERE}/deploy", **FORM)
    runner_id = answer.headers["location"].split("/")[3]
    await made.run_job(application.server.db, runner_id)
    await made.end_job(application.server.db, runner_id, FleetJobStatus.FAILED, "iam:PassRole is missing")
    await made.change(application.server.db, runner_id, status="failed")
    for page in (f"{HERE}/{runner_id}", f"{HERE}/{runner_id}/deployment"):
        assert "iam:PassRole is missing" in (await someone.see(page)).replace("Iam:", "iam:"), page
    assert "Not deployed" in await someone.see(HERE)
    assert "Deploy again" in await someone.see(f"{HERE}/{runner_id}/deployment")


def test_a_form_shows_the_settings_that_it_was_made_from() -> None:
    settings = DeploymentSettings(cpu_units=3072, memory_mb=7168, idle_seconds=90, subnets=["a", "b"], is_spot=True)
    form = deploy.to_form(settings)
    assert deploy.from_form(form) == settings
    assert ("3072/7168", "3 vCPU / 7 GB") in deploy.sizes(form["size"])


def test_a_cluster_has_no_price() -> None:
    assert deploy.costs_of("kubernetes", "", DeploymentSettings()).awake_an_hour is None
    assert CloudDeployment(runner_id="r", identity_id="i", settings=DeploymentSettings()).refusal_words == ""
