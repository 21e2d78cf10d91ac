"""Cloud identities are made by those who may grant access, and used by those who may change runners of their group and below."""

import asyncio

import pytest

from terracrew.api.cloud_identities import IdentityChange, NewIdentity
from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.model import AwsAccount
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.cloud_identities import reads, service, store
from terracrew.server.cloud_identities.model import IdentityRecord, as_cloud_identity
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store as deployments
from terracrew.server.deployments.model import CloudDeployment
from terracrew.server.principals.model import Principal
from terracrew.wording.audit_words import sentence
from tests.builders.transactions import held_open, until_blocked
from tests.server.application import Application, Person
from tests.server.hub.hub_clients import on_postgres

ROLE = "arn:aws:iam::123456789012:role/terracrew"
pytestmark = pytest.mark.feature("W1.identities")


def aws(name: str = "aws-prod", group: str = "", description: str = "") -> NewIdentity:
    return NewIdentity(name=name, group=group, description=description, role_arn=ROLE, region="eu-central-1")


async def made(
    application: Application, who: Person | None = None, wanted: NewIdentity | None = None
) -> IdentityRecord:
    person = who or application.admin
    return await service.create(application.server.db, person.principal, wanted or aws())


async def found(application: Application, who: Principal, reference: str) -> IdentityRecord:
    return await application.server.db.read(lambda tx: service.find(tx, who, reference))


async def delete(application: Application, who: Principal, reference: str) -> None:
    await application.server.db.write(lambda tx: service.delete(tx, who, reference))


async def test_an_identity_is_found_by_its_id_and_its_path(application: Application) -> None:
    who = application.admin.principal
    await application.admin.made("/api/v1/groups", {"path": "payments"})
    identity = await made(application, wanted=aws(group="payments", description="production"))
    assert identity.path == "payments/aws-prod"
    for reference in (identity.id, identity.id.removeprefix("cid_"), "payments/aws-prod"):
        assert await found(application, who, reference) == identity
    for reference in ("payments/other", "aws-prod", "", "a\0b", "x" * 3000, "cid_" + "0" * 32):
        with pytest.raises(NotFound, match="there is no cloud identity"):
            await found(application, who, reference)


async def test_a_group_of_another_organization_is_not_reached_by_its_id(application: Application) -> None:
    group = await application.admin.made("/api/v1/groups", {"path": "payments"})
    await made(application)
    owner = await application.person("olga", "owner", organization="other")
    without_kind = group["id"].removeprefix("grp_")  # an id looks like a path without it
    with pytest.raises(NotFound, match="there is no group"):
        await made(application, owner, aws(group=without_kind))
    await made(application, owner)
    for reference in (group["id"], without_kind):
        wanted = {"name": "burst", "group": reference, "identity": "unknown", "settings": {"image": "a/b:1"}}
        words = await owner.refused("POST", "/api/v1/runners/deploy", 404, json=wanted)
        assert "payments" not in words


async def test_external_id_and_subject_are_random_and_never_come_again(application: Application) -> None:
    who = application.admin.principal
    first = await made(application)
    await delete(application, who, first.id)
    second = await made(application)
    third = await made(application, wanted=aws("other"))
    for one, other in ((first, second), (second, third)):
        assert one.external_id != other.external_id
        assert one.subject != other.subject
    start, _, random = first.subject.rpartition(":")
    assert start == "organization:default:cloud-identity:aws-prod"
    assert (len(random), len(first.external_id)) == (32, 32)
    assert random != first.external_id
    assert "external_id" not in NewIdentity.__struct_fields__ + IdentityChange.__struct_fields__
    assert "subject" not in NewIdentity.__struct_fields__ + IdentityChange.__struct_fields__


async def test_a_rename_changes_neither_external_id_nor_subject(application: Application) -> None:
    """The policies of the account compare both, so runners could not be started after a rename."""
    before = await made(application)
    who = application.admin.principal
    change = IdentityChange(name="renamed", description="x", region="eu-west-1", audience="other")
    after = await service.change(application.server.db, who, before.id, change)
    assert (after.name, after.description, after.audience) == ("renamed", "x", "other")
    assert after.settings == AwsAccount(role_arn=ROLE, region="eu-west-1")
    assert (after.external_id, after.subject) == (before.external_id, before.subject)
    assert await found(application, who, "renamed") == after
    with pytest.raises(Invalid, match="region: "):
        await service.change(application.server.db, who, before.id, IdentityChange(region="x"))
    with pytest.raises(Invalid, match="namespace: an identity for AWS has none"):
        await service.change(application.server.db, who, before.id, IdentityChange(namespace="x"))
    assert await service.change(application.server.db, who, before.id, IdentityChange()) == after


