"""Who may use a published module: jobs by their place, people by what they see, and nobody of another organization."""

import pytest

from tests.server.application import Application
from tests.server.registry import publisher
from tests.server.registry.publisher import MODULES, address, download, group, job_of, published, versions
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("P7.access")


async def test_a_job_uses_what_a_group_at_or_above_its_module_publishes_and_nothing_of_other_groups(
    runner: SimulatedRunner,
) -> None:
    await published(runner.app, "team/net/vpc/aws", "1.0.0")
    for path, expected in (
        ("team/net/app", ["1.0.0"]),
        ("team/net/prod/app", ["1.0.0"]),
        ("team/app", 404),
        ("team/network/app", 404),
        ("other/app", 404),
    ):
        engine = await job_of(runner, path)
        assert await versions(engine, "team_net/vpc/aws") == expected, path
        is_open = isinstance(await download(engine, "team_net/vpc/aws", "1.0.0"), str)
        assert is_open == (expected != 404)


async def test_a_job_uses_what_is_published_for_the_organization(runner: SimulatedRunner) -> None:
    await published(runner.app, "common/vpc/aws", "1.0.0", readers="organization")
    engine = await job_of(runner, "team/app")
    assert await versions(engine, "common/vpc/aws") == ["1.0.0"]
    listed = (await engine.get(MODULES)).json()["items"]
    assert [each["path"] for each in listed] == ["common/vpc/aws"]
    change = {"readers": "group"}
    await engine.refused("PATCH", address("common/vpc/aws"), 404, json=change)
    assert (await runner.app.admin.patch(address("common/vpc/aws"), json=change)).status_code == 200
    assert await versions(engine, "common/vpc/aws") == 404


async def test_only_the_token_of_the_engine_opens_the_registry_and_only_until_its_job_ends(
    runner: SimulatedRunner,
) -> None:
    await published(runner.app, "common/vpc/aws", "1.0.0", readers="organization")
    attempt = await runner.run()
    assert await versions(attempt.engine, "common/vpc/aws") == ["1.0.0"]
    assert await versions(attempt.executor, "common/vpc/aws") == 404
    assert await versions(runner.app.stranger(), "common/vpc/aws") == 401
    await attempt.lose()
    assert await versions(attempt.engine, "common/vpc/aws") == 401


async def test_another_organization_sees_no_name_of_it(runner: SimulatedRunner) -> None:
    app = runner.app
    await published(app, "common/vpc/aws", "1.0.0", readers="organization")
    owner = await app.person("eve", "owner", organization="elsewhere")
    assert await versions(owner, "common/vpc/aws") == 404
    assert (await owner.get(MODULES)).json()["items"] == []
    found = (await app.admin.get(MODULES)).json()["items"][0]["id"]
    for reference in (found, "common/vpc/aws"):
        refusal = await owner.refused("GET", address(reference), 404)
        assert "there is no published module" in refusal
    for method, path, body in (
        ("PATCH", address(found), {"readers": "group"}),
        ("DELETE", address(found), None),
        ("POST", f"{address(found)}/versions", {"version": "9.9.9", "archive_id": "arc_" + "0" * 32}),
        ("PATCH", f"{address(found)}/versions/1.0.0", {"is_withdrawn": True}),
    ):
        await owner.refused(method, path, 404, json=body)
    engine = (await runner.run()).engine
    # Both organizations may have the same names; a token decides whose is meant.
    there = await owner.made("/api/v1/groups", {"path": "common"})
    assert there["path"] == "common"
    await publisher.create(owner, "common/vpc/aws", readers="organization")
    assert (await publisher.publish(owner, "common/vpc/aws", "6.6.6")).status_code == 201
    assert await versions(owner, "common/vpc/aws") == ["6.6.6"]
    assert await versions(engine, "common/vpc/aws") == ["1.0.0"]


async def test_people_use_what_is_published_where_they_see_something(application: Application) -> None:
    await published(application, "team/net/vpc/aws", "1.0.0")
    await group(application, "team/net/prod")
    await group(application, "other")
    for path, expected in (("", ["1.0.0"]), ("team", ["1.0.0"]), ("team/net/prod", ["1.0.0"]), ("other", 404)):
        person = await application.person(f"p{path.replace('/', '-')}", "viewer", path)
        assert await versions(person, "team_net/vpc/aws") == expected, path
        assert bool((await person.get(MODULES)).json()["items"]) == (expected != 404)
    nobody = await application.person("nobody")
    assert await versions(nobody, "team_net/vpc/aws") == 404
    await application.admin.patch(address("team/net/vpc/aws"), json={"readers": "organization"})
    assert await versions(nobody, "team_net/vpc/aws") == 404, "without any role, somebody sees nothing"


async def test_publishing_takes_the_right_to_change_the_group(application: Application) -> None:
    await published(application, "team/vpc/aws", "1.0.0", readers="organization")
    for role in ("viewer", "operator", "approver"):
        person = await application.person(role, role, "team")
        await person.refused("POST", MODULES, 403, json={"group": "team", "name": "dns", "system": "aws"})
        await person.refused("PATCH", address("team/vpc/aws"), 403, json={"description": "mine"})
        await person.refused("PATCH", f"{address('team/vpc/aws')}/versions/1.0.0", 403, json={"is_withdrawn": True})
        body = {"version": "1.1.0", "archive_id": "arc_" + "0" * 32}
        await person.refused("POST", f"{address('team/vpc/aws')}/versions", 403, json=body)
    owner = await application.person("ann", "owner", "team")
    assert (await publisher.publish(owner, "team/vpc/aws", "1.1.0")).status_code == 201
    await owner.refused("POST", MODULES, 404, json={"group": "other", "name": "dns", "system": "aws"})


@pytest.mark.parametrize(
    "path",
    ["team%2Fnet/vpc/aws", "Team_net/vpc/aws", "team_net/vpc/AWS", "team__net/vpc/aws", "_/vpc/aws", "team_net/../aws"],
)
async def test_a_module_has_one_address(application: Application, path: str) -> None:
    await published(application, "team/net/vpc/aws", "1.0.0")
    assert await versions(application.admin, path) in (404, 400, 405)
