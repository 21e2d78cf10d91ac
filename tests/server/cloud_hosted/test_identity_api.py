"""Cloud identities over HTTP: what people see of them, what to paste, and what of ours is in the account."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.model import CloudIdentity, Deployment, InstanceState, StartAnswer, StartRequest
from terracrew.errors import Unavailable
from terracrew.fleet.messages import CheckWork
from terracrew.server.cloud_hosted import reporting
from terracrew.server.cloud_hosted.connection_tests import ConnectionTestHandler
from terracrew.server.cloud_identities import store as identities
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.fleet_jobs import store as fleet_store
from tests.server.application import Application

ROLE = "arn:aws:iam::123456789012:role/crew"
AWS = {"name": "aws-prod", "role_arn": ROLE, "region": "eu-central-1"}
IMAGE = "registry.example.com/runner:1"
JOB_ROLE = "arn:aws:iam::123456789012:role/jobs"
PATH = "/api/v1/cloud-identities"
pytestmark = pytest.mark.feature("W1.identities")


class AnsweringCloud:
    """Answers what a test says is in the account."""

    def __init__(self, found: Sequence[FoundResource] = ()) -> None:
        self.resources = list(found)
        self.asked: list[CloudIdentity] = []

    async def found(self, identity: CloudIdentity) -> list[FoundResource]:
        self.asked.append(identity)
        if not self.resources:
            raise Unavailable("the fleet process has no answer")
        return self.resources

    async def start(
        self, identity: CloudIdentity, deployment: Deployment, wanted: Sequence[StartRequest]
    ) -> list[StartAnswer]:
        raise AssertionError

    async def watch(
        self, identity: CloudIdentity, deployment: Deployment, references: Sequence[str]
    ) -> list[InstanceState]:
        raise AssertionError

    async def stop(self, identity: CloudIdentity, deployment: Deployment, reference: str, reason: str) -> None:
        raise AssertionError


def resource(name: str, runner_id: str, dollars: float | None = None, job_id: str = "") -> FoundResource:
    return FoundResource(
        kind="log group",
        name=name,
        reference=f"arn:aws:logs:::{name}",
        runner_id=runner_id,
        job_id=job_id,
        made_at=datetime(2026, 9, 9, tzinfo=UTC),
        why="What its tasks print",
        dollars_a_month=dollars,
    )


async def test_an_identity_is_created_shown_changed_listed_and_deleted(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "pay"})
    made = await admin.made(PATH, AWS | {"group": "pay", "description": "production"})
    assert made["path"] == "pay/aws-prod"
    assert (made["account"], made["location"]) == ("123456789012", "account 123456789012 in eu-central-1")
    assert made["issuer"] == application.server.settings.url
    assert made["runners"] == []
    shown = (await admin.get(f"{PATH}/pay%2Faws-prod")).json()
    assert shown == made == (await admin.get(f"{PATH}/{made['id']}")).json()
    changed = (await admin.patch(f"{PATH}/{made['id']}", json={"region": "eu-west-1"})).json()
    assert changed == made | {"region": "eu-west-1", "location": "account 123456789012 in eu-west-1"}
    assert await admin.listed(PATH) == [changed]
    assert await admin.listed(PATH, usable_in="") == []
    assert [each["id"] for each in await admin.listed(PATH, usable_in="pay")] == [made["id"]]
    assert (await admin.delete(f"{PATH}/{made['id']}")).status_code == 204
    assert "there is no cloud identity" in await admin.refused("GET", f"{PATH}/{made['id']}", 404)


async def test_who_may_use_an_identity_of_a_group_above_is_not_told_the_runners_of_other_groups(
    application: Application,
) -> None:
    admin = application.admin
    await admin.made(PATH, AWS)
    for path in ("pay", "payroll"):
        await admin.made("/api/v1/groups", {"path": path})
        wanted = {"name": "burst", "group": path, "identity": "aws-prod", "settings": {"image": IMAGE}}
        await admin.made("/api/v1/runners/deploy", wanted)
    (found,) = await admin.listed(PATH, usable_in="pay")
    assert [each["path"] for each in found["runners"]] == ["pay/burst"]
    (found,) = await admin.listed(PATH)
    assert [each["path"] for each in found["runners"]] == ["pay/burst", "payroll/burst"]


@pytest.mark.parametrize("field", ["external_id", "subject", "id", "organization_id", "issuer"])
async def test_what_the_server_makes_cannot_be_sent(application: Application, field: str) -> None:
    """Who could choose the external id of somebody else would get into an account that trusts this server."""
    words = await application.admin.refused("POST", PATH, 400, json=AWS | {field: "chosen"})
    assert f"unknown field `{field}`" in words
    made = await application.admin.made(PATH, AWS)
    await application.admin.refused("PATCH", f"{PATH}/{made['id']}", 400, json={field: "chosen"})


async def test_what_to_paste_names_this_identity_alone_and_the_clusters_of_its_deployments(
    application: Application,
) -> None:
    admin = application.admin
    made = await admin.made(PATH, AWS)
    await admin.made(
        "/api/v1/runners/deploy",
        {"name": "burst", "identity": "aws-prod", "settings": {"image": IMAGE, "cluster": "shared-cluster"}},
    )
    found = (await admin.get(f"{PATH}/aws-prod/policies")).json()
    documents: dict[str, str] = {each["name"]: each["text"] for each in found["documents"]}
    assert list(documents) == ["trust", "permissions", "opentofu"]
    (statement,) = json.loads(documents["trust"])["Statement"]
    conditions: dict[str, str] = statement["Condition"]["StringEquals"]
    assert sorted(conditions.values()) == sorted([made["subject"], made["audience"]])
    allowed = json.loads(documents["permissions"])["Statement"]
    assert "shared-cluster" in documents["permissions"]
    assert "shared-cluster" in documents["opentofu"]
    assert made["subject"] in documents["opentofu"]
    assert not any(action == "*" for each in allowed for action in each["Action"])
    await admin.patch(f"{PATH}/aws-prod", json={"way": "workload"})
    trust = json.loads((await admin.get(f"{PATH}/aws-prod/policies")).json()["documents"][0]["text"])
    assert trust["Statement"][0]["Condition"] == {"StringEquals": {"sts:ExternalId": made["external_id"]}}


async def test_a_cluster_is_told_the_user_and_the_issuer(application: Application) -> None:
    cluster = {"name": "k", "kind": "kubernetes", "api_url": "https://203.0.113.7:6443"}
    made = await application.admin.made(PATH, cluster)
    assert (made["namespace"], made["audience"]) == ("terracrew", "kubernetes")
    found = (await application.admin.get(f"{PATH}/k/policies")).json()["documents"]
    assert [each["name"] for each in found] == ["objects", "authentication", "flags"]
    assert made["subject"] in found[0]["text"]
    assert made["issuer"] in found[1]["text"]


async def test_a_test_is_a_job_that_gets_the_identity_and_what_a_deployment_needs(application: Application) -> None:
    admin, server = application.admin, application.server
    made = await admin.made(PATH, AWS)
    await admin.made(
        "/api/v1/runners/deploy",
        {"name": "burst", "identity": "aws-prod", "settings": {"image": IMAGE, "job_role": JOB_ROLE}},
    )
    answer = await admin.post(f"{PATH}/aws-prod/test", json={})
    assert answer.status_code == 202
    assert (answer.json()["type"], answer.json()["status"]) == ("CONNECTION_TEST", "QUEUED")
    assert "has not ended" in await admin.refused("POST", f"{PATH}/aws-prod/test", 409, json={})
    assert (await admin.get(f"{PATH}/aws-prod")).json()["last_test"]["id"] == answer.json()["id"]
    job = await server.db.read(lambda tx: fleet_store.get(tx, answer.json()["id"]))
    assert job is not None
    grant = await server.db.write(lambda tx: ConnectionTestHandler(server.settings).on_claim(tx, job))
    assert (grant.identity.subject, grant.identity.issuer) == (made["subject"], server.settings.url)
    assert isinstance(grant.work, CheckWork)
    assert grant.work.deployment is not None
    assert (grant.work.deployment.settings.image, grant.work.deployment.settings.job_role) == (IMAGE, JOB_ROLE)
    for role in ("viewer", "operator", "approver"):
        person = await application.person(role, role)
        await person.refused("POST", f"{PATH}/aws-prod/test", 403, json={})
        await person.refused("POST", f"{PATH}/aws-prod/report", 403, json={})


@pytest.mark.feature("W5.report")
async def test_what_is_in_the_account_has_an_owner_or_says_why_not(application: Application) -> None:
    admin, server = application.admin, application.server
    db, who = server.db, admin.principal
    for name in ("aws-prod", "other"):
        await admin.made(PATH, AWS | {"name": name})
    runners: dict[str, dict[str, Any]] = {}
    for name, identity in (("burst", "aws-prod"), ("elsewhere", "other"), ("gone", "aws-prod")):
        wanted = {"name": name, "identity": identity, "settings": {"image": IMAGE}}
        runners[name] = await admin.made("/api/v1/runners/deploy", wanted)
        await db.write(
            lambda tx, name=name: fleet_jobs.cancel(tx, who, runners[name]["job"]["id"], server.fleet_handlers)
        )
    gone_id = runners["gone"]["runner"]["id"]
    await db.write(lambda tx: tx.run("DELETE FROM runners WHERE id = :id", id=gone_id))
    await db.write(
        lambda tx: tx.run(
            "INSERT INTO removed (id, name, removed_at) VALUES (:id, 'gone', :now)", id=gone_id, now=tx.now
        )
    )
    stranger = await application.person("sam", "owner", "", "other")
    theirs = await stranger.made("/api/v1/runners", {"name": "theirs"})
    ids = {name: each["runner"]["id"] for name, each in runners.items()}
    cloud = AnsweringCloud(
        [
            resource("burst", ids["burst"], 1.5, runners["burst"]["job"]["id"]),
            resource("elsewhere", ids["elsewhere"]),
            resource("gone", ids["gone"], 0.25),
            resource("theirs", theirs["id"]),
            resource("unmarked", ""),
        ]
    )
    found = await reporting.look(db, cloud, who, "aws-prod", "https://issuer.example")
    assert cloud.asked[0].issuer == "https://issuer.example"
    judged = {each.name: each for each in found.resources}
    assert {name: each.owner for name, each in judged.items()} == {
        "burst": "runner",
        "elsewhere": "nobody",
        "gone": "nobody",
        "theirs": "elsewhere",
        "unmarked": "elsewhere",
    }
    assert found.resources[-1].name == "burst", "what has lost its owner comes first"
    assert judged["burst"].job_number == runners["burst"]["job"]["number"]
    assert "was removed on" in judged["gone"].owner_words
    assert (judged["gone"].runner, judged["theirs"].runner) == ("gone", ""), "names of others stay unknown"
    assert (found.dollars_a_month, found.unpriced) == (1.75, 3)

    kept = (await admin.get(f"{PATH}/aws-prod/report")).json()
    assert [each["name"] for each in kept["resources"]] == [each.name for each in found.resources]
    assert kept["looked_at"] is not None
    assert (await admin.get(f"{PATH}/other/report")).json()["looked_at"] is None
    with pytest.raises(Unavailable):
        await reporting.look(db, AnsweringCloud(), who, "aws-prod", "")
    resources, _ = await db.read(lambda tx: identities.last_found(tx, cloud.asked[0].id))
    assert len(resources) == 5, "a failed look leaves the last one"
