"""The pages of discovery rules: the panel of a group, the form with its preview and its mistakes, and what a rule has found."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.clock import ShiftedClock
from tests.server.application import on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.discovery.found import Found

HERE = "/dashboard/discovery"
pytestmark = [pytest.mark.feature("F6.rule"), on_one]


@pytest.fixture
async def found(
    database_url: str, clock: ShiftedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Found]:
    async with Found.open(database_url, clock, tmp_path, monkeypatch) as made:
        yield made


async def test_a_rule_is_added_on_the_page_of_a_group_looked_at_and_deleted(found: Found) -> None:
    application = found.app
    someone = await logged_in(application)
    group = await application.scalar("SELECT id FROM groups WHERE path = 'team'")
    assert f"{HERE}/create?group={group}" in await someone.see(f"/dashboard/groups/{group}")
    await someone.see(f"{HERE}/create?group={group}")
    typed = {"url": found.url, "engine": "tofu", "name": "all", "include": "prod/*", "module_path": "{flat}"}
    enabled = {"is_enabled": "true", "exclude": "prod/app"}
    answer = await someone.submit(f"{HERE}/create", group=group, **typed, **enabled)
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    await found.step()
    page = await someone.see(address)
    assert "prod/network" in page
    assert "team/prod-network" in page
    assert "1 made" in page
    assert "all" in await someone.see(HERE)
    assert "all" in await someone.see(f"/dashboard/groups/{group}")
    found.remove("prod/network")
    commit = await found.push()
    module = await application.scalar("SELECT id FROM modules")
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "Its folder is gone." in page
    assert commit[:12] in page
    assert (await someone.submit(f"{address}/run")).status_code == 303
    answer = await someone.submit(address, **(typed | {"is_enabled": "", "exclude": ""}))
    assert answer.status_code == 303, answer.text
    assert "Not enabled" in await someone.see(address)
    answer = await someone.submit(f"{address}/delete")
    assert answer.headers["location"] == f"/dashboard/groups/{group}"
    await someone.see(address, 404)


async def test_a_mistake_is_shown_beside_its_field(found: Found) -> None:
    someone = await logged_in(found.app)
    await someone.see(f"{HERE}/create?group=team")
    typed = {"url": found.url, "engine": "tofu", "name": "all", "include": "**", "module_path": "{path}"}
    for change, field, words in (
        ({"include": "/prod"}, "include", "no pattern of folders"),
        ({"module_path": "fixed"}, "module-path", "the same path"),
        ({"url": "https://elsewhere.example.com/a"}, "url", "no connection to a forge"),
        ({"url": "no address"}, "url", "https://"),
        ({"name": "Not A Name"}, "name", "lowercase"),
    ):
        answer = await someone.submit(f"{HERE}/create", group="team", **(typed | change))
        assert answer.status_code == 200
        wrong = re.search(rf'id="{field}-wrong"[^>]*>(.*?)</span>', answer.text) or re.search(
            r'role="alert">(.*?)</p>', answer.text
        )
        assert wrong, (field, answer.text)
        assert words in wrong[1].lower(), (field, wrong[1])


async def test_a_preview_shows_what_would_be_made_and_makes_nothing(found: Found) -> None:
    someone = await logged_in(found.app)
    await someone.see(f"{HERE}/create?group=team")
    typed = {"url": found.url, "engine": "tofu", "name": "all", "include": "**", "module_path": "{flat}"}
    answer = await someone.submit(f"{HERE}/create/preview", group="team", **typed)
    assert answer.status_code == 200
    page = " ".join(re.sub(r"<[^>]*>", " ", answer.text).split())
    assert "2 modules would be made of main at" in page
    assert "team/prod-network" in page
    assert 'value="{flat}"' in answer.text, "what was typed stays"
    assert await found.modules() == {}
    rule = await found.rule()
    address = f"{HERE}/{(await found.show(rule)).id}"
    answer = await someone.submit(f"{address}/preview", include="prod/app", name="all", module_path="{dir}")
    page = " ".join(re.sub(r"<[^>]*>", " ", answer.text).split())
    assert "1 module would be made of main at" in page
    assert (await found.show(rule)).module_path == "{path}"
    found.git.fails_with = 503
    answer = await someone.submit(f"{address}/preview", include="prod/app", name="all", module_path="{dir}")
    assert answer.status_code == 200
    assert 'role="alert"' in answer.text
