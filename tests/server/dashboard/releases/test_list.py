"""The page of releases, their notes, and the question before one is withdrawn."""

import html
import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.company import releases
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("V4.notes", "U6.clouds")
HERE = "/dashboard/releases"
HOSTILE = "<script>alert(1)</script>"


async def test_before_the_first_release_the_page_says_how_one_is_published(application: Application) -> None:
    someone = await logged_in(application)
    page = await someone.see(HERE)
    assert "No release was published yet" in page
    assert "terracrew release publish" in page
    assert "No release was published yet." in await someone.see(f"{HERE}/notes")


@pytest.mark.usefixtures("jobs")
async def test_the_list_says_what_each_release_is_and_how_many_instances_have_it(application: Application) -> None:
    await releases.publish_all(application.server.db)
    someone = await logged_in(application)
    page = html.unescape(await someone.see(HERE))
    rows = {found[1]: found[0] for found in re.findall(r'(<tr id="rel_.*?class="v">(.*?)<.*?</tr>)', page, re.DOTALL)}
    assert list(rows) == ["1.5.0", "1.4.1", "1.4.0", "1.3.2"], "the highest one is first"
    assert "Latest" in rows["1.5.0"]
    assert "Runners that sleep." in rows["1.5.0"], "the first sentence, without its heading"
    assert "Withdrawn" in rows["1.4.1"]
    assert '<s class="v">1.4.1</s>' in rows["1.4.1"]
    assert "It lost the last lines of a log while draining." in rows["1.4.1"]
    assert "none" in rows["1.4.1"]
    assert "Breaking" in rows["1.4.0"]
    assert "<code>runner.slots</code> is now <code>runner.capacity</code>." in rows["1.4.0"]
    assert re.search(r'num">\d<span class="only-s"> instances', rows["1.4.0"])
    assert '1<span class="only-s"> instance</span>' in rows["1.3.2"]
    assert "since=1.3.2&until=1.5.0" in page, "the notes of the whole way from the oldest version in use"


async def test_the_notes_have_every_version_between_and_a_frame_for_what_to_do_before(application: Application) -> None:
    await releases.publish_all(application.server.db)
    someone = await logged_in(application)
    page = html.unescape(await someone.see(f"{HERE}/notes?since=1.3.2"))
    assert page.index("1.5.0</span>") < page.index('<s class="wd">1.4.1</s>') < page.index("1.4.0</span>")
    assert "3 releases, 1 breaking" in page
    assert "Skipped. It lost the last lines of a log while draining." in page
    assert "Mends a fault" not in page, "nobody gets a release that was withdrawn"
    frame = page[page.index('class="before"') :].partition("</div>")[0]
    assert "Before you update:" in frame
    assert '<span class="del">- slots = 4</span>' in frame
    assert "<strong>Runners that sleep.</strong>" in page
    assert 'href="https://releases.example/1.5.0"' in page
    wheel = "terracrew-1.5.0-py3-none-any.whl"
    assert f'href="/api/v1/releases/1.5.0/artifacts/{wheel}" download="{wheel}"' in page
    assert "## 1.4.0 (2026-11-02)\n\n**Before you update:** `runner.slots` is now" in page, "as Markdown, to copy"
    assert "Reconnects faster" not in page
    assert "Reconnects faster" in await someone.see(f"{HERE}/notes?until=1.4.0")
    assert "No release is between these versions." in await someone.see(f"{HERE}/notes?since=1.5.0")
    assert "is not a version" in await someone.see(f"{HERE}/notes?since={HOSTILE}", 400)


async def test_notes_are_text_and_nothing_else(application: Application) -> None:
    notes = (
        f"# {HOSTILE}\n\n{HOSTILE} [a](javascript:alert(1)) ![b](https://elsewhere.example/b.png) <img src=x onerror=1>"
    )
    hostile = releases.release("1.5.0", (11, 16), notes, HOSTILE, "javascript:alert(1)")
    await releases.publish(application.server.db, hostile)
    someone = await logged_in(application)
    for path in (HERE, f"{HERE}/notes"):
        page = await someone.see(path)
        assert "<script>alert" not in page
        assert "<img" not in page
        assert 'href="javascript' not in page
        assert "&lt;script&gt;" in page


async def test_only_an_administrator_withdraws_a_release_and_says_why(application: Application) -> None:
    await releases.publish_all(application.server.db)
    await application.person("olga", "owner")
    owner = await logged_in(application, "olga")
    page = await owner.see(HERE)
    assert "Withdraw…" not in page
    await owner.see(f"{HERE}/1.5.0/withdraw", 403)
    assert (await owner.submit(f"{HERE}/1.5.0/withdraw", reason="no")).status_code == 403
    admin = await logged_in(application)
    assert "Withdraw…" in await admin.see(HERE)
    assert "Withdraw 1.5.0?" in await admin.see(f"{HERE}/1.5.0/withdraw")
    answer = await admin.submit(f"{HERE}/1.5.0/withdraw", reason=" ")
    assert answer.status_code == 400
    assert "Say in 1 to 1000 characters why" in answer.text
    answer = await admin.submit(f"{HERE}/1.5.0/withdraw", reason="it deletes <logs>")
    assert answer.status_code == 303
    page = html.unescape(await admin.see(HERE))
    assert "It deletes <logs>." in page
    assert re.search(r'class="v">1\.4\.0<.*?Latest', page, re.DOTALL), "the one before is the latest again"
    assert "withdrew it" in await admin.see(f"{HERE}/1.5.0/withdraw")


@pytest.mark.usefixtures("jobs")
async def test_only_instances_that_the_reader_may_see_are_counted(application: Application) -> None:
    await releases.publish_all(application.server.db)
    await application.person("nora")
    await application.person("otto", "owner", organization="second")
    for name in ("nora", "otto"):
        page = await (await logged_in(application, name)).see(HERE)
        assert "1.5.0" in page, "releases are no secret"
        assert '1<span class="only-s"> instance</span>' in page, "everybody sees the runner that serves everybody"
        assert page.count('none<span class="only-s"> here</span>') == 3
