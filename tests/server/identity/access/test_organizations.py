"""A server has several organizations: each with its own tree, and a person with roles in two of them works in either."""

import asyncio
from typing import Any

import pytest

from terracrew.client.http import ORGANIZATION_HEADER
from terracrew.server.db import Tx
from terracrew.server.identity.access import organizations
from terracrew.server.identity.people import sessions, store
from tests.server.application import Application, Person

SOURCE = {"kind": "local", "path": "/srv/sources/x"}
LISTS = ("groups", "modules", "runners", "jobs", "roles", "users", "service-accounts")


def within(person: Person, organization: str) -> Person:
    """The same person, who names an organization in each request."""
    person.headers[ORGANIZATION_HEADER] = organization
    return person


async def filled(application: Application, organization: str) -> Person:
    """The administrator within an organization that has one of everything, under the same names as every other one."""
    admin = within(await application.as_user(await _admin(application, organization)), organization)
    await admin.made("/api/v1/groups", {"path": "team"})
    await admin.made("/api/v1/runners", {"name": "crew", "group": "team"})
    await admin.made("/api/v1/service-accounts", {"name": "bot", "group": "team"})
    return admin


async def _admin(application: Application, name: str) -> Any:
    async def work(tx: Tx) -> Any:
        home = await store.user(tx, "admin")
        return sessions.person(
            await store.insert_user(tx, home.organization_id, f"admin-of-{name}", is_system_admin=True), None
        )

    return await application.server.db.write(work)


@pytest.mark.feature("R8.several")
async def test_organizations_are_created_listed_renamed_and_deleted_by_administrators_only(
    application: Application,
) -> None:
    admin, owner = application.admin, await application.person("olga", "owner")
    made = await admin.made("/api/v1/organizations", {"name": "acme"})
    assert [each["name"] for each in await admin.listed("/api/v1/organizations")] == ["default", "acme"]
    await admin.refused("POST", "/api/v1/organizations", 409, json={"name": "acme"})
    for name in ("", "Acme", "a b", "org_1", "x" * 64, "../x"):
        await admin.refused("POST", "/api/v1/organizations", 400, json={"name": name})
    renamed = await admin.patch("/api/v1/organizations/acme", json={"name": "corp"})
    assert (renamed.json()["id"], renamed.json()["name"]) == (made["id"], "corp")
    await admin.refused("PATCH", "/api/v1/organizations/corp", 409, json={"name": "default"})
    assert [each["name"] for each in await owner.listed("/api/v1/organizations")] == ["default"]
    await owner.refused("GET", f"/api/v1/organizations/{made['id']}", 404)
    await owner.refused("POST", "/api/v1/organizations", 403, json={"name": "mine"})
    for name in ("corp", "default", "missing"):
        await owner.refused("PATCH", f"/api/v1/organizations/{name}", 403, json={"name": "x"})
        await owner.refused("DELETE", f"/api/v1/organizations/{name}", 403)
    assert (await owner.get("/api/v1/organizations/default")).json()["contents"]["users"] == 2
    await admin.refused("DELETE", "/api/v1/organizations/default", 409)
    assert (await admin.delete("/api/v1/organizations/corp")).status_code == 204
    await admin.refused("DELETE", "/api/v1/organizations/corp", 404)
    for name in ("org_deleted", "(deleted modules)"):
        await admin.refused("GET", f"/api/v1/organizations/{name}", 404)
    entries = await admin.listed("/api/v1/audit", target=made["id"])
    assert [entry["action"] for entry in entries] == [
        "organization.delete",
        "organization.rename",
        "organization.create",
    ]


@pytest.mark.feature("R8.several")
async def test_an_organization_that_has_anything_is_not_deleted_and_says_what_it_has(application: Application) -> None:
    await application.admin.made("/api/v1/organizations", {"name": "acme", "owner": "admin"})
    acme = await filled(application, "acme")
    await acme.made("/api/v1/users", {"name": "ada@acme"})
    words = await application.admin.refused("DELETE", "/api/v1/organizations/acme", 409)
    assert words == "organization acme is not empty: it has 1 user, 1 service account, 1 group, 1 runner"
    await acme.refused("DELETE", "/api/v1/organizations/acme", 409)


