"""The life of a runner in a real browser: from its registration to its removal, with every change seen as it happens."""

import os
import re
from collections.abc import Sequence

import pytest
from playwright.async_api import Page, expect

from terracrew.api.fleet_jobs import FleetJobStatus
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Tx
from terracrew.server.runners.removal.service import Removals
from tests.builders.job_rows import change_jobs, insert_instance
from tests.server.dashboard.browser import accessibility
from tests.server.dashboard.company import deployed
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.company.stage import Stage
from tests.server.dashboard.conftest import SHOTS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]
LOOKS = [(scheme, width) for width in (1440, 820, 390) for scheme in ("light", "dark")]
FEWER_LOOKS = [("light", 390), ("dark", 820), ("light", 1440)]
"""Enough for what is made of the same parts as a page with all looks."""


def token_of(text: str | None) -> str:
    """Return the token in what a runner is started with."""
    found = re.search(r"WORKER_TOKEN=(tcw_\S+)", text or "")
    assert found, text
    return found[1]


async def look(page: Page, name: str, looks: Sequence[tuple[str, int]] = FEWER_LOOKS) -> None:
    """Look at the page in several widths and schemes: nothing is wider than the screen, and nothing is hard to read or to reach."""
    for scheme, width in looks:
        await page.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        await page.set_viewport_size({"width": width, "height": 900})
        if os.environ.get("SCREENSHOTS"):
            path = SHOTS / f"life-{name}-{scheme}-{width}.png"
            await page.screenshot(path=path, animations="disabled", full_page=True)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} at {width}"
        if width == 1440:
            assert await accessibility.faults(page) == [], f"{name}, {scheme}"
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 1280, "height": 860})


@pytest.mark.feature("R5.replace", "R7.remove", "S1.assigned", "U1.actions", "U2.jobs", "U3.register", "U4.live")
async def test_a_runner_is_registered_assigned_drained_disabled_registered_again_and_removed(
    page: Page, stage: Stage
) -> None:
    await page.goto("/dashboard/runners?group=platform")
    await look(page, "group")
    await page.locator("#add").focus()
    await page.keyboard.press("Enter")
    sheet = page.get_by_role("dialog")
    await expect(sheet.get_by_role("textbox", name="Name")).to_be_focused()
    await page.keyboard.type("edge")
    await page.keyboard.press("Enter")
    await expect(sheet.get_by_text("platform/edge is registered")).to_be_visible()
    shell = sheet.locator("#worker-env")
    await expect(shell).to_contain_text("terracrew runner start")
    first_token = token_of(await shell.text_content())
    await expect(sheet.locator("#started")).to_contain_text("Waiting for edge…")
    for way, command in (("Docker", "docker run"), ("systemd", "systemctl enable"), ("Helm", "helm install edge")):
        await sheet.get_by_text(way, exact=True).click()
        await expect(shell).to_be_hidden()
        await expect(sheet.locator("pre:visible").last).to_contain_text(command)
    await look(page, "registered")
    shown = await sheet.get_by_role("link", name="Show the runner").get_attribute("href")
    assert shown
    runner_id = shown.rpartition("/")[2]

    # A process connects, and gets a job.
    instances: list[str] = []

    async def connects(tx: Tx) -> None:
        instances.append(
            await insert_instance(tx, runner_id, name="edge-1", version="1.4.0", engines='{"tofu":"1.12.6"}')
        )
        tx.wake("runners", runner_id)

    jobs: list[str] = []

    async def takes_a_job(tx: Tx) -> None:
        company = Company(tx, stage.server.organization_id, stage.user_id)
        company.number = 900
        module = await company.module("platform/edge-module")
        own = {"runner_id": runner_id, "instance_id": instances[0]}
        jobs.append(await company.job(module, JobType.PLAN, "PROCESSING", **own))
        await company.attempt(jobs[0], runner_id, instances[0])
        tx.wake("jobs", jobs[0])

    await stage.write(connects)
    await expect(sheet.locator("#started .st")).to_have_text("Online")
    await expect(sheet.locator("#started")).to_contain_text("edge-1 is connected.")
    await look(page, "arrived")
    await sheet.get_by_role("link", name="Show the runner").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("edge")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    await page.evaluate("window.sameDocument = true")
    badge = page.locator("header .st")
    await expect(badge).to_have_text("Online")
    await expect(page.get_by_role("cell", name="edge-1")).to_be_visible()
    await stage.write(takes_a_job)
    await expect(page.get_by_role("link", name="platform/edge-module")).to_be_visible()

    # It is assigned to a module, too, and taken away from its group.
    await page.locator("#assign-open").click()
    await expect(page.get_by_label("Path of a group or a module")).to_be_focused()
    await page.keyboard.type("platform/dns")
    await page.keyboard.press("Enter")
    places = page.get_by_role("region", name="Assignments")
    await expect(places.get_by_text("the module itself; first choice")).to_be_visible()
    await places.get_by_role("button", name="Unassign platform", exact=True).click()
    await expect(page.get_by_role("dialog")).to_contain_text("Jobs that it has now continue.")
    await page.get_by_role("dialog").get_by_role("button", name="Unassign").click()
    await expect(places.get_by_role("button", name="Assign to all modules of platform")).to_be_visible()

    # It drains, and takes jobs again.
    await page.locator("#drain").click()
    await expect(badge).to_have_text("Draining")
    await expect(page.locator("#draining")).to_contain_text("Draining: 1 job is left.")
    await look(page, "draining", LOOKS)
    await page.locator("#drain").click()
    await expect(badge).to_have_text("Online")

    # It is disabled and enabled by its menu, with the keyboard.
    dots = page.get_by_role("button", name="Actions for platform/edge")
    for word, is_disabled in (("Disable", True), ("Enable", False)):
        await dots.focus()
        await page.keyboard.press("Enter")
        entry = page.get_by_role("button", name=word)
        await expect(entry).to_be_visible()
        if is_disabled:
            await look(page, "menu")
        for _ in range(10):
            await page.keyboard.press("Tab")
            if await entry.evaluate("element => element === document.activeElement"):
                break
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Disabled.", exact=True)).to_have_count(int(is_disabled))
        await page.keyboard.press("Escape")
        await expect(entry).to_be_hidden()
    assert await page.evaluate("window.sameDocument") is True, "everything so far came without a reload"

    # It gets a new token.
    await page.locator("#reregister").click()
    await expect(page.get_by_text("The old token ends at once.")).to_be_visible()
    await look(page, "reregister")
    await page.get_by_role("button", name="Replace token").click()
    await expect(page.locator("#worker-env")).to_contain_text("tcw_")
    assert token_of(await page.locator("#worker-env").text_content()) != first_token
    await expect(page.locator("#started")).to_contain_text("Waiting for edge…")
    await page.get_by_role("link", name="Done").click()

    # It is removed: it finishes its job first, and its page says so until it is gone.
    await dots.click()
    await page.get_by_role("link", name="Remove… It finishes").click()
    await expect(page.get_by_text("It finishes its job first")).to_be_visible()
    await look(page, "remove")
    await page.get_by_role("button", name="Remove runner").click()
    await expect(page.locator("#draining")).to_contain_text("Being removed: 1 job is left.")
    await look(page, "removing")

    async def ends(tx: Tx) -> None:
        await change_jobs(tx, jobs[0], status="SUCCEEDED", finished_at=tx.now)
        tx.wake("jobs", jobs[0])

    await stage.write(ends)
    await expect(page.locator("#draining")).to_contain_text("Being removed.")
    await Removals(stage.server.db).step()
    await expect(page.get_by_text("This runner is removed")).to_be_visible()
    await page.get_by_role("link", name="Show runners").click()
    await expect(page.get_by_role("link", name="platform/network/runner", exact=True)).to_be_visible()
    await expect(page.get_by_role("link", name="platform/edge", exact=True)).to_have_count(0)


