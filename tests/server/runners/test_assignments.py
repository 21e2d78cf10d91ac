"""A runner is assigned only inside its own group, and an assignment ends with its place."""

import asyncio
from typing import Any

import pytest

from terracrew.server.runners.removal import service as removal
from tests.builders.transactions import held_open, until_blocked
from tests.server.application import Application
from tests.server.hub.hub_clients import on_postgres

SOURCE = {"kind": "local", "path": "/srv/sources/m"}


async def places(application: Application, runner: str) -> set[tuple[str, str]]:
    answer = await application.admin.get(f"/api/v1/runners/{runner}/assignments")
    return {(each["kind"], each["path"]) for each in answer.json()["items"]}


@pytest.mark.feature("S1.default")
async def test_a_runner_is_assigned_to_its_group_unless_told_otherwise(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a"})
    await application.admin.made("/api/v1/runners", {"name": "r", "group": "a"})
    idle = await application.admin.made("/api/v1/runners", {"name": "idle", "group": "a", "assign": False})
    assert await places(application, "a%2Fr") == {("group", "a")}
    assert idle["is_assigned_to_all_modules"] is False
    assert await places(application, "a%2Fidle") == set()
    registered = await application.admin.made("/api/v1/runners/register", {"name": "whole"})
    assert registered["runner"]["is_assigned_to_all_modules"] is True
    assert await places(application, "whole") == {("group", "")}


@pytest.mark.feature("S1.assigned")
async def test_groups_and_modules_are_assigned_and_withdrawn(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a/b"}, parents=True)
    await application.admin.made("/api/v1/modules", {"path": "a/m", "source": SOURCE})
    made = await application.admin.made("/api/v1/runners", {"name": "r", "group": "a", "assign": False})
    address = "/api/v1/runners/a%2Fr/assignments"
    with application.server.db.listen("queue", "assignments") as woken:
        await application.admin.made(address, {"place": "a/b", "kind": "group"})
        assert await woken.get(5) == {("assignments", made["id"])}
    await application.admin.made(address, {"place": "a/m", "kind": "module"})
    await application.admin.made(address, {"place": "a/m"})  # again, and without its kind: nothing changes
    assert await places(application, "a%2Fr") == {("group", "a/b"), ("module", "a/m")}
    await application.admin.refused("POST", address, 404, json={"place": "a/m", "kind": "group"})
    await application.admin.refused("POST", address, 404, json={"place": "a/none"})
    answer = await application.admin.request("DELETE", address, json={"place": "a/b", "kind": "group"})
    assert answer.status_code == 204
    words = await application.admin.refused("DELETE", address, 404, json={"place": "a/b"})
    assert "`a/r` is not assigned to group `a/b`" in words
    await application.admin.made(address, {"place": "a"})
    assert (await application.admin.get("/api/v1/runners/a%2Fr")).json()["is_assigned_to_all_modules"] is True


@pytest.mark.feature("S1.inside", "X2.enforced")
@pytest.mark.parametrize("place", ["", "b", "ab", "b/m"])
async def test_no_place_outside_of_the_runners_own_group_is_assigned(application: Application, place: str) -> None:
    for path in ("a", "b", "ab"):
        await application.admin.made("/api/v1/groups", {"path": path})
    await application.admin.made("/api/v1/modules", {"path": "b/m", "source": SOURCE})
    await application.admin.made("/api/v1/runners", {"name": "r", "group": "a", "assign": False})
    words = await application.admin.refused("POST", "/api/v1/runners/a%2Fr/assignments", 400, json={"place": place})
    assert "only be assigned inside its own group" in words
    assert "``" not in words, "the organization has no path, and is called by its noun"
    assert await application.scalar("SELECT count(*) FROM assignments") == 0


@pytest.mark.feature("S1.inside", "X4.tenants")
async def test_no_place_of_another_organization_is_assigned(application: Application) -> None:
    other = await application.person("mallory", "owner", "", "other")
    theirs = await other.made("/api/v1/groups", {"path": "a"})
    ours = await application.admin.made("/api/v1/runners", {"name": "r", "assign": False})
    # Even a system administrator, who sees both, cannot mix them.
    address = f"/api/v1/runners/{ours['id']}/assignments"
    await application.admin.refused("POST", address, 404, json={"place": theirs["id"]})
    await other.refused("POST", address, 404, json={"place": theirs["id"]})
    assert await application.scalar("SELECT count(*) FROM assignments") == 0


@pytest.mark.feature("S1.assigned")
@pytest.mark.parametrize(("kind", "path"), [("groups", "a/b"), ("modules", "a/m")])
async def test_an_assignment_goes_with_its_place(application: Application, kind: str, path: str) -> None:
    body: dict[str, Any] = {"path": path} | ({"source": SOURCE} if kind == "modules" else {})
    await application.admin.made("/api/v1/groups", {"path": "a"})
    await application.admin.made(f"/api/v1/{kind}", body)
    await application.admin.made("/api/v1/runners", {"name": "r", "assign": False})
    await application.admin.made("/api/v1/runners/r/assignments", {"place": path})
    assert (await application.admin.delete(f"/api/v1/{kind}/{path.replace('/', '%2F')}")).status_code == 204
    await application.admin.made(f"/api/v1/{kind}", body)
    assert await places(application, "r") == set()


@on_postgres
async def test_an_assignment_during_the_removal_of_its_runner_finds_no_runner(application: Application) -> None:
    """It read the runner before the removal, and failed for a reason that only the database knew."""
    made = await application.admin.made("/api/v1/runners", {"name": "r", "assign": False})
    db, who, address = application.server.db, application.admin.principal, f"/api/v1/runners/{made['id']}/assignments"
    async with held_open(db, lambda tx: removal.remove(tx, who, made["id"], True)):
        asked = asyncio.create_task(application.admin.post(address, json={"place": "", "kind": "group"}))
        await until_blocked(db)
    assert (await asked).status_code == 404
