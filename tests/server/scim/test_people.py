"""An identity provider creates, finds, changes and deactivates people."""

import asyncio

import httpx
import pytest

from terracrew.server.identity.people import service as people
from terracrew.server.identity.people import sessions
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in, visitor
from tests.server.scim.conftest import BASE, Directory, directory_of

pytestmark = pytest.mark.feature("P1.scim")
ENTRA = {
    "schemas": [
        "urn:ietf:params:scim:schemas:core:2.0:User",
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User",
    ],
    "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
    "userName": "Ada.King@example.com",
    "active": True,
    "displayName": "Ada King",
    "emails": [{"primary": True, "type": "work", "value": "ada@example.com"}],
    "meta": {"resourceType": "User"},
    "name": {"formatted": "Ada King", "familyName": "King", "givenName": "Ada"},
    "roles": [],
    "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "IT"},
}


async def test_a_person_is_created_found_changed_and_deactivated(
    application: Application, directory: Directory
) -> None:
    made = await directory.made("Users", **ENTRA)
    assert (made["userName"], made["active"], made["externalId"]) == ("Ada.King@example.com", True, ENTRA["externalId"])
    assert made["meta"]["location"].endswith(f"{BASE}/Users/{made['id']}")
    users = await application.admin.listed("/api/v1/users")
    assert {each["name"]: each["has_password"] for each in users}["ada.king@example.com"] is False
    for wanted in (
        'userName eq "ADA.king@example.com"',
        f'externalId eq "{ENTRA["externalId"]}"',
        f'id eq "{made["id"]}"',
        'emails.value eq "ada@example.com"',
        'userName eq "ada.king@example.com" and active eq true',
    ):
        assert [each["id"] for each in await directory.found("Users", wanted)] == [made["id"]], wanted
    for wanted in (
        'userName eq "ada"',
        'externalId eq "%"',
        'emails.value eq "ada%"',
        'id eq "a" and id eq "b"',
        "active eq false",
    ):
        assert await directory.found("Users", wanted) == [], wanted
    changed = await directory.patched(
        f"Users/{made['id']}",
        {"op": "Replace", "path": "userName", "value": "ada@example.com"},
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "a@example.com"},
    )
    assert (changed["userName"], changed["emails"][0]["value"]) == ("ada@example.com", "a@example.com")
    assert "ada@example.com" in {each["name"] for each in await application.admin.listed("/api/v1/users")}
    off = await directory.patched(f"Users/{made['id']}", {"op": "Replace", "path": "active", "value": "False"})
    assert off["active"] is False
    put = await directory.put(f"{BASE}/Users/{made['id']}", json={"userName": "ada@example.com"})
    assert (put.json()["active"], "emails" in put.json()) == (False, False), "a replacement enables nobody by the way"
    assert (await directory.delete(f"{BASE}/Users/{made['id']}")).status_code == 204
    assert (await directory.get(f"{BASE}/Users/{made['id']}")).status_code == 404
    assert await directory.found("Users", 'userName eq "ada@example.com"') == []
    (kept,) = [each for each in await application.admin.listed("/api/v1/users") if each["id"] == made["id"]]
    assert kept["is_disabled"] is True, "the user stays with what they have done"
    actions = await application.server.db.read(
        lambda tx: tx.all("SELECT action, actor_name FROM audit WHERE target_id = :id ORDER BY id", id=made["id"])
    )
    assert [each["action"] for each in actions] == [
        "user.create",
        "provisioning.change_user",
        "user.rename",
        "user.disable",
        "provisioning.change_user",
        "provisioning.delete_user",
    ]


async def test_what_a_deactivated_person_could_act_with_ends_at_once_and_does_not_come_back(
    application: Application, directory: Directory
) -> None:
    made = await directory.person("grace@example.com")
    name = made["userName"]
    browser = await logged_in(application, name)
    user = await application.server.db.read(lambda tx: people.store.user(tx, name))
    token = await application.as_user(sessions.person(user, None))
    link = await people.make_link(application.server.db, name)
    assert (await token.get("/api/v1/me")).status_code == 200
    assert (await browser.get("/dashboard/account")).status_code == 200
    for active in (False, True):
        await directory.patched(f"Users/{made['id']}", {"op": "replace", "value": {"active": active}})
        assert (await token.get("/api/v1/me")).status_code == 401
        assert (await browser.get("/dashboard/account")).status_code == 303
        assert (await application.stranger().get(f"/login/link/{link}")).status_code == 410
    assert await application.scalar("SELECT is_disabled FROM users WHERE id = :id", id=made["id"]) in (False, 0)