@pytest.mark.feature("U3.deploy", "U4.live", "W2.deploy", "W5.destroy")
async def test_a_runner_is_deployed_in_a_cloud_sleeps_is_woken_changed_and_removed(page: Page, stage: Stage) -> None:
    db = stage.server.db
    await page.goto("/dashboard/runners?group=platform")
    await page.locator("#add").click()
    await page.get_by_role("link", name="deploy one in a cloud account").click()
    await expect(page.get_by_role("link", name="Deploy", exact=True)).to_have_attribute("aria-current", "true")
    price = page.locator("#costs")
    await expect(price).to_contain_text("about $0.06")
    await page.get_by_label("Size").select_option(label="4 vCPU / 8 GB")
    await expect(price).to_contain_text("about $0.23")
    await page.get_by_label("Name", exact=True).fill("Burst")
    await page.get_by_role("button", name="Deploy runner").click()
    await expect(page.locator("#name-wrong")).to_contain_text("lowercase letters")
    await page.get_by_label("Name", exact=True).fill("burst")
    await page.get_by_role("button", name="Deploy runner").click()
    await expect(page.locator("#image-wrong")).to_contain_text("cloud_runner_image")
    await page.get_by_label("Image").fill("registry.example.com/terracrew-runner:1")
    await look(page, "deploy")
    await page.get_by_role("button", name="Deploy runner").click()

    # The job is followed on the page, and its settings cannot be changed meanwhile.
    await page.wait_for_url("**/deployment")
    runner_id = page.url.split("/")[-2]
    await expect(page.get_by_text("It waits for its turn.")).to_be_visible()
    await expect(page.get_by_label("At most")).to_be_disabled()
    await deployed.run_job(db, runner_id)
    await expect(page.get_by_text(deployed.ROLE)).to_be_visible()
    await expect(page.locator("#cancel-fleet-job")).to_have_text("Cancel and remove 1 resource…")
    await look(page, "deploying")
    await deployed.end_job(db, runner_id, FleetJobStatus.SUCCEEDED)
    await deployed.change(db, runner_id, status="deployed", facts={"task_role": deployed.ROLE})
    badge = page.locator("header .st")
    await expect(badge).to_have_text("Asleep")

    # What somebody types stays while the page changes under it.
    await page.get_by_label("At most").fill("7")
    await page.get_by_label("Spot").check()
    await page.locator("#wake").click()
    await expect(badge).to_have_text("Waking")
    await expect(page.get_by_label("At most")).to_have_value("7")
    await expect(page.get_by_label("Spot")).to_be_checked()
    await look(page, "waking")
    await page.get_by_role("button", name="Update").click()
    await expect(page.get_by_text("Update #")).to_be_visible()
    assert await page.get_by_label("At most").input_value() == "7"
    await deployed.run_job(db, runner_id)
    await deployed.end_job(db, runner_id, FleetJobStatus.SUCCEEDED)

    await page.goto("/dashboard/runners")
    row = page.locator(f"#{runner_id}")
    await expect(row.locator(".st")).to_have_text("Waking")
    await expect(row).to_contain_text("so far")
    await row.get_by_role("button", name="Actions for platform/burst").click()
    await row.get_by_role("link", name="Remove…").click()
    await expect(page.get_by_text("1 resource that was made for it in aws-prod is removed")).to_be_visible()
    await look(page, "destroy")
    await page.get_by_role("button", name="Remove with 1 resource").click()
    await page.wait_for_url("**/deployment")
    await expect(page.get_by_text("Removal #")).to_be_visible()