@pytest.mark.feature("R8.several")
async def test_names_lists_and_paths_are_those_of_the_organization_that_the_request_names(
    application: Application,
) -> None:
    await application.admin.made("/api/v1/organizations", {"name": "acme"})
    acme, home = await filled(application, "acme"), await filled(application, "default")
    ada = await application.person("ada", "owner", "team")
    await acme.made("/api/v1/roles", {"principal": "ada", "role": "viewer", "path": "team"})
    await ada.made("/api/v1/modules", {"path": "team/app", "source": SOURCE, "engine": "tofu"})
    await acme.made("/api/v1/modules", {"path": "team/app", "source": SOURCE, "engine": "tofu"})
    await ada.made("/api/v1/modules/team%2Fapp/jobs", {"type": "PLAN"})
    ids = {name: (await person.get("/api/v1/groups/team")).json()["id"] for name, person in (("a", acme), ("d", home))}
    assert ids["a"] != ids["d"]
    assert (await ada.get("/api/v1/groups/team")).json()["id"] == ids["d"], "without a header it is one's own"
    mine = {each["name"] for each in (await ada.get("/api/v1/me")).json()["organizations"]}
    assert mine == {"default", "acme"}
    assert (await ada.get("/api/v1/jobs/1")).status_code == 200
    within(ada, "acme")
    assert (await ada.get("/api/v1/groups/team")).json()["id"] == ids["a"]
    await ada.refused("GET", "/api/v1/jobs/1", 404)
    await ada.refused("GET", f"/api/v1/groups/{ids['d']}", 404)
    await ada.refused("POST", "/api/v1/groups", 403, json={"path": "team/x"})
    await ada.refused("POST", "/api/v1/modules/team%2Fapp/jobs", 403, json={"type": "PLAN"})
    assert [each["organization_id"] for each in await ada.listed("/api/v1/modules", recursive="true")] == [
        (await acme.get("/api/v1/me")).json()["organization_id"]
    ]
    query = {"verb": "job.run", "path": "team"}
    assert (await ada.get("/api/v1/access/explain", params=query)).json()["is_allowed"] is False
    for place in LISTS:
        for person, foreign in ((acme, ids["d"]), (home, ids["a"])):
            answer = await person.get(f"/api/v1/{place}")
            assert answer.status_code == 200, place
            assert foreign not in answer.text, place
    within(ada, "default")
    assert (await ada.get("/api/v1/access/explain", params=query)).json()["is_allowed"] is True


@pytest.mark.feature("R8.several")
async def test_an_organization_in_which_one_has_no_role_does_not_exist(application: Application) -> None:
    await application.admin.made("/api/v1/organizations", {"name": "acme"})
    foreign = await application.person("eve", "owner", organization="acme")
    identity = (await application.admin.get("/api/v1/me")).json()["organization_id"]
    words = {
        (await within(foreign, name).refused("GET", "/api/v1/me", 404)).replace(name, "X")
        for name in ("default", identity, "missing", "org_deleted", "x" * 150)
    }
    assert words == {"there is no organization 'X', or you may not see it"}
    assert (await within(foreign, "acme").get("/api/v1/me")).status_code == 200
    await application.admin.made("/api/v1/roles", {"principal": "eve", "role": "viewer"})
    assert (await within(foreign, "default").get("/api/v1/me")).status_code == 200
    role = (await application.admin.listed("/api/v1/roles", principal="eve"))[0]["id"]
    await application.admin.delete(f"/api/v1/roles/{role}")
    await within(foreign, "default").refused("GET", "/api/v1/me", 404)


@pytest.mark.feature("R8.several")
async def test_a_session_works_in_the_organization_that_it_has_chosen_for_as_long_as_it_may(
    application: Application,
) -> None:
    db = application.server.db
    await application.admin.made("/api/v1/organizations", {"name": "acme"})
    ada = await application.person("ada", "viewer")
    within(application.admin, "acme")
    await application.admin.made("/api/v1/roles", {"principal": "ada", "role": "viewer"})

    async def login(tx: Tx) -> str:
        return (await sessions.start(tx, await store.user(tx, "ada"))).token

    cookie = await db.write(login)
    who = await sessions.principal(db, cookie)
    assert who is not None
    assert (who.organization_id, who.is_organization_chosen) == (ada.principal.organization_id, False)
    chosen = await db.write(lambda tx: organizations.choose_for_session(tx, who, "acme"))
    there = await sessions.principal(db, cookie)
    assert there is not None
    assert (there.organization_id, there.is_organization_chosen) == (chosen.id, True)
    back = await db.write(lambda tx: organizations.choose_for_session(tx, there, "default"))
    assert back.id == ada.principal.organization_id, "one comes back from there"
    await db.write(lambda tx: organizations.choose_for_session(tx, there, "acme"))
    role = (await application.admin.listed("/api/v1/roles", principal="ada"))[0]["id"]
    await application.admin.delete(f"/api/v1/roles/{role}")
    again = await sessions.principal(db, cookie)
    assert again is not None
    assert again.organization_id == ada.principal.organization_id, "the role there is gone"
    with pytest.raises(Exception, match="there is no organization"):
        await db.write(lambda tx: organizations.choose_for_session(tx, again, "acme"))
    with pytest.raises(Exception, match="only a session"):
        await db.write(lambda tx: organizations.choose_for_session(tx, ada.principal, "acme"))