async def test_who_comes_back_is_the_same_user_by_the_external_id_and_nobody_by_a_name(
    application: Application, directory: Directory
) -> None:
    first = await directory.person("sam@example.com", externalId="42")
    await directory.delete(f"{BASE}/Users/{first['id']}")
    namesake = await directory.person("sam@example.com", externalId="43")
    assert namesake["id"] != first["id"]
    await directory.delete(f"{BASE}/Users/{namesake['id']}")
    again = await directory.person("sam@example.com", externalId="42")
    assert (again["id"], again["active"]) == (first["id"], True)
    twice = await directory.post(f"{BASE}/Users", json={"userName": "SAM@example.com"})
    assert (twice.status_code, twice.json()["scimType"]) == (409, "uniqueness")


@on_one
async def test_a_user_that_exists_is_managed_only_after_an_owner_says_so(
    application: Application, directory: Directory
) -> None:
    await application.person("priya")
    made = await directory.person("priya")
    assert made["id"] != application.admin.principal.id
    names = {each["name"] for each in await application.admin.listed("/api/v1/users")}
    assert {"priya", "priya-2"} <= names, "nobody becomes another person by a name"
    browser = await logged_in(application)
    del browser
    await application.person("elena")
    local = application.admin
    body = {"user": "elena", "external_id": "77"}
    assert (await local.post("/api/v1/provisioning/people", json=body)).status_code == 403, "with an API token"


@on_one
async def test_only_the_provisioner_may_and_only_in_its_organization(
    application: Application, directory: Directory
) -> None:
    other = await application.person("olga", "owner", organization="other")
    theirs = await directory_of(application, other.principal)
    mine, foreign = await directory.person("ada@example.com"), await theirs.person("zoe")
    assert foreign["userName"] == "zoe"
    assert [each["id"] for each in (await directory.shown("Users"))["Resources"]] == [mine["id"]]
    assert [each["id"] for each in (await theirs.shown("Users"))["Resources"]] == [foreign["id"]]
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        body = {"userName": "x", "Operations": [{"op": "replace", "path": "active", "value": False}]}
        answer = await theirs.request(method, f"{BASE}/Users/{mine['id']}", json=body)
        assert answer.status_code == 404, method
    assert (
        await theirs.post(f"{BASE}/Groups", json={"displayName": "g", "members": [{"value": mine["id"]}]})
    ).status_code == 400
    header = {"Terracrew-Organization": "default"}
    assert (await theirs.get(f"{BASE}/Users", headers=header)).status_code in (403, 404)
    admin, owner = application.admin, await application.person("omar", "owner")
    browser, stranger = await logged_in(application), application.stranger()
    for who, status in ((admin, 403), (owner, 403), (browser, 403), (stranger, 401)):
        for path in ("Users", "Groups", f"Users/{mine['id']}", 'Users?filter=id eq "a" and id eq "b"'):
            answer = await who.get(f"{BASE}/{path}")
            assert answer.status_code == status, (path, answer.text)
            assert answer.headers["Content-Type"] in ("application/scim+json", "application/problem+json")
    account = await directory.get("/api/v1/users")
    assert account.status_code == 401, "the secret itself opens nothing else"


@on_one
async def test_an_account_that_no_longer_provisions_gets_nothing(
    application: Application, directory: Directory
) -> None:
    await directory.person("ada@example.com")
    await application.admin.patch(f"/api/v1/service-accounts/{directory.account_id}", json={"is_disabled": True})
    assert (await directory.get(f"{BASE}/Users")).status_code == 401
    await application.admin.patch(f"/api/v1/service-accounts/{directory.account_id}", json={"is_disabled": False})
    assert (await directory.get(f"{BASE}/Users")).status_code == 200
    assert (await application.admin.delete(f"/api/v1/service-accounts/{directory.account_id}")).status_code == 204
    assert (await directory.get(f"{BASE}/Users")).status_code == 401


@on_one
async def test_administrators_of_the_server_are_not_managed(application: Application, directory: Directory) -> None:
    made = await directory.person("boss@example.com")
    await application.server.db.write(lambda tx: people.store.set_system_admin(tx, made["id"], is_system_admin=True))
    for answer in (
        await directory.patch(
            f"{BASE}/Users/{made['id']}", json={"Operations": [{"op": "replace", "path": "active", "value": False}]}
        ),
        await directory.delete(f"{BASE}/Users/{made['id']}"),
    ):
        assert answer.status_code == 403