async def test_the_fleet_gets_the_external_id_and_the_issuer(application: Application) -> None:
    identity = await made(application)
    given = as_cloud_identity(identity, "https://crew.example")
    assert isinstance(given.cloud, AwsAccount)
    assert given.cloud.external_id == identity.external_id
    assert (given.subject, given.audience, given.issuer) == (
        identity.subject,
        "sts.amazonaws.com",
        "https://crew.example",
    )


async def test_a_name_is_taken_once_in_a_group(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a"})
    await made(application)
    await made(application, wanted=aws(group="a"))
    with pytest.raises(Conflict, match="there is a cloud identity 'aws-prod' in that group already"):
        await made(application, wanted=aws(group="a"))
    other = await made(application, wanted=aws("other", group="a"))
    with pytest.raises(Conflict, match="'aws-prod' in that group already"):
        await service.change(
            application.server.db, application.admin.principal, other.id, IdentityChange(name="aws-prod")
        )
    with pytest.raises(Invalid, match="is not a valid name"):
        await made(application, wanted=aws("A b"))
    with pytest.raises(NotFound, match="there is no group"):
        await made(application, wanted=aws(group="nowhere"))


@pytest.mark.feature("X3.roles")
async def test_runners_of_a_group_use_its_identities_and_those_above(application: Application) -> None:
    for path in ("pay", "pay/prod", "payments"):
        await application.admin.made("/api/v1/groups", {"path": path})
    for group in ("", "pay", "pay/prod", "payments"):
        await made(application, wanted=aws("one", group))
    organization_id, db = application.server.organization_id, application.server.db
    for group, names in {
        "pay/prod": ["pay/prod/one", "pay/one", "one"],
        "pay": ["pay/one", "one"],
        "payments": ["payments/one", "one"],
        "": ["one"],
    }.items():
        usable = await db.read(lambda tx, group=group: reads.usable_in(tx, organization_id, group))
        assert [each.path for each in usable] == names

    owner = await application.person("olga", "owner", "pay/prod")
    who = owner.principal
    for reference in ("one", "pay/prod/one"):
        used = await db.read(lambda tx, of=reference: service.find_usable(tx, who, of, "pay/prod"))
        assert used.path == reference
    with pytest.raises(NotFound, match="they may use pay/prod/one, pay/one, one"):
        await db.read(lambda tx: service.find_usable(tx, who, "payments/one", "pay/prod"))
    with pytest.raises(NotFound):
        await db.read(lambda tx: service.find_usable(tx, who, "one", "payments"))
    listed = await db.read(lambda tx: service.listing(tx, who, None, 50))
    assert [each.path for each in listed.items] == ["pay/prod/one"]
    for reference, refusal in (("one", Forbidden), ("pay/one", NotFound)):
        with pytest.raises(refusal):
            await found(application, who, reference)


@pytest.mark.feature("X3.roles")
async def test_only_those_who_may_grant_access_make_change_and_delete_identities(application: Application) -> None:
    identity, db = await made(application), application.server.db
    for role in ("viewer", "operator", "approver"):
        who = (await application.person(role, role)).principal
        assert await found(application, who, identity.id) == identity
        for attempt in (
            service.create(db, who, aws("mine")),
            service.change(db, who, identity.id, IdentityChange(role_arn=ROLE + "2")),
            delete(application, who, identity.id),
            db.read(lambda tx, who=who: service.find_usable(tx, who, identity.id, "")),
        ):
            with pytest.raises(Forbidden):
                await attempt
    stranger = (await application.person("sam", "owner", "", "other")).principal
    for attempt in (found(application, stranger, identity.id), delete(application, stranger, identity.id)):
        with pytest.raises(NotFound):
            await attempt
    owner = await application.person("olga", "owner")
    assert (await made(application, owner, aws("mine"))).created_by == owner.principal.id


async def test_only_an_administrator_points_the_server_at_its_own_cluster(application: Application) -> None:
    """Every organization could otherwise start pods as the pod of the server: nothing in the cluster tells them apart."""
    owner = await application.person("olga", "owner")
    own = NewIdentity(name="here", kind="kubernetes", way="workload")
    with pytest.raises(Forbidden, match="administrator of the server"):
        await made(application, owner, own)
    elsewhere = NewIdentity(name="there", kind="kubernetes", api_url="https://203.0.113.7")
    other = await made(application, owner, elsewhere)
    change = IdentityChange(way="workload", api_url="")
    with pytest.raises(Forbidden, match="administrator of the server"):
        await service.change(application.server.db, owner.principal, other.id, change)
    identity = await made(application, wanted=own)
    with pytest.raises(Forbidden, match="administrator of the server"):
        await service.change(
            application.server.db, owner.principal, identity.id, IdentityChange(namespace="kube-system")
        )


@pytest.mark.feature("X3.audit")
async def test_each_change_is_a_sentence_in_the_audit(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "pay"})
    identity = await made(application, wanted=aws(group="pay"))
    who = application.admin.principal
    await service.change(application.server.db, who, identity.id, IdentityChange(role_arn=ROLE + "2", description="x"))
    await delete(application, who, identity.id)
    entries = await application.admin.listed("/api/v1/audit", target=identity.id)
    assert [sentence(each) for each in entries] == [
        "deleted the cloud identity pay/aws-prod",
        "changed the cloud identity pay/aws-prod: description, role arn",
        "created the cloud identity pay/aws-prod for account 123456789012 in eu-central-1",
    ]
    assert {each["path"] for each in entries} == {"pay"}


