"""Releases in a real browser: from their publication through the API to a roll-out that is paused, resumed and stopped."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service as identity
from terracrew.server.principals.model import Principal
from terracrew.server.rollouts.loop import Rollouts
from tests.builders.job_rows import change_instances
from tests.server.application import Person
from tests.server.dashboard.browser import looks
from tests.server.dashboard.company.releases import BREAKING, LATEST
from tests.server.dashboard.company.stage import Stage
from tests.server.releases.signed_files import API, sent, signature, wheel

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]
SELF_UPDATING = ("platform/network/runner", "payments/prod")


async def publish(stage: Stage, version: str, **more: Any) -> None:
    """Publish a release with a signed wheel, as a pipeline does."""
    who = Principal("user", stage.user_id, "admin", stage.server.organization_id, is_system_admin=True)
    _, token = await identity.create_token(stage.server.db, who, f"publish {version}", None)
    async with Person(base_url=stage.url, headers={"Authorization": f"Bearer {token.text}"}) as person:
        content, name = f"the wheel of {version}".encode(), f"terracrew-{version}-py3-none-any.whl"
        signed = wheel(content, await sent(person, content, version), name=name)
        signed["signature"] = signature(content, name, version)
        await person.made(f"{API}/releases", {"version": version, "artifacts": [signed], **more})


async def install(tx: Tx) -> None:
    """Let two runners of the company update themselves, and one say that Helm installed it."""
    pip, helm = {"kind": "pip", "place": "/opt/terracrew"}, {"kind": "helm", "place": "warehouse", "detail": "data"}
    ids = {row["path"]: row["id"] for row in await tx.all("SELECT path, id FROM runners")}
    for path in SELF_UPDATING:
        await change_instances(tx, ids[path], is_self_updating=True, installation=pip)
    await change_instances(tx, ids["data/warehouse"], is_self_updating=False, installation=helm)


@pytest.mark.feature("V2.outdated", "V2.rollouts", "V4.notes", "U4.live", "U6.clouds")
async def test_releases_are_published_read_and_rolled_out_and_the_roll_out_is_paused(page: Page, stage: Stage) -> None:
    await stage.write(install)
    await page.goto("/dashboard/runners")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    await expect(page.locator("#outdated")).to_have_count(0)
    await publish(stage, "1.4.5", notes="Prepares the new names.", is_breaking=True, breaking_words=BREAKING)
    await publish(stage, "1.5.0", notes=LATEST)
    await expect(page.locator("#outdated")).to_contain_text("5 runners are outdated: 1.5.0 is the latest release.")

    await page.locator("#outdated-notes").focus()
    await page.keyboard.press("Enter")
    sheet = page.get_by_role("dialog")
    await expect(sheet.get_by_role("heading", name="1.4.5 Breaking")).to_be_visible()
    await expect(sheet).to_contain_text("2 releases, 1 breaking")
    await expect(sheet.locator(".before")).to_contain_text("runner.slots is now runner.capacity")
    await looks.look(page, "release-notes")
    await sheet.get_by_label("from").select_option("1.4.5")
    await expect(sheet.get_by_text("1 release", exact=True)).to_be_visible()
    await expect(sheet.locator(".before")).to_have_count(0)
    await page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)

    await page.locator("#update-all").click()
    await expect(sheet.get_by_role("heading", name="Update all to 1.5.0")).to_be_visible()
    await expect(sheet.locator(".waves li")).to_have_count(2)
    await expect(sheet.locator(".by-hand")).to_contain_text("helm upgrade warehouse")
    await looks.look(page, "update-all")
    await sheet.get_by_role("button", name="Update 2 runners").click()
    await expect(sheet, "a breaking release has to be accepted").to_be_visible()
    await sheet.get_by_role("checkbox").check()
    await sheet.get_by_role("button", name="Update 2 runners").click()

    panel = page.locator("#rollout")
    await expect(panel).to_contain_text("Rolling out")
    await expect(panel.locator(".parts i.waiting")).to_have_count(2)
    await Rollouts(stage.server.db, stage.server.rollout_rules).step()
    await expect(panel.get_by_role("link", name="Job #")).to_have_count(1)
    await expect(panel.locator(".parts i.updating")).to_have_count(1)
    await expect(panel).to_contain_text("starts when the first runner is updated")
    await expect(panel.get_by_role("button", name="Copy the command for data/warehouse")).to_be_visible()
    await looks.look(page, "rollout")
    await page.locator("#rollout-pause").click()
    await expect(panel.locator("h2")).to_contain_text("Paused")
    await page.locator("#rollout-resume").click()
    await expect(panel.locator("h2")).to_contain_text("Rolling out")
    await page.locator("#rollout-stop").click()
    await page.locator("#confirm [data-yes]").click()
    await expect(panel).to_contain_text("Stopped: admin stopped it.")