@on_one
@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[]",
        "null",
        '"x"',
        '{"userName": ""}',
        '{"userName": null}',
        '{"userName": 1}',
        '{"userName": "a\\u0000"}',
        '{"userName": "a\\u001b"}',
        '{"userName": "a", "emails": [{"value": 1}]}',
        '{"userName": "a", "emails": "' + "x" * 300 + '"}',
        '{"userName": "a", "name": []}',
        '{"userName": "a", "active": "perhaps"}',
        '{"userName": "' + "a" * 257 + '"}',
        '{"userName": "a", "emails": [' + ",".join(f'{{"value": "{n}"}}' for n in range(21)) + "]}",
        "[" * 2000,
    ],
)
async def test_what_is_not_a_person_is_refused(directory: Directory, body: str) -> None:
    answer = await directory.post(f"{BASE}/Users", content=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert (await directory.shown("Users"))["totalResults"] == 0


@on_one
async def test_lists_have_pages_and_leave_out_what_is_not_asked_for(directory: Directory) -> None:
    for number in range(5):
        await directory.person(f"p{number}@example.com", displayName="x")
    seen: list[str] = []
    for first in (1, 3, 5):
        page = (await directory.get(f"{BASE}/Users", params={"startIndex": first, "count": 2})).json()
        assert (page["totalResults"], page["startIndex"]) == (5, first)
        seen += [each["userName"] for each in page["Resources"]]
    assert seen == [f"p{number}@example.com" for number in range(5)]
    for count, length in ((0, 0), (-1, 0), (100_000, 5)):
        page = (await directory.get(f"{BASE}/Users", params={"count": count, "startIndex": -3})).json()
        assert (len(page["Resources"]), page["totalResults"], page["startIndex"]) == (length, 5, 1)
    short = (await directory.get(f"{BASE}/Users", params={"attributes": "userName", "count": 1})).json()["Resources"][0]
    assert short.keys() == {"schemas", "id", "userName"}
    short = (await directory.get(f"{BASE}/Users", params={"excludedAttributes": "displayName,meta", "count": 1})).json()
    assert short["Resources"][0].keys() == {"schemas", "id", "userName", "active"}
    refused = await directory.get(f"{BASE}/Users", params={"filter": 'userName co "p"'})
    assert (refused.status_code, refused.json()["scimType"]) == (400, "invalidFilter")
    for values in ({"startIndex": "one"}, {"count": 10**9}, {"filter": "x" * 2001}):
        refused = await directory.get(f"{BASE}/Users", params=values)
        assert (refused.status_code, refused.json()["schemas"]) == (
            400,
            ["urn:ietf:params:scim:api:messages:2.0:Error"],
        )


async def test_changes_at_the_same_time_lose_nothing(directory: Directory) -> None:
    ids = [(await directory.person(f"p{number}@example.com"))["id"] for number in range(6)]
    group = await directory.made("Groups", displayName="crew")

    async def join(user_id: str) -> httpx.Response:
        add = {"op": "Add", "path": "members", "value": [{"value": user_id}]}
        return await directory.patch(f"{BASE}/Groups/{group['id']}", json={"Operations": [add]})

    answers = await asyncio.gather(*(join(each) for each in ids))
    assert {each.status_code for each in answers} == {200}
    members = (await directory.shown(f"Groups/{group['id']}"))["members"]
    assert sorted(each["value"] for each in members) == sorted(ids)


@on_one
async def test_a_password_does_not_come_back_with_its_person(application: Application, directory: Directory) -> None:
    made = await directory.person("grace@example.com")
    await logged_in(application, made["userName"])
    for active in (False, True):
        await directory.patched(f"Users/{made['id']}", {"op": "replace", "path": "active", "value": active})
    answer = await visitor(application).submit("/login", name=made["userName"], password="correct horse battery")
    assert answer.status_code == 401, "nobody knows who has learned it meanwhile"


async def test_hostile_filters_and_operations_are_refused_and_never_fail(directory: Directory) -> None:
    made = await directory.person("ada@example.com")
    for wanted in ('userName eq "a\\u0000"', 'emails eq "\\u0000"'):
        answer = await directory.get(f"{BASE}/Users", params={"filter": wanted})
        assert (answer.status_code, answer.json()["scimType"]) == (400, "invalidFilter"), answer.text
        body = {"filter": wanted}
        assert (await directory.post(f"{BASE}/.search", json=body)).status_code == 400
    primary = {"op": "add", "path": 'emails[type eq "work"].primary', "value": True}
    assert "emails" not in await directory.patched(f"Users/{made['id']}", primary), "an address without a value is none"
    group = await directory.made("Groups", displayName="crew")
    shown = {"op": "add", "path": 'members[display eq "x"].type', "value": "User"}
    assert "members" not in await directory.patched(f"Groups/{group['id']}", shown)


@on_one
async def test_an_api_token_lets_nobody_act_as_the_provisioner(application: Application, directory: Directory) -> None:
    """With its secret, somebody who found the token could make a person of their own an owner by a group, for good."""
    account = f"/api/v1/service-accounts/{directory.account_id}"
    for path, body in (
        ("secrets", {}),
        ("trust-policies", {"issuer": "https://ci.example.com", "claims": {"sub": "x"}}),
    ):
        answer = await application.admin.post(f"{account}/{path}", json=body)
        assert (answer.status_code, "provisions people" in answer.text) == (403, True), answer.text
    other = await application.admin.made("/api/v1/service-accounts", {"name": "ci"})
    await application.admin.made(f"/api/v1/service-accounts/{other['id']}/secrets", {})