@pytest.mark.feature("R8.several")
async def test_what_somebody_does_is_recorded_where_they_do_it_and_their_tokens_at_home(
    application: Application,
) -> None:
    await application.admin.made("/api/v1/organizations", {"name": "acme"})
    ada = await application.person("ada", "viewer")
    admin = within(application.admin, "acme")
    await admin.made("/api/v1/roles", {"principal": "ada", "role": "owner"})
    within(ada, "acme")
    await ada.made("/api/v1/groups", {"path": "made"})
    await ada.made("/api/v1/tokens", {"name": "laptop"})
    there = {entry["action"] for entry in await ada.listed("/api/v1/audit", actor="ada")}
    assert there == {"group.create"}
    within(admin, "default")
    here = {entry["action"] for entry in await admin.listed("/api/v1/audit", actor="ada")}
    assert here == {"token.create"}
    del admin.headers[ORGANIZATION_HEADER]
    everywhere = {entry["action"] for entry in await admin.listed("/api/v1/audit", actor="ada")}
    assert everywhere == {"group.create", "token.create"}, "an administrator who names none reads all of them"


@pytest.mark.feature("X3.roles")
async def test_jobs_that_are_asked_for_at_once_run_in_the_organization_that_each_request_names(
    application: Application,
) -> None:
    """Requests of one person are committed together, and a path was looked up once for all of their organizations."""
    await application.admin.made("/api/v1/organizations", {"name": "acme"})
    names = ("acme", "default")
    modules: dict[str, str] = {}
    people: dict[str, Person] = {}
    for name in names:
        admin = within(application.stranger(), name)
        admin.headers["Authorization"] = application.admin.headers["Authorization"]
        await admin.made("/api/v1/groups", {"path": "team"})
        modules[name] = (await admin.made("/api/v1/modules", {"path": "team/app", "source": SOURCE}))["id"]
        people[name] = admin
    asked = names * 10
    made = await asyncio.gather(
        *(people[name].made("/api/v1/modules/team%2Fapp/jobs", {"type": "PLAN"}) for name in asked)
    )
    assert [job["module_id"] for job in made] == [modules[name] for name in asked]


@pytest.mark.feature("R8.several", "X3.people")
async def test_a_name_that_is_taken_tells_nothing_about_other_organizations(application: Application) -> None:
    """An owner learned the names of the users of other organizations: creating a user, or a rename, was answered with 409."""
    await application.admin.made("/api/v1/organizations", {"name": "acme"})
    acme = await application.person("olga@acme", "owner", organization="acme")
    ours = await application.person("otto", "owner")
    await application.admin.made("/api/v1/users", {"name": "grace"})
    for name in ("grace", "nobody-has-this"):
        refused = await acme.refused("POST", "/api/v1/users", 400, json={"name": name})
        assert f"use `{name}@acme`" in refused
        assert "end with @acme" in await acme.refused("PATCH", "/api/v1/users/olga@acme", 400, json={"name": name})
    await acme.made("/api/v1/users", {"name": "grace@acme"})
    assert "already" in await acme.refused("POST", "/api/v1/users", 409, json={"name": "grace@acme"}), (
        "one of their own"
    )
    for name in ("grace@acme", "nobody-has-this@acme", "a@b@acme"):
        assert "address of e-mail" in await ours.refused("POST", "/api/v1/users", 400, json={"name": name})
        assert "address of e-mail" in await ours.refused("PATCH", "/api/v1/users/grace", 400, json={"name": name})
    await ours.made("/api/v1/users", {"name": "grace@acme.example"})
