"""The pages of published modules: the list, a module with its documentation, its form, and the panel of a group."""

import pytest

from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.registry.publisher import address, create, group, publish

HERE = "/dashboard/registry"
pytestmark = [pytest.mark.feature("P7.pages"), on_one]
README = b"# Hello\n\n<script>alert(1)</script> [x](javascript:alert(2)) <img src=https://evil.example/x>\n"
MAIN = b'variable "zone" {\n  description = "<b>bold</b>"\n}\noutput "it" { value = 1 }\n'


async def test_a_module_is_published_on_the_page_of_a_group_read_and_deleted(application: Application) -> None:
    await group(application, "team/net")
    someone = await logged_in(application)
    team = await application.scalar("SELECT id FROM groups WHERE path = 'team/net'")
    assert f"{HERE}/create?group={team}" in await someone.see(f"/dashboard/groups/{team}")
    await someone.see(f"{HERE}/create?group={team}")
    typed = {"name": "vpc", "system": "aws", "readers": "group", "description": "Three zones"}
    answer = await someone.submit(f"{HERE}/create", group=team, **typed)
    assert answer.status_code == 303, answer.text
    page = answer.headers["location"]
    assert "terracrew registry publish DIR team/net/vpc/aws 1.0.0" in await someone.see(page)
    made = await publish(application.admin, "team/net/vpc/aws", "1.0.0", MAIN, ("README.md", README))
    assert made.status_code == 201
    shown = await someone.see(page)
    assert "team_net/vpc/aws" in shown
    assert "~&gt; 1.0" in shown
    assert "&lt;b&gt;bold&lt;/b&gt;" in shown
    assert "<b>bold" not in shown
    assert "<script>alert" not in shown
    assert "javascript:" not in shown.replace("(javascript:alert(2))", "")
    assert "<img" not in shown
    for path in (HERE, f"{HERE}?q=zones", f"/dashboard/groups/{team}"):
        assert "team/net/vpc/aws" in await someone.see(path)
    assert "No published module matches" in await someone.see(f"{HERE}?q=nothing")

    asked = await someone.see(f"{page}/versions/1.0.0/withdraw")
    assert 'name="reason"' in asked
    assert "No job of a module that you may see has fetched it." in asked
    assert (await someone.submit(f"{page}/versions/1.0.0/withdraw", reason="slow")).status_code == 303
    shown = await someone.see(f"{page}?version=1.0.0")
    assert "This version is withdrawn, so no engine gets it. Slow" in shown
    assert (await someone.submit(f"{page}/versions/1.0.0/restore")).status_code == 303
    assert (await application.admin.get(address("team/net/vpc/aws"))).json()["latest"] == "1.0.0"
    assert (await someone.submit(f"{page}/delete")).status_code == 409
    assert (await someone.submit(f"{page}/look")).status_code == 409, "it follows no repository"
    await someone.submit(f"{page}/versions/1.0.0/withdraw", reason="")
    assert (await someone.submit(f"{page}/delete")).headers["location"] == HERE
    await someone.see(page, 404)


async def test_a_mistake_is_shown_beside_its_field_and_what_is_typed_stays(application: Application) -> None:
    await group(application, "team")
    someone = await logged_in(application)
    team = await application.scalar("SELECT id FROM groups WHERE path = 'team'")
    await someone.see(f"{HERE}/create?group={team}")
    typed = {"name": "vpc", "system": "aws", "readers": "group", "folder": "typed-folder"}
    answer = await someone.submit(f"{HERE}/create", group=team, **typed)
    assert answer.status_code == 200
    assert "give its address" in answer.text
    assert "typed-folder" in answer.text
    assert await application.scalar("SELECT count(*) FROM published_modules") == 0


async def test_who_may_not_change_it_is_not_told_what_is_wrong_with_the_form(application: Application) -> None:
    await group(application, "team")
    here = f"{HERE}/{(await create(application.admin, 'team/vpc/aws'))['id']}"
    await application.person("vera", "viewer", "team")
    vera = await logged_in(application, "vera")
    await vera.see(here)
    assert (await vera.submit(here, tag_prefix="x" * 500)).status_code == 403
