"""Connections are made, changed, tested and deleted over the API by those who may, and nobody reads their secrets."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.discovery import reads as discovery_reads
from terracrew.server.forges import repository_store, store
from terracrew.server.forges.deliveries import ForgeDeliveries
from terracrew.server.forges.hooks import PATH
from terracrew.server.forges.polling import ForgePolling
from terracrew.server.forges.watching import RepositoryWatch
from terracrew.server.registry import tags
from tests.builders.clock import ShiftedClock
from tests.forges import fake_forge
from tests.forges.fake_forge import COMMENTS, HOOKS, OWNER_TOKEN, STATUSES, Answer, FakeForge, FakeRepository
from tests.forges.fake_github import APP_ID, PRIVATE_KEY, FakeGitHub
from tests.server.application import Application, on_one, open_application
from tests.server.forges.watched import FAKES

pytestmark = pytest.mark.feature("F1.connections")


@pytest.fixture
async def application(
    database_url: str, memory_path: Path, database_clock: ShiftedClock | None
) -> AsyncIterator[Application]:
    """A server that forges reach at an address of their own, and that may ask forges on this machine."""
    settings: dict[str, Any] = {"public_url": "https://terracrew.example.com", "private_destinations": ["127.0.0.1"]}
    async with open_application(database_url, memory_path / "data", clock=database_clock, **settings) as opened:
        yield opened


@pytest.fixture
async def fake() -> AsyncIterator[FakeGitHub]:
    async with fake_forge.running(FakeGitHub()) as running:
        running.repository()
        yield running


def wanted(fake: FakeForge, kind: str = "github", **more: Any) -> dict[str, Any]:
    return {"name": "forge", "kind": kind, "base_url": fake.url, "token": OWNER_TOKEN, **more}


async def poll(application: Application) -> None:
    server = application.server
    url = f"{server.settings.url}{PATH}"
    polling = ForgePolling(server.db, server.forges, server.id, 60.0, url)
    while await polling.step():
        pass


@pytest.mark.feature("F1.secrets")
async def test_a_connection_is_made_shown_changed_and_deleted_and_tells_no_secret(
    application: Application, fake: FakeGitHub
) -> None:
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "shop"})
    made = await admin.made("/api/v1/forges", wanted(fake, group="shop", description="our forge"))
    assert (made["path"], made["kind"], made["hook_url"]) == (
        "shop/forge",
        "github",
        f"https://terracrew.example.com{PATH}/{made['id']}",
    )
    listed = await admin.listed("/api/v1/forges")
    assert [each["id"] for each in listed] == [made["id"]]
    changed = await admin.patch("/api/v1/forges/shop%2Fforge", json={"name": "git", "owner": "acme", "token": ""})
    assert changed.status_code == 200
    assert (changed.json()["path"], changed.json()["owner"]) == ("shop/git", "acme")
    shown = (await admin.get(f"/api/v1/forges/{made['id']}")).text
    audit = (await admin.get("/api/v1/audit")).text
    for text in (str(made), str(listed), changed.text, shown, audit):
        assert OWNER_TOKEN not in text
    assert '"changed":["name","owner"]' in audit.replace(" ", "")
    row = await application.server.db.read(lambda tx: store.get(tx, made["id"]))
    assert OWNER_TOKEN.encode() not in row.sealed
    assert application.server.forges.credential(row).token == OWNER_TOKEN
    await admin.refused("DELETE", "/api/v1/groups/shop", 409)
    assert (await admin.delete("/api/v1/forges/shop%2Fgit")).status_code == 204
    assert await admin.listed("/api/v1/forges") == []


@on_one
async def test_what_is_wrong_with_a_connection_is_said_of_its_field(application: Application, fake: FakeGitHub) -> None:
    admin = application.admin
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"kind": "gitea", "base_url": ""}, "base_url"),
        ({"base_url": "https://user:hunter2@git.example.com"}, "base_url"),
        ({"base_url": "ftp://git.example.com"}, "base_url"),
        ({"token": ""}, "token"),
        ({"token": "with space"}, "token"),
        ({"token": "ä"}, "token"),
        ({"app_id": "12", "token": ""}, "private_key"),
        ({"app_id": "12", "token": "", "private_key": "-----BEGIN"}, "private_key"),
        ({"app_id": "x", "token": "", "private_key": PRIVATE_KEY}, "app_id"),
        ({"token": "", "private_key": PRIVATE_KEY}, "app_id"),
        ({"kind": "gitlab", "app_id": "12"}, "app_id"),
        ({"kind": "gitlab", "username": "ada"}, "username"),
        ({"kind": "git", "username": "ada:x"}, "username"),
        ({"kind": "git", "username": "ada", "token": ""}, "token"),
        ({"owner": "../acme"}, "owner"),
        ({"description": "x" * 501}, "description"),
        ({"name": "with space"}, ""),
    ]
    for values, field in wrong:
        answer = await admin.post("/api/v1/forges", json=wanted(fake) | values)
        assert answer.status_code == 400, values
        assert "hunter2" not in answer.text.replace("user:hunter2@git", "")
        assert "BEGIN RSA" not in answer.text or field == "private_key"
        assert answer.json().get("field", "") == field, values
    await admin.made("/api/v1/forges", wanted(fake))
    await admin.refused("POST", "/api/v1/forges", 409, json=wanted(fake))
    await admin.refused("PATCH", "/api/v1/forges/forge", 400, json={"base_url": "https://evil.example.com"})
    await admin.refused("PATCH", "/api/v1/forges/forge", 400, json={"app_id": "12"})
    assert fake.asked == {}


@pytest.mark.feature("F1.place")
@on_one
async def test_a_connection_is_seen_and_changed_by_those_who_may_see_and_change_its_group(
    application: Application, fake: FakeGitHub
) -> None:
    admin = application.admin
    for path in ("shop", "bank"):
        await admin.made("/api/v1/groups", {"path": path})
    await admin.made("/api/v1/forges", wanted(fake, group="shop"))
    owner = await application.person("olga", "owner", "shop")
    viewer = await application.person("vera", "viewer", "shop")
    operator = await application.person("otto", "operator", "shop")
    outsider = await application.person("bert", "owner", "bank")
    one = "/api/v1/forges/shop%2Fforge"
    changes: list[tuple[str, str, Any]] = [
        ("PATCH", one, {"token": "mine"}),
        ("POST", f"{one}/test", {}),
        ("POST", f"{one}/hook-secret", {}),
        ("POST", f"{one}/repositories", {"name": "acme/network"}),
        ("POST", f"{one}/repositories/acme%2Fnetwork/hook", {}),
        ("DELETE", f"{one}/repositories/acme%2Fnetwork", None),
        ("DELETE", one, None),
        ("POST", "/api/v1/forges", wanted(fake, group="shop", name="second")),
    ]
    for who in (viewer, operator):
        assert len(await who.listed("/api/v1/forges")) == 1
        assert (await who.get(one)).status_code == 200
        for method, path, body in changes:
            assert (await who.request(method, path, json=body)).status_code == 403, path
    assert await outsider.listed("/api/v1/forges") == []
    for method, path, body in [("GET", one, None), ("GET", f"{one}/deliveries", None), *changes]:
        assert (await outsider.request(method, path, json=body)).status_code in (403, 404), path
    assert (await owner.patch(one, json={"description": "ours"})).status_code == 200
    assert fake.asked == {}


@pytest.mark.feature("F1.permissions")
@pytest.mark.parametrize("kind", FAKES)
@on_one
async def test_a_test_names_each_missing_permission_and_how_to_give_it(application: Application, kind: str) -> None:
    admin = application.admin
    async with fake_forge.running(FAKES[kind]()) as fake:
        fake.repository()
        await admin.made("/api/v1/forges", wanted(fake, kind))
        found = (await admin.post("/api/v1/forges/forge/test", json={"repository": "acme/network"})).json()
        assert found["is_good"], found
        limited = fake.token_without(STATUSES, COMMENTS, HOOKS)
        await admin.patch("/api/v1/forges/forge", json={"token": limited})
        found = (await admin.post("/api/v1/forges/forge/test", json={"repository": "acme/network"})).json()
        missing = {each["name"]: each["message"] for each in found["findings"] if not each["is_good"]}
        assert {"write commit statuses", "write comments", "make hooks"} <= missing.keys()
        assert all(missing.values())
        shown = (await admin.get("/api/v1/forges/forge")).json()
        assert shown["findings"] == found["findings"]
        assert shown["tested_at"]


@on_one
async def test_a_test_tells_that_the_forge_is_away_and_ends_that_when_it_is_back(
    application: Application, fake: FakeGitHub
) -> None:
    admin = application.admin
    await admin.made("/api/v1/forges", wanted(fake))
    fake.instead = lambda _: Answer(503, {"message": "maintenance"})
    found = (await admin.post("/api/v1/forges/forge/test", json={})).json()
    assert [each["name"] for each in found["findings"]] == ["reach the forge"]
    assert "maintenance" in (await admin.get("/api/v1/forges/forge")).json()["problem"]
    fake.instead = lambda _: None
    assert (await admin.post("/api/v1/forges/forge/test", json={})).json()["is_good"]
    assert (await admin.get("/api/v1/forges/forge")).json()["problem"] == ""


@on_one
async def test_a_private_address_is_refused_unless_the_operator_allows_it(
    database_url: str, memory_path: Path, fake: FakeGitHub
) -> None:
    async with open_application(database_url, memory_path / "other") as opened:
        await opened.admin.made("/api/v1/forges", wanted(fake))
        found = (await opened.admin.post("/api/v1/forges/forge/test", json={})).json()
        [problem] = [each["message"] for each in found["findings"] if not each["is_good"] and each["name"] == "sign in"]
        assert "private_destinations" in problem
        assert fake.asked == {}


async def test_repositories_of_modules_are_watched_and_others_are_added(
    application: Application, fake: FakeGitHub
) -> None:
    admin = application.admin
    await admin.made("/api/v1/forges", wanted(fake, owner="acme"))
    source = {"kind": "git", "url": "ssh://git@127.0.0.1/acme/network.git", "branch": "main"}
    await admin.made("/api/v1/modules", {"path": "app", "source": source, "engine": "tofu"})
    elsewhere = {**source, "url": "https://git.example.com/acme/other.git"}
    await admin.made("/api/v1/modules", {"path": "other", "source": elsewhere, "engine": "tofu"})
    watch = RepositoryWatch(application.server.db, discovery_reads.sources)
    await watch.step()
    path = "/api/v1/forges/forge/repositories"
    assert [each["name"] for each in await admin.listed(path)] == ["acme/network"]
    added = await admin.made(path, {"name": "acme/Shop"})
    assert added["is_added"]
    await admin.refused("POST", path, 400, json={"name": "else/where"})
    await admin.refused("POST", path, 400, json={"name": "acme/../x"})
    await admin.refused("DELETE", f"{path}/acme%2Fnetwork", 409)
    await watch.step()
    assert len(await admin.listed(path)) == 2
    assert (await admin.delete(f"{path}/acme%2FSHOP")).status_code == 204
    await admin.delete("/api/v1/modules/app")
    await watch.step()
    assert await admin.listed(path) == []


@pytest.mark.feature("F2.hooks")
@on_one
async def test_a_hook_is_repaired_at_once_and_a_new_secret_reaches_it(
    application: Application, fake: FakeGitHub
) -> None:
    admin = application.admin
    made = await admin.made("/api/v1/forges", wanted(fake))
    await admin.made("/api/v1/forges/forge/repositories", {"name": "acme/network"})
    await poll(application)
    [hook] = fake.repositories["acme/network"].hooks.values()
    assert hook.url == made["hook_url"]
    hook.active, hook.is_disabled_by_forge = False, True
    answer = (await admin.post("/api/v1/forges/forge/repositories/acme%2Fnetwork/hook", json={})).json()
    assert answer["hook_status"] == "enabled"
    assert "disabled" in answer["hook_message"]
    replaced = await admin.made("/api/v1/forges/forge/hook-secret", {})
    assert replaced["url"] == made["hook_url"]
    await poll(application)
    assert hook.secret == replaced["secret"]
    assert await delivered(application, fake, fake.repositories["acme/network"]) == [202]


async def delivered(application: Application, fake: FakeForge, state: FakeRepository) -> list[int]:
    """Open a pull request, and let what the forge delivers arrive."""
    fake.open(state, "feature")
    sender = application.stranger()
    answers = [
        await sender.post(
            each.url.removeprefix(application.server.settings.url), content=each.body, headers=each.headers
        )
        for each in fake.deliveries
    ]
    return [each.status_code for each in answers]


async def test_what_was_delivered_is_listed_and_handled_again(application: Application, fake: FakeGitHub) -> None:
    admin = application.admin
    await admin.made("/api/v1/forges", wanted(fake))
    await admin.made("/api/v1/forges/forge/repositories", {"name": "acme/network"})
    await poll(application)
    assert await delivered(application, fake, fake.repositories["acme/network"]) == [202]
    loop = ForgeDeliveries(application.server.db, application.server.forges, tags.pushed)
    await loop.step()
    page = (await admin.get("/api/v1/forges/forge/deliveries")).json()
    [found] = page["items"]
    assert (found["event"], found["about"], found["problem"]) == ("pull_request", ["acme/network, pull request 3"], "")
    assert found["handled_at"]
    path = f"/api/v1/forges/forge/deliveries/{found['id']}/handle-again"
    assert (await admin.post(path, json={})).json()["handled_at"] is None
    assert await loop.step() == 1
    await admin.refused("POST", "/api/v1/forges/forge/deliveries/fdl_1/handle-again", 404, json={})
    [repository] = await admin.listed("/api/v1/forges/forge/repositories")
    assert (repository["open_pull_requests"], repository["hook_status"]) == (1, "enabled")


@on_one
async def test_an_application_of_github_takes_the_place_of_a_token(application: Application, fake: FakeGitHub) -> None:
    admin = application.admin
    await admin.made("/api/v1/forges", wanted(fake))
    change = {"app_id": str(APP_ID), "private_key": PRIVATE_KEY}
    assert (await admin.patch("/api/v1/forges/forge", json=change)).status_code == 200
    fake.tokens.clear()
    found = (await admin.post("/api/v1/forges/forge/test", json={"repository": "acme/network"})).json()
    assert found["is_good"], found

    async def credential(tx: Tx) -> Any:
        return application.server.forges.credential((await store.everything(tx))[0])

    kept = await application.server.db.read(credential)
    assert (kept.token, kept.private_key) == ("", PRIVATE_KEY.strip())
    await admin.refused("PATCH", "/api/v1/forges/forge", 400, json={"app_id": ""})


@on_one
async def test_a_new_token_ends_the_wait_for_a_forge_that_refused_the_old_one(
    application: Application, fake: FakeGitHub
) -> None:
    admin = application.admin
    await admin.made("/api/v1/forges", wanted(fake, token="old"))
    await admin.made("/api/v1/forges/forge/repositories", {"name": "acme/network"})
    await poll(application)
    before = (await admin.get("/api/v1/forges/forge")).json()
    assert "does not accept the token" in before["problem"]
    assert before["away_until"]
    changed = (await admin.patch("/api/v1/forges/forge", json={"token": OWNER_TOKEN})).json()
    assert (changed["problem"], changed["away_until"]) == ("", None)
    await poll(application)
    [repository] = await admin.listed("/api/v1/forges/forge/repositories")
    assert repository["hook_status"] == "enabled"


@on_one
async def test_deleting_a_connection_takes_everything_with_it(application: Application, fake: FakeGitHub) -> None:
    admin = application.admin
    made = await admin.made("/api/v1/forges", wanted(fake))
    await admin.made("/api/v1/forges/forge/repositories", {"name": "acme/network"})
    fake.open(fake.repositories["acme/network"], "feature")
    await poll(application)
    await admin.delete("/api/v1/forges/forge")
    assert await application.scalar("SELECT count(*) AS count FROM forge_pull_requests") == 0
    assert await application.server.db.read(lambda tx: repository_store.watched(tx)) == []
    assert (await application.stranger().post(f"{PATH}/{made['id']}", content=b"{}")).status_code == 401
