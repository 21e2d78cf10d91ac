"""Versions that are uploaded: they never change, are withdrawn and given back, and their archives are kept."""

import asyncio

import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.retention import rules
from tests.builders.clock import ShiftedClock
from tests.server.application import Application, on_one
from tests.server.registry.publisher import (
    MAIN,
    MODULES,
    address,
    create,
    download,
    group,
    publish,
    published,
    upload,
    versions,
)
from tests.server.tree.modules.packed_modules import packed

pytestmark = pytest.mark.feature("P7.versions")
PATH, ASKED = "team/vpc/aws", "team/vpc/aws"


async def test_a_version_never_changes(application: Application) -> None:
    admin = application.admin
    await published(application, PATH, "1.0.0")
    again = await publish(admin, PATH, "1.0.0")
    assert again.status_code == 201, "the same files may be sent again"
    answer = await publish(admin, PATH, "1.0.0", b"# something else\n")
    assert answer.status_code == 409
    assert "versions never change" in answer.json()["detail"]
    shown = (await admin.get(address(PATH))).json()
    assert [each["version"] for each in shown["versions"]] == ["1.0.0"]
    assert shown["versions"][0]["sha256"] == again.json()["sha256"]
    assert await application.scalar("SELECT count(*) FROM published_versions") == 1


async def test_of_two_at_the_same_time_one_gets_the_number(application: Application) -> None:
    await published(application, PATH)
    answers = await asyncio.gather(
        *(publish(application.admin, PATH, "1.0.0", b"# files of %d\n" % number) for number in range(4))
    )
    assert sorted(each.status_code for each in answers) == [201, 409, 409, 409]


async def test_versions_are_ordered_as_versions_and_the_latest_is_no_pre_release(application: Application) -> None:
    await published(application, PATH, "1.9.0", "1.10.0", "2.0.0-rc.1", "1.2.0")
    shown = (await application.admin.get(address(PATH))).json()
    assert [each["version"] for each in shown["versions"]] == ["2.0.0-rc.1", "1.10.0", "1.9.0", "1.2.0"]
    assert shown["latest"] == "1.10.0"
    assert await versions(application.admin, ASKED) == ["2.0.0-rc.1", "1.10.0", "1.9.0", "1.2.0"]


async def test_a_withdrawn_version_is_given_to_no_engine_until_it_is_given_back(application: Application) -> None:
    admin, path = application.admin, f"{address(PATH)}/versions/1.1.0"
    await published(application, PATH, "1.0.0", "1.1.0")
    location = await download(admin, ASKED, "1.1.0")
    assert isinstance(location, str)
    answer = await admin.patch(path, json={"is_withdrawn": True, "reason": "it loses routes"})
    assert answer.json()["withdrawn_reason"] == "it loses routes"
    assert await versions(admin, ASKED) == ["1.0.0"]
    assert await download(admin, ASKED, "1.1.0") == 404
    assert (await application.stranger().get(location)).status_code == 404, "an address that was given before"
    assert (await admin.get(address(PATH))).json()["latest"] == "1.0.0"
    assert (await publish(admin, PATH, "1.1.0", b"# better\n")).status_code == 409, "its number stays taken"
    await admin.refused("PATCH", path, 400, json={"is_withdrawn": False, "reason": "why"})
    assert (await admin.patch(path, json={"is_withdrawn": False})).json()["is_withdrawn"] is False
    assert (await application.stranger().get(location)).status_code == 200
    assert (await admin.get(address(PATH))).json()["latest"] == "1.1.0"


async def test_what_is_published_is_deleted_only_after_everything_was_withdrawn(application: Application) -> None:
    admin = application.admin
    await published(application, PATH, "1.0.0")
    assert "withdraw them first" in await admin.refused("DELETE", address(PATH), 409)
    assert "publishes 1 modules" in await admin.refused("DELETE", "/api/v1/groups/team", 409)
    await admin.patch(f"{address(PATH)}/versions/1.0.0", json={"is_withdrawn": True})
    assert (await admin.delete(address(PATH))).status_code == 204
    assert (await admin.delete("/api/v1/groups/team")).status_code == 204


