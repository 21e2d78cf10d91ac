"""What a rule would make is shown without making anything, to those who may make it."""

import asyncio
from typing import Any

import pytest

from terracrew.api.discovery import NewDiscoveryRule
from terracrew.errors import Unavailable
from terracrew.server.discovery import service
from tests.server.application import on_one
from tests.server.discovery.found import ROOT, Found

RULES = "/api/v1/discovery-rules"


@pytest.mark.feature("F6.rule")
async def test_a_preview_shows_what_a_new_rule_would_make(found: Found) -> None:
    asked = {"name": "all", "group": "team", "url": found.url, "module_path": "{flat}"}
    answer = await found.app.admin.post(f"{RULES}/preview", json=asked)
    assert answer.status_code == 200, answer.text
    preview = answer.json()
    assert (preview["branch"], preview["commit_id"]) == ("main", found.repository.git("rev-parse", "main"))
    assert [(each["folder"], each["path"], each["state"]) for each in preview["folders"]] == [
        ("prod/app", "team/prod-app", "new"),
        ("prod/network", "team/prod-network", "new"),
    ]
    assert await found.modules() == {}
    for table in ("discovery_rules", "discovery_folders", "forge_repositories"):
        assert await found.app.scalar(f"SELECT count(*) FROM {table}") == 0, table
    entries = (await found.app.admin.get("/api/v1/audit?limit=5")).json()["items"]
    assert entries[0]["action"] == "discovery.preview", "it reads a repository with the credential of a connection"


@on_one
async def test_a_preview_of_a_change_shows_what_is_made_and_what_is_left(found: Found) -> None:
    await found.rule()
    await found.step()
    found.write("stage/app", ROOT)
    found.repository.commit("more")
    answer = await found.app.admin.post(f"{RULES}/team%2Fall/preview", json={"include": ["stage/*"]})
    assert {each["folder"]: each["state"] for each in answer.json()["folders"]} == {
        "prod/app": "made",
        "prod/network": "made",
        "stage/app": "new",
    }
    assert (await found.show()).include == ["**"]
    assert len(await found.modules()) == 2


@on_one
async def test_a_repository_that_takes_long_is_fetched_on_and_the_next_preview_has_it(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, may_go_on, fetches = found.tools[0], asyncio.Event(), 0
    fetch = tools.mirrors.fetch

    async def slow(*arguments: Any) -> Any:
        nonlocal fetches
        fetches += 1
        await may_go_on.wait()
        return await fetch(*arguments)

    monkeypatch.setattr(tools.mirrors, "fetch", slow)
    monkeypatch.setattr(service, "PREVIEW_SECONDS", 0.05)
    asked = NewDiscoveryRule(name="all", group="team", url=found.url)
    for _ in range(3):
        with pytest.raises(Unavailable, match="still being fetched") as refused:
            await service.preview(tools, found.app.admin.principal, asked)
        assert refused.value.details["is_fetching"]
    assert fetches == 1, "everybody waits for the same one"
    may_go_on.set()
    monkeypatch.setattr(service, "PREVIEW_SECONDS", 10.0)
    preview = await service.preview(tools, found.app.admin.principal, asked)
    assert len(preview.folders) == 2
    assert tools.fetches == {}


@on_one
@pytest.mark.feature("F6.place")
async def test_a_preview_says_what_is_wrong(found: Found) -> None:
    wrong: list[tuple[dict[str, Any], tuple[int, ...], str]] = [
        ({"url": f"{found.git.url}/missing"}, (404, 409), "missing"),
        ({"branch": "gone"}, (404,), "no branch gone"),
        ({"url": "https://elsewhere.example.com/x"}, (409,), "no connection to a forge"),
        ({"url": "file:///etc"}, (400,), "url"),
        ({"include": []}, (400,), "include"),
        ({"engine": "bash"}, (400,), "engine"),
        ({"group": "nowhere"}, (404,), "nowhere"),
    ]
    for change, status, words in wrong:
        asked: dict[str, Any] = {"name": "all", "group": "team", "url": found.url} | change
        for path in (f"{RULES}/preview", RULES):
            answer = await found.app.admin.post(path, json=asked)
            if path == RULES and answer.status_code < 300:  # what the repository has is found out later
                await found.app.admin.delete(f"{RULES}/team%2Fall")
                continue
            assert answer.status_code in status, (change, answer.text)
            assert words in answer.text


@on_one
@pytest.mark.feature("F6.place")
async def test_a_rule_takes_the_right_to_change_its_group(found: Found) -> None:
    await found.rule()
    await found.step()
    asked = {"name": "mine", "group": "team", "url": found.url}
    stranger = await found.app.person("eve", "owner", "", organization="elsewhere")
    for role, may_see in (("operator", True), ("viewer", True), (None, False)):
        person = await found.app.person(f"p-{role}", role, "team")
        for path, body in ((RULES, asked), (f"{RULES}/preview", asked)):
            assert (await person.post(path, json=body)).status_code == (403 if may_see else 404)
        for path in ("preview", "run"):
            answer = await person.post(f"{RULES}/team%2Fall/{path}", json={})
            assert answer.status_code == (403 if may_see else 404)
        assert (await person.patch(f"{RULES}/team%2Fall", json={"include": ["x"]})).status_code == (
            403 if may_see else 404
        )
        assert (await person.delete(f"{RULES}/team%2Fall")).status_code == (403 if may_see else 404)
        assert (await person.get(f"{RULES}/team%2Fall")).status_code == (200 if may_see else 404)
        assert len((await person.get(RULES)).json()["items"]) == (1 if may_see else 0)
    rule = (await found.show()).id
    for answer in (
        await stranger.get(f"{RULES}/{rule}"),
        await stranger.delete(f"{RULES}/{rule}"),
        await stranger.post(f"{RULES}/{rule}/preview", json={}),
        await stranger.post(RULES, json=asked),
    ):
        assert answer.status_code == 404
    assert (await stranger.get(RULES)).json()["items"] == []
    owner = await found.app.person("olga", "owner", "team")
    assert (await owner.post(RULES, json=asked)).status_code == 201
    outside = await owner.post(RULES, json=asked | {"group": ""})
    assert outside.status_code in (403, 404)


@on_one
@pytest.mark.feature("F6.place")
async def test_a_rule_acts_on_after_its_maker_has_left(found: Found) -> None:
    owner = await found.app.person("olga", "owner", "team")
    made = await owner.post(RULES, json={"name": "all", "group": "team", "url": found.url, "plans_new": False})
    assert made.status_code == 201, made.text
    await found.app.admin.patch(f"/api/v1/users/{owner.principal.id}", json={"is_disabled": True})
    await found.step()
    assert len(await found.modules()) == 2
