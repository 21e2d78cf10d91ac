"""The pages of published modules: the list, a module with its documentation, its form, and the panel of a group."""

import html
import re

import pytest

from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import Visitor, logged_in
from tests.server.registry.publisher import address, create, group, publish, versions
from tests.server.tree.modules.packed_modules import packed

HERE = "/dashboard/registry"
pytestmark = pytest.mark.feature("P7.pages")
README = b"# Hello\n\n<script>alert(1)</script> [x](javascript:alert(2)) <img src=https://evil.example/x>\n"
MAIN = b'variable "zone" {\n  description = "<b>bold</b>"\n}\noutput "it" { value = 1 }\n'


@on_one
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


@on_one
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


@on_one
async def test_who_may_not_change_it_is_not_told_what_is_wrong_with_the_form(application: Application) -> None:
    await group(application, "team")
    here = f"{HERE}/{(await create(application.admin, 'team/vpc/aws'))['id']}"
    await application.person("vera", "viewer", "team")
    vera = await logged_in(application, "vera")
    await vera.see(here)
    assert (await vera.submit(here, tag_prefix="x" * 500)).status_code == 403


async def upload(someone: Visitor, *files: tuple[str, bytes]) -> str:
    """Upload an archive as the page does: with the session, and with the token of the form."""
    headers = {"X-CSRF-Token": someone.csrf, "Content-Type": "application/gzip"}
    answer = await someone.post("/api/v1/archives", content=packed(*files), headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def wrong(page: str) -> dict[str, str]:
    """Return the messages of the form for a version, by the field beside which each stands."""
    found = re.findall(r'<span class="wrong" id="([\w-]+)-wrong" role="alert"[^>]*>(.+?)</span>', page)
    return {field: html.unescape(re.sub("<[^>]+>", "", text)) for field, text in found}


async def test_a_version_is_published_from_an_archive_and_never_changes(application: Application) -> None:
    await group(application, "team")
    page = f"{HERE}/{(await create(application.admin, 'team/vpc/aws'))['id']}"
    someone = await logged_in(application)
    assert f'action="{page}/versions"' in await someone.see(page)
    archive = await upload(someone, ("main.tf", MAIN))
    answer = await someone.submit(f"{page}/versions", version=" 1.0.0 ", archive=archive)
    assert answer.headers["location"] == f"{page}?version=1.0.0"
    assert await versions(application.admin, "team/vpc/aws") == ["1.0.0"]
    assert "&lt;b&gt;bold&lt;/b&gt;" in await someone.see(page)
    again = await someone.submit(f"{page}/versions", version="1.0.0", archive=await upload(someone, ("main.tf", MAIN)))
    assert again.headers["location"] == f"{page}?version=1.0.0", "the same files may be sent again"

    other = await upload(someone, ("main.tf", b"# other"))
    refused = await someone.submit(f"{page}/versions", version="1.0.0", archive=other, archive_name="vpc.tar.gz")
    assert "publish these files under another number" in wrong(refused.text)["version"]
    assert f'name="archive" value="{other}"' in refused.text, "the archive need not be uploaded again"
    assert "vpc.tar.gz is uploaded." in refused.text
    await someone.submit(f"{page}/versions/1.0.0/withdraw", reason="")
    refused = await someone.submit(f"{page}/versions", version="1.0.0", archive=archive)
    assert "is withdrawn: give it back" in wrong(refused.text)["version"]
    assert await application.scalar("SELECT count(*) FROM published_versions") == 1


async def test_what_is_wrong_with_a_version_stands_beside_its_field(application: Application) -> None:
    await group(application, "team")
    here = f"{HERE}/{(await create(application.admin, 'team/vpc/aws'))['id']}"
    someone = await logged_in(application)
    await someone.see(here)
    good = await upload(someone, ("main.tf", MAIN))
    for version, words in (
        ("", "Write three numbers, such as 1.2.3."),
        ("1.0", "'1.0' is not a version to publish"),
        ("1.0.0-" + "a" * 64, "Write at most 64 characters."),
    ):
        found = wrong((await someone.submit(f"{here}/versions", version=version, archive=good)).text)
        assert list(found) == ["version"]
        assert words in found["version"]
    outside = await upload(someone, ("main.tf", b'module "x" { source = "../x" }'))
    for archive, words in (
        ("", "Choose an archive, and wait until it is uploaded."),
        ("nonsense", "'nonsense' is not an id"),
        ("arc_" + "0" * 32, "there is no archive"),
        (await upload(someone, ("notes.txt", b"")), "The archive has no configuration"),
        (outside, "is not among the files that are published"),
    ):
        found = wrong((await someone.submit(f"{here}/versions", version="1.0.0", archive=archive)).text)
        assert list(found) == ["version-archive"], archive
        assert words.lower() in found["version-archive"].lower()
    nothing = await someone.post("/api/v1/archives", content=b"no archive", headers={"X-CSRF-Token": someone.csrf})
    assert nothing.status_code == 400
    assert "tar.gz" in nothing.json()["detail"], "the script of the page shows this beside the field"
    assert await application.scalar("SELECT count(*) FROM published_versions") == 0


@pytest.mark.feature("X3.roles")
async def test_only_those_who_may_change_the_group_publish_a_version(application: Application) -> None:
    await group(application, "team")
    here = f"{HERE}/{(await create(application.admin, 'team/vpc/aws'))['id']}"
    await application.person("vera", "viewer", "team")
    await application.person("olga", "owner", "team")
    vera = await logged_in(application, "vera")
    shown = await vera.see(here)
    assert "Publish a version" not in shown
    assert "terracrew registry publish" not in shown
    answer = await vera.submit(f"{here}/versions", version="x" * 100)
    assert answer.status_code == 403, "the right is asked before the form is read"
    olga = await logged_in(application, "olga")
    await olga.see(here)
    theirs = await upload(olga, ("main.tf", MAIN))
    admin = await logged_in(application)
    await admin.see(here)
    refused = await admin.post(f"{here}/versions", data={"version": "1.0.0", "archive": theirs})
    assert refused.status_code == 403, "the token of the page is missing"
    assert (await olga.submit(f"{here}/versions", version="1.0.0", archive=theirs)).status_code == 303
    assert (await olga.submit(f"{HERE}/pub_{'0' * 32}/versions", version="1.0.0")).status_code == 404


@on_one
async def test_a_version_is_uploaded_beside_those_from_tags(application: Application) -> None:
    await group(application, "team")
    url = "https://git.example.com/acme/vpc"
    made = await create(application.admin, "team/vpc/aws", url=url, tag_prefix="vpc/")
    someone = await logged_in(application)
    assert "Tags such as <code>vpc/v1.0.0</code> become versions by themselves." in await someone.see(
        f"{HERE}/{made['id']}"
    )
    archive = await upload(someone, ("main.tf", MAIN))
    answer = await someone.submit(f"{HERE}/{made['id']}/versions", version="1.0.0", archive=archive)
    assert answer.status_code == 303