async def test_the_archive_of_a_version_is_kept_however_old_it_is(
    application: Application, clock: ShiftedClock
) -> None:
    await published(application, PATH, "1.0.0")
    unused = await upload(application.admin, b"# nobody publishes this\n")
    clock.advance(400 * 24 * 3600.0)
    policy = rules.RetentionPolicy(archives_days=1)
    (rule,) = [each for each in rules.RULES if each.kind == "archives"]

    async def removed() -> list[str]:
        async def work(tx: Tx) -> list[str]:
            items = await rule.find(tx, policy, None, 100)
            return [each.id for each in await rule.remove(tx, policy, items)]

        return await application.server.db.write(work)

    assert await removed() == [unused]
    location = await download(application.admin, ASKED, "1.0.0")
    assert (await application.stranger().get(str(location))).status_code == 200
    await application.admin.patch(f"{address(PATH)}/versions/1.0.0", json={"is_withdrawn": True})
    await application.admin.delete(address(PATH))
    assert await application.scalar("SELECT count(*) FROM archives") == 1
    assert len(await removed()) == 1


@on_one
@pytest.mark.parametrize(
    "version",
    ["", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3+build", "1.2.3-", "1.2.3-..", "../1", "1.2.3\n", "１.2.3"],
)
async def test_a_version_has_three_numbers(application: Application, version: str) -> None:
    await published(application, PATH)
    assert (await publish(application.admin, PATH, version)).status_code == 400


@on_one
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"group": ""}, "group"),
        ({"group": "no-end-"}, "engines cannot write"),
        ({"name": "VPC"}, "'VPC' cannot be a name: use lowercase letters"),
        ({"name": "-vpc"}, "use lowercase letters"),
        ({"name": "a/b"}, "use lowercase letters"),
        ({"name": "a\n"}, "use lowercase letters"),
        ({"name": ""}, "use lowercase letters"),
        ({"system": "a_b"}, "'a_b' cannot be a system: use lowercase letters"),
        ({"readers": "everybody"}, "readers"),
        ({"folder": "vpc"}, "give its address"),
        ({"url": "https://git.example.com/x", "folder": "../x"}, "folder"),
        ({"url": "ext::sh -c id"}, "url"),
        ({"url": "https://git.example.com/x", "tag_prefix": "a..b"}, "tag_prefix"),
        ({"url": "https://git.example.com/x", "tag_prefix": "--upload-pack=x"}, "tag_prefix"),
        ({"url": "https://git.example.com/x", "tag_prefix": "*"}, "tag_prefix"),
        ({"description": "a\x07"}, "cannot be printed"),
    ],
)
async def test_a_name_is_one_that_engines_can_write(
    application: Application, fields: dict[str, str], said: str
) -> None:
    for path in ("team", "no-end-"):
        await group(application, path)
    answer = await application.admin.post(MODULES, json={"group": "team", "name": "vpc", "system": "aws", **fields})
    assert answer.status_code == 400, answer.text
    assert said in answer.text


@on_one
async def test_only_what_engines_can_run_is_published_by_somebody_who_may_use_it(application: Application) -> None:
    await published(application, PATH)
    ann = await application.person("ann", "owner", "team")
    answer = await ann.post("/api/v1/archives", content=packed(("folder/main.tf", MAIN)))
    body = {"version": "1.0.0", "archive_id": answer.json()["id"]}
    refusal = await ann.refused("POST", f"{address(PATH)}/versions", 400, json=body)
    assert "no configuration" in refusal
    theirs = await upload(application.admin)
    body = {"version": "1.0.0", "archive_id": theirs}
    await ann.refused("POST", f"{address(PATH)}/versions", 404, json=body)


async def test_a_group_has_each_name_once(application: Application) -> None:
    await published(application, PATH)
    assert "already" in await application.admin.refused(
        "POST", MODULES, 409, json={"group": "team", "name": "vpc", "system": "aws"}
    )
    await create(application.admin, "team/vpc/google")


async def test_the_list_is_searched_and_comes_in_pages(application: Application) -> None:
    await published(application, "team/net/vpc/aws", description="A network with three zones")
    for path in ("team/dns/aws", "team/net/vpc/google"):
        await create(application.admin, path)
    admin = application.admin
    found = await admin.listed(MODULES, limit=1)
    assert [each["path"] for each in found] == ["team/dns/aws", "team/net/vpc/aws", "team/net/vpc/google"]
    assert [each["address"] for each in found][1] == "team_net/vpc/aws"
    assert [each["system"] for each in await admin.listed(MODULES, search="zones VPC")] == ["aws"]
    assert len(await admin.listed(MODULES, group="team/net")) == 2
    assert await admin.listed(MODULES, search="nothing") == []


@on_one
async def test_a_withdrawn_version_is_not_published_again_unnoticed(application: Application) -> None:
    admin = application.admin
    await published(application, PATH, "1.0.0")
    await admin.patch(f"{address(PATH)}/versions/1.0.0", json={"is_withdrawn": True, "reason": "slow"})
    answer = await publish(admin, PATH, "1.0.0")
    assert (answer.status_code, "withdrawn" in answer.text) == (409, True), answer.text
