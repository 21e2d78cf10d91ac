"""Groups, roles, users, tokens, service accounts and the audit log in a real browser, as people walk through them."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from terracrew.api.access import Role
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import roles
from terracrew.server.identity.people import sessions, store
from tests.server.dashboard.browser.looks import look
from tests.server.dashboard.company.stage import Stage

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.browser,
    pytest.mark.feature("U6.access", "U6.tree"),
]
PROD = "/dashboard/groups/payments%2Fprod"


@pytest_asyncio.fixture(loop_scope="module")
async def people(stage: Stage) -> None:
    """Two people: priya approves in payments, and elena has no role."""
    organization_id = stage.server.organization_id

    async def work(tx: Tx) -> None:
        admin = sessions.person(await store.user(tx, "admin"), None)
        for name in ("priya", "elena"):
            await store.insert_user(tx, organization_id, name, is_system_admin=False)
        await roles.bind_role(tx, admin, "priya", Role.APPROVER, "payments", "group")

    await stage.write(work)


@pytest.mark.usefixtures("people")
async def test_a_walk_from_a_group_to_its_access_through_a_grant_and_its_explanation_to_its_end(page: Page) -> None:
    await page.goto("/dashboard/modules")
    await page.get_by_role("link", name="Browse groups").click()
    await look(page, "walk-organization")
    await page.get_by_role("link", name="payments", exact=True).click()
    await page.get_by_role("link", name="prod", exact=True).click()
    await look(page, "walk-group")
    await page.get_by_role("link", name="Settings").click()
    await look(page, "walk-group-settings")
    await page.get_by_role("navigation", name="Pages of this group").get_by_role("link", name="Access").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Access to payments/prod")
    inherited = page.locator("tr", has_text="priya")
    await expect(inherited.get_by_role("link", name="Change in payments")).to_be_visible()
    await expect(inherited.get_by_role("button", name="Revoke")).to_have_count(0)

    await page.locator("#grant-open").focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Person or service account")).to_be_focused()
    await page.keyboard.type("elena")
    await dialog.get_by_role("radio", name="Approver").check()
    await expect(dialog.locator("#effect")).to_contain_text(
        "elena will be able to approve plans of 1 module, including destroys, and run jobs, until "
    )
    await expect(dialog.get_by_role("button", name="Grant approver")).to_be_visible()
    await look(page, "walk-grant")
    await dialog.get_by_role("button", name="Grant approver").click()
    granted = page.locator("tr", has_text="elena")
    await expect(granted.locator(".role")).to_contain_text("Approver")
    await expect(granted).to_contain_text("by admin")

    await page.locator("#check-who").fill("elena")
    await page.locator("#check-verb").select_option("job.approve")
    await page.locator("#check-on").fill("payments/prod/ledger")
    await page.locator("#check-on").press("Enter")
    await expect(page.locator("#verdict")).to_contain_text("Yes. elena may approve and decline plans")
    await look(page, "walk-access")

    await granted.get_by_role("button", name="Revoke").click()
    await expect(dialog).to_contain_text("elena loses what this role allows in payments/prod")
    await dialog.get_by_role("button", name="Revoke approver").click()
    await expect(granted).to_have_count(0)
    await expect(page.locator("#verdict")).to_contain_text("No. elena may not approve")
    await expect(page.locator(".trail .limit")).to_contain_text("admin can grant it")


@pytest.mark.usefixtures("people")
async def test_a_walk_through_users_tokens_sessions_service_accounts_and_the_audit_log(page: Page) -> None:
    await page.goto("/dashboard/modules")
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Access").click()
    await page.get_by_role("link", name="Users").click()
    dialog = page.get_by_role("dialog")
    await page.get_by_role("link", name="Invite user").click()
    await page.keyboard.type("marta")
    await page.keyboard.press("Enter")
    await expect(dialog.locator("#one-time-link")).to_contain_text("/login/link/tcl_")
    await dialog.get_by_role("button", name="Copy").click()
    await expect(dialog.get_by_role("button", name=re.compile("Copied|Selected"))).to_be_visible()
    await look(page, "walk-invited")
    await dialog.get_by_role("link", name="Done").click()
    await expect(page.locator("h1")).to_have_text("marta")
    await look(page, "walk-user")
    await page.get_by_role("button", name="Disable").click()
    await dialog.get_by_role("button", name="Disable user").click()
    await expect(page.locator(".head .st")).to_have_text("Disabled")
    await page.get_by_role("button", name="Enable").click()
    await expect(page.locator(".head .st")).to_have_text("Invited")
    await page.get_by_role("button", name="Reset login").click()
    await dialog.get_by_role("button", name="Reset login").click()
    await expect(page.locator("#one-time-link")).to_contain_text("/login/link/tcl_")
    await page.goto("/dashboard/users")
    await look(page, "walk-users")

    await page.goto("/dashboard/account")
    await page.get_by_role("link", name="Create token").click()
    await page.keyboard.type("laptop")
    await page.keyboard.press("Enter")
    await expect(dialog.locator("#token-value")).to_contain_text("tcu_")
    await dialog.get_by_role("link", name="Done").click()
    token = page.locator("tr", has_text="laptop")
    await look(page, "walk-account")
    await token.get_by_role("button", name="Revoke").click()
    await dialog.get_by_role("button", name="Revoke token").click()
    await expect(token).to_have_count(0)

    await page.get_by_role("link", name="Organizations").click()
    await page.get_by_role("link", name="Create organization").click()
    await page.keyboard.type("second")
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="second", exact=True).click()
    await look(page, "walk-organization-settings")
    await page.get_by_role("button", name="Switch to it").click()
    await page.wait_for_url("**/dashboard/groups")
    await expect(page.locator("h1")).to_have_text("second")
    await page.goto("/dashboard/organizations")
    await look(page, "walk-organizations")
    await page.get_by_role("button", name="Switch to acme").click()
    await expect(page.locator("h1")).to_have_text("acme")

    await page.goto("/dashboard/service-accounts")
    await page.get_by_role("link", name="Create service account").click()
    await page.keyboard.type("ci-ledger")
    await dialog.get_by_label("Group").select_option("payments/prod")
    await dialog.get_by_role("button", name="Create service account").click()
    await expect(page.locator("h1")).to_have_text("ci-ledger")
    await page.get_by_role("link", name="Add secret").click()
    await dialog.get_by_role("button", name="Add secret").click()
    await expect(dialog.locator("#client-secret")).to_contain_text("tcs_")
    await dialog.get_by_role("link", name="Done").click()
    await look(page, "walk-service-account")
    await page.goto("/dashboard/service-accounts")
    await look(page, "walk-service-accounts")

    await page.get_by_role("link", name="Audit log").click()
    await page.locator("#audit-action").fill("service_account")
    await expect(page.locator("#audit tbody tr")).to_have_count(2)
    await look(page, "walk-audit")
    await page.get_by_role("link", name="service account ci-ledger").first.click()
    await page.get_by_role("button", name="Delete").click()
    await expect(dialog).to_contain_text("1 secret and 0 roles are deleted with it")
    await dialog.get_by_role("button", name="Delete service account").click()
    await expect(page.get_by_text("No service accounts yet")).to_be_visible()
