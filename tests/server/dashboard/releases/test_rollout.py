"""The panel of a roll-out: how far it has come, what waits for what, commands to copy, and who may pause it."""

import html
import re

import msgspec
import pytest

from terracrew.api.rollouts import RolloutStatus
from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import service
from terracrew.server.rollouts import store
from tests.server.application import Application
from tests.server.dashboard.company import releases, rollouts
from tests.server.dashboard.visitor import logged_in

pytestmark = [pytest.mark.feature("V2.rollouts", "U6.clouds"), pytest.mark.usefixtures("jobs")]
HERE = "/dashboard/releases"
HOSTILE = "<script>alert(1)</script>"


def panel(page: str) -> str:
    found = re.search(r'<section class="panel" id="rollout".*?</section>', page, re.DOTALL)
    return html.unescape(found[0]) if found else ""


def text(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


async def test_the_panel_says_how_far_it_has_come_and_what_each_wave_waits_for(application: Application) -> None:
    await releases.publish_all(application.server.db)
    await rollouts.begin(application.server.db, application.server.organization_id)
    page = panel(await (await logged_in(application)).see(HERE))
    assert 'aria-label="2 updated, 1 updating, 2 waiting, 1 skipped, 3 to update by hand"' in page
    parts = re.findall(r'<i class="(\w+)">', page)
    assert parts == ["updated"] * 2 + ["updating"] + ["waiting"] * 2 + ["skipped"] + ["by_hand"] * 3
    words = text(page)
    assert "Roll-out of 1.5.0 Rolling out wave 2 of 3, 2 of 9 updated" in words
    assert "First, alone frankfurt-prod 1.3.2 → 1.5.0 Updated Said hello and passed its trial after 61 s." in words
    assert "Wave 2 1 of 2" in words
    assert "Wave 3 starts when wave 2 is done" in words
    assert "Skipped It is disabled." in words
    assert "Cannot be updated by themselves the roll-out does not wait for these 3" in words
    commands = [re.sub(r"<[^>]+>", "", each) for each in re.findall(r'<code id="command-\w+">(.*?)</code>', page)]
    assert commands == [rollouts.HELM, rollouts.PIP]
    assert "unknown version → 1.5.0" in words
    assert re.search(r'href="/dashboard/fleet-jobs/fjb_\w+">Job #2,022</a>', page)


async def test_a_stopped_roll_out_says_why_and_a_paused_one_can_be_resumed(application: Application) -> None:
    db = application.server.db
    await releases.publish_all(db)
    before = await rollouts.begin(db, application.server.organization_id)
    someone = await logged_in(application)
    assert 'id="rollout-pause"' in await someone.see(HERE)
    assert (await someone.submit(f"{HERE}/rollouts/{before.id}/pause")).status_code == 303
    page = panel(await someone.see(HERE))
    assert "Paused" in text(page)
    assert 'id="rollout-resume"' in page
    assert 'id="rollout-pause"' not in page
    paused = msgspec.structs.replace(before, status=RolloutStatus.PAUSED)
    member = (await db.read(lambda tx: store.runners(tx, before.id)))[1]
    stopped = paused.to(RolloutStatus.STOPPED, before.started_at, f"no hello {HOSTILE}", member.runner_id)
    await db.write(lambda tx: store.save(tx, paused, stopped))
    page = await someone.see(HERE)
    assert HOSTILE not in page
    assert f"Stopped because of platform/network/net-a : no hello {HOSTILE}." in html.unescape(text(page))
    assert "2 updated, 1 updating, 2 not updated, 1 skipped" in page
    assert "payments/prod/pay-a 1.4.0 → 1.5.0 Not updated" in text(page)
    assert "Waiting" not in text(panel(page))
    assert "wave 2" not in text(panel(page))
    assert 'id="rollout-stop"' not in page
    assert 'id="rollout-resume"' in page
    await db.write(lambda tx: service.withdraw(tx, SYSTEM, before.version, "it loses logs"))
    assert 'id="rollout-resume"' not in await someone.see(HERE), "a resumption would be refused"


async def test_readers_see_their_own_runners_and_only_who_may_change_all_has_buttons(application: Application) -> None:
    db, organization_id = application.server.db, application.server.organization_id
    rollout = await rollouts.begin(db, organization_id, words=HOSTILE)
    await application.person("vera", "viewer")
    await application.person("paul", "owner", "payments")
    await application.person("otto", "owner", organization="second")
    viewer = await logged_in(application, "vera")
    page = await viewer.see(HERE)
    assert "frankfurt-prod" in page
    assert "rollout-pause" not in page
    assert HOSTILE not in page
    for act in ("pause", "stop"):
        answer = await viewer.submit(f"{HERE}/rollouts/{rollout.id}/{act}")
        assert answer.status_code == 403
        assert "may change all runners" in answer.text
    page = await (await logged_in(application, "paul")).see(HERE)
    assert "payments/prod/pay-a" in page
    assert "frankfurt-prod" not in page
    assert "rollout-pause" not in page
    stranger = await logged_in(application, "otto")
    assert "rollout-title" not in await stranger.see(HERE)
    assert (await stranger.submit(f"{HERE}/rollouts/{rollout.id}/pause")).status_code == 404