async def test_a_group_or_organization_with_an_identity_is_not_deleted(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "pay"})
    await made(application, wanted=aws(group="pay"))
    assert "it has 1 cloud identity" in await application.admin.refused("DELETE", "/api/v1/groups/pay", 409)
    await made(application, wanted=aws("second", group="pay"))
    assert "it has 2 cloud identities" in await application.admin.refused("DELETE", "/api/v1/groups/pay", 409)
    owner = await application.person("olga", "owner", "", "other")
    await made(application, owner)
    assert "1 cloud identity" in await application.admin.refused("DELETE", "/api/v1/organizations/other", 409)


async def test_an_identity_of_a_deployed_runner_is_neither_deleted_nor_pointed_elsewhere(
    application: Application,
) -> None:
    """What was made for the runner would stay in the account and cost money, and nobody could remove it from here."""
    db, who = application.server.db, application.admin.principal
    identity = await made(application)
    for name in ("burst", "other"):
        runner = await application.admin.made("/api/v1/runners", {"name": name})
        await _deploy(application, runner["id"], identity.id)
    with pytest.raises(Conflict, match="aws-prod is used by burst, other: remove what is deployed first") as refused:
        await delete(application, who, identity.id)
    assert refused.value.details["runners"] == ["burst", "other"]
    for change in (IdentityChange(region="eu-west-1"), IdentityChange(role_arn=ROLE.replace("1", "2"))):
        with pytest.raises(Conflict, match="is for account 123456789012 in eu-central-1, where burst, other"):
            await service.change(db, who, identity.id, change)
    after = await service.change(db, who, identity.id, IdentityChange(role_arn=ROLE + "-2", way="workload"))
    assert isinstance(after.settings, AwsAccount)
    assert after.settings.role_arn == ROLE + "-2"


@on_postgres
async def test_an_identity_is_not_deleted_while_a_runner_is_about_to_use_it(application: Application) -> None:
    db, who = application.server.db, application.admin.principal
    identity = await made(application)
    runner = await application.admin.made("/api/v1/runners", {"name": "burst"})

    async def deploy(tx: Tx) -> None:
        found = await service.hold_usable(tx, who, "aws-prod", "")
        await deployments.insert(tx, _deployment(runner["id"], found.id))

    async with held_open(db, deploy):
        deletion = asyncio.create_task(delete(application, who, identity.id))
        await until_blocked(db)
    with pytest.raises(Conflict, match="is used by burst"):
        await deletion


def _deployment(runner_id: str, identity_id: str) -> CloudDeployment:
    return CloudDeployment(runner_id=runner_id, identity_id=identity_id, settings=DeploymentSettings())


async def _deploy(application: Application, runner_id: str, identity_id: str) -> None:
    await application.server.db.write(lambda tx: deployments.insert(tx, _deployment(runner_id, identity_id)))


@on_postgres
async def test_two_changes_of_an_identity_at_once_are_both_kept(application: Application) -> None:
    identity, db, who = await made(application), application.server.db, application.admin.principal
    async with held_open(db, lambda tx: store.hold(tx, identity.id)):
        changes = [
            asyncio.create_task(service.change(db, who, identity.id, change))
            for change in (IdentityChange(region="eu-west-1"), IdentityChange(audience="other"))
        ]
        await until_blocked(db)
    await asyncio.gather(*changes)
    after = await found(application, who, identity.id)
    assert isinstance(after.settings, AwsAccount)
    assert (after.settings.region, after.audience) == ("eu-west-1", "other")
