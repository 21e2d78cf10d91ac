"""How people decide in a real browser: each sees what their approval does, who else has approved, and who uses what is destroyed."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, expect

from terracrew.protocol.events import ResourceChange
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people import store
from terracrew.server.identity.people.sessions import COOKIE
from tests.builders.job_rows import change_groups, change_jobs
from tests.conftest import SQLITE_AT_LEAST
from tests.server.dashboard.browser.looks import look
from tests.server.dashboard.company import contents, seed
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.company.stage import PASSWORD, Stage
from tests.server.dashboard.conftest import SHOTS

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.browser,
    pytest.mark.parametrize("stage", SQLITE_AT_LEAST, indirect=True),
]


PICTURE = os.environ.get("PICTURE") or SHOTS / "readme.png"
"""Where the picture of the README is written; `make picture` names the one in docs."""
CHANGES = [
    ResourceChange('module.vpc.terraform_data.subnet["c"]', "create"),
    ResourceChange("terraform_data.peering", "update"),
    ResourceChange("terraform_data.old_gateway", "delete"),
]


async def two_people_must_approve(stage: Stage) -> None:
    """Two of three approvers must approve what is in `platform/edge`, and nobody their own job. One plan there destroys something."""

    async def work(tx: Tx) -> None:
        job, made = stage.jobs["asking"], Company(tx, stage.server.organization_id, stage.user_id)
        row = await tx.one("SELECT module_id FROM jobs WHERE id = :id", id=job)
        assert row is not None
        plan = seed.plan(add=1, change=1, destroy=1, unchanged=41, existing=43, resources=CHANGES)
        await change_jobs(tx, job, plan=plan)
        await contents.add_diff(made, stage.server.keys, job, row["module_id"], 1)
        await change_groups(tx, "platform/edge", min_approvals=2, self_approval=False)
        for name in ("ada", "grace", "olga"):
            user = await store.insert_user(tx, stage.server.organization_id, name, is_system_admin=False)
            place = (stage.server.organization_id, "user", user.id, "approver", "group", "platform/edge", "test")
            await role_store.bind_role(tx, *place)

    await stage.write(work)


async def take_picture(page: Page) -> None:
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await page.set_viewport_size({"width": 1280, "height": 900})
    for words in ("old_gateway", "pcx-2", "The snapshot is taken.", "1 of 2 approvals"):
        await expect(page.get_by_text(words).first).to_be_in_viewport()
    await page.screenshot(path=PICTURE, animations="disabled")


@asynccontextmanager
async def logged_in(browser: Browser, stage: Stage, name: str) -> AsyncGenerator[Page]:
    token = await identity.make_link(stage.server.db, name)
    session = await identity.redeem_link(stage.server.identity, token, "127.0.0.1", PASSWORD)
    context = await browser.new_context(viewport={"width": 1280, "height": 860}, base_url=stage.url)
    cookie = {"name": COOKIE, "value": session.token, "url": stage.url, "httpOnly": True, "sameSite": "Lax"}
    await context.add_cookies([cookie])  # pyright: ignore[reportArgumentType]
    yield await context.new_page()
    await context.close()


@pytest.mark.feature("J8.threshold", "U5.page")
async def test_two_people_approve_a_plan_and_each_sees_what_the_other_did(browser: Browser, stage: Stage) -> None:
    await two_people_must_approve(stage)
    job = f"/dashboard/jobs/{stage.jobs['asking']}"
    async with logged_in(browser, stage, "ada") as ada, logged_in(browser, stage, "grace") as grace:
        await ada.goto("/dashboard/modules?q=edge/cdn")
        await expect(ada.locator("main table")).to_contain_text("2 people must approve")
        await ada.get_by_role("button", name="Apply platform/edge/cdn").click()
        dialog = ada.get_by_role("dialog")
        await dialog.get_by_label("Show me the plan first").uncheck()
        await expect(dialog).to_contain_text("Then 2 people must approve the plan, because platform/edge requires it")
        await dialog.get_by_role("button", name="Cancel").click()

        await grace.goto(job)
        await expect(grace.locator("[data-live-mark]")).to_have_text("Live")
        await ada.goto(job)
        await expect(ada.locator("#nav-jobs")).to_have_text("2 to approve")
        await look(ada, "approval-first")
        await ada.get_by_label("Comment").fill("The snapshot is taken.")
        await ada.get_by_role("button", name="Approve (1 of 2)").click()
        await expect(dialog).to_contain_text("Nothing is changed yet: 1 more person must approve it after you.")
        await dialog.get_by_role("button", name="Approve (1 of 2)").click()
        await expect(ada.locator("#toasts")).to_contain_text("Job #407 still waits: 1 more person must approve it.")
        await expect(ada.locator("#approval")).to_contain_text("You have approved this plan")
        await expect(ada.locator("#approve-job")).to_have_count(0)
        await expect(ada.locator("#nav-jobs")).to_have_text("1 to approve")

        panel = grace.locator("#approval")
        for words in ("1 of 2 approvals", "The snapshot is taken.", "grace and olga can approve it."):
            await expect(panel).to_contain_text(words)
        await take_picture(grace)
        await look(grace, "approval-second")
        await grace.get_by_role("button", name="Approve and destroy 1 (2 of 2)").click()
        await grace.get_by_role("dialog").get_by_role("button", name="Approve and destroy 1 (2 of 2)").click()
        await expect(grace.locator("#toasts")).to_contain_text("Job #407 continues with its plan.")
        for page in (grace, ada):
            await expect(page.locator("#approved-by li")).to_have_count(2)
            await expect(page.locator("#approved-by")).to_contain_text("The snapshot is taken.")
        await look(grace, "approval-given")


@pytest.mark.feature("J8.needed", "O3.doubt", "U5.page")
async def test_nobody_approves_in_doubt_without_saying_that_they_have_looked(page: Page, stage: Stage) -> None:
    await page.goto(f"/dashboard/jobs/{stage.jobs['doubt']}")
    await expect(page.locator("#approval-title")).to_contain_text("look before you approve")
    await look(page, "approval-in-doubt")
    button, dialog = page.get_by_role("button", name="Approve in doubt and apply"), page.get_by_role("dialog")
    await button.click()
    await expect(dialog).to_have_count(0)
    await page.get_by_label("I have compared this plan with the resources that exist").check()
    await button.click()
    await expect(dialog).to_contain_text("You also confirm that you have looked at the change that was cut short.")
    yes = dialog.get_by_role("button", name="Approve in doubt and apply")
    await expect(yes).to_have_class("btn danger solid")
    await yes.click()
    await expect(page.locator("#approved-by")).to_contain_text("in doubt")
    await expect(page.locator(".timeline")).to_contain_text("Approved in doubt")


@pytest.mark.feature("J6.outputs", "J8.needed", "U5.page")
async def test_whoever_destroys_what_others_use_is_told_before_and_when_they_approve(page: Page, stage: Stage) -> None:
    used = "1 module uses its outputs: payments/prod/ledger."
    row = await stage.server.db.read(lambda tx: tx.one("SELECT id FROM modules WHERE path = 'hello'"))
    assert row is not None
    await page.goto(f"/dashboard/modules/{row['id']}/destroy")
    await expect(page.locator("#used-by")).to_contain_text(used)
    await look(page, "destroy-used")
    await page.get_by_role("button", name="Show a destroy plan first").click()
    await page.wait_for_url("**/dashboard/jobs/job_*")
    await expect(page.locator("#job-head #used-by")).to_contain_text(used)
    await look(page, "destroy-plan-used")

    async def destroy_everything(tx: Tx) -> None:
        await change_jobs(tx, stage.jobs["asking"], type="DESTROY", module_id=row["id"])

    await stage.write(destroy_everything)
    await page.goto(f"/dashboard/jobs/{stage.jobs['asking']}")
    await expect(page.locator("#approval #used-by")).to_contain_text(used)
    await expect(page.locator("#used-by")).to_have_count(1)
    await look(page, "destroy-approval-used")
