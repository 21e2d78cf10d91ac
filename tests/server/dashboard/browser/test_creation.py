"""A module is created in a real browser, pages about access follow what others change, and a phone has all of the menu."""

import re

import pytest
from playwright.async_api import Page, expect

from terracrew.api.access import Role
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import roles
from terracrew.server.identity.people import sessions, store
from terracrew.server.tree.groups.service import ensure_organization
from tests.server.dashboard.browser.looks import look
from tests.server.dashboard.company.stage import Stage
from tests.server.tree.modules.packed_modules import packed

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]


@pytest.mark.feature("U6.tree")
async def test_a_module_is_created_by_keyboard_with_an_archive_that_is_uploaded_at_once(page: Page) -> None:
    await page.goto("/dashboard/groups/payments%2Fprod")
    await page.locator("#create-module").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Name")).to_be_focused()
    await expect(page.get_by_label("Group")).to_have_value("payments/prod")
    await look(page, "create-module")
    await page.get_by_label("A git repository").check()
    await expect(page.get_by_label("Repository", exact=True)).to_be_visible()
    await expect(page.get_by_label("Archive", exact=True)).to_be_hidden()
    await look(page, "create-module-git")
    await page.get_by_label("A module of a registry").check()
    await expect(page.get_by_label("Repository", exact=True)).to_be_hidden()
    await expect(page.get_by_label("Address")).to_be_visible()
    await page.reload()  # a screenshot leaves styles on the fields, which htmx would copy and the policy refuse
    await expect(page.get_by_label("Name")).to_be_focused()
    await page.keyboard.type("Cards")
    await page.keyboard.press("Enter")
    await expect(page.locator("#module-name-wrong")).to_contain_text("is not a valid name")
    await expect(page.locator("#module-source-wrong")).to_contain_text("Choose an archive")
    await look(page, "create-module-wrong")
    await page.get_by_label("Name").fill("cards")
    file = {"name": "cards.tar.gz", "mimeType": "application/gzip", "buffer": b"nonsense"}
    other = await page.context.new_page()  # its console may say that the upload was refused
    await other.goto("/dashboard/modules/create")
    await other.get_by_label("Archive", exact=True).set_input_files(file)  # pyright: ignore[reportArgumentType]
    await expect(other.get_by_role("alert").filter(has_text="cards.tar.gz was not accepted")).to_be_visible()
    await other.close()
    await page.get_by_label("Archive", exact=True).set_input_files(  # pyright: ignore[reportArgumentType]
        {**file, "buffer": packed(("main.tf", b""))}
    )
    await expect(page.get_by_text("cards.tar.gz is uploaded")).to_be_visible()
    await page.get_by_text("Where it runs, description").click()
    await page.get_by_label("Tags").fill("eu")
    await page.get_by_label("Tags").press("Enter")
    await page.wait_for_url(re.compile("/dashboard/modules/mod_"))
    await expect(page.get_by_role("heading", level=1)).to_have_text("cards")


@pytest.mark.feature("U4.live", "U6.access")
async def test_a_page_about_access_shows_what_somebody_else_changes_and_keeps_what_is_typed(
    stage: Stage, page: Page
) -> None:
    organization_id = stage.server.organization_id

    async def grant(tx: Tx) -> None:
        admin = sessions.person(await store.user(tx, "admin"), None)
        await store.insert_user(tx, organization_id, "elena", is_system_admin=False)
        await roles.bind_role(tx, admin, "elena", Role.APPROVER, "payments", "group")

    async def revoke(tx: Tx) -> None:
        admin = sessions.person(await store.user(tx, "admin"), None)
        row = await tx.one("SELECT id FROM role_bindings WHERE path = 'payments' AND role = 'approver'")
        assert row is not None
        await roles.unbind_role(tx, admin, row["id"])

    await page.goto("/dashboard/groups/payments/access")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    await page.locator("#check-who").fill("pri")
    await page.locator("#check-verb").select_option("job.approve")
    await stage.write(grant)
    await expect(page.locator("tr", has_text="elena")).to_contain_text("Approver")
    await expect(page.locator("#check-who")).to_have_value("pri")
    await expect(page.locator("#check-verb")).to_have_value("job.approve")
    await stage.write(revoke)
    await expect(page.locator("tr", has_text="elena")).to_have_count(0)


@pytest.mark.feature("U6.access")
async def test_a_phone_switches_the_organization_and_logs_out_and_an_old_tab_is_refused(
    stage: Stage, page: Page
) -> None:
    async def work(tx: Tx) -> None:
        await ensure_organization(tx, "second")

    await stage.write(work)
    await page.set_viewport_size({"width": 390, "height": 800})
    await page.goto("/dashboard/runners")
    old = await page.context.new_page()
    await old.goto("/dashboard/groups")
    menu = page.get_by_role("button", name="Account: admin")
    await menu.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("link", name="Switch organization")).to_be_visible()
    await page.screenshot(path="build/screenshots/phone-menu.png")
    await page.get_by_role("link", name="Switch organization").click()
    await page.get_by_role("button", name="Switch to second").click()
    await page.wait_for_url("**/dashboard/groups")
    await expect(page.get_by_role("heading", level=1)).to_have_text("second")

    await old.locator("#create").click()
    await old.get_by_role("dialog").get_by_label("Name").fill("lost")
    await old.get_by_role("dialog").get_by_label("Name").press("Enter")
    await expect(old.locator(".toast")).to_contain_text("this page shows acme, but you have switched to second")
    await old.close()
    await menu.click()
    await page.get_by_role("button", name="Log out").click()
    await page.wait_for_url("**/login")
