"""A person adds a webhook to a group, tries it, and sends a message again that did not arrive, in a real browser."""

import re

import pytest
from playwright.async_api import Page, expect

from terracrew.api.notifications import NotificationContent
from terracrew.server.announcements import service
from terracrew.server.announcements.model import Announcement
from terracrew.server.notifications.sending import Sending
from tests.machine import receiver as receivers
from tests.server.dashboard.browser.looks import look
from tests.server.dashboard.company.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]


@pytest.mark.timeout(120)
@pytest.mark.feature("M3.channels")
async def test_a_webhook_is_added_tried_and_a_message_sent_again(page: Page, stage: Stage) -> None:
    server = stage.server
    sending = Sending(server.db, server.keys, server.senders, stage.url)
    async with receivers.running() as receiver:
        await page.goto("/dashboard/groups/data")
        await page.locator("#add-channel").click()
        await page.get_by_role("link", name="Webhook", exact=True).click()
        await page.get_by_label("Name").fill("On call")
        await page.get_by_label("Address").fill(f"{receiver.url}/hook")
        await page.get_by_label("Runner offline").check()
        await page.get_by_role("button", name="Add channel").click()
        await expect(page.get_by_role("alert")).to_contain_text("'On call' is not a valid name")
        await expect(page.get_by_label("Runner offline")).to_be_checked()
        await page.get_by_label("Name").fill("on-call")
        await page.get_by_role("button", name="Add channel").click()
        await expect(page.locator("#channel-secret")).to_have_text(re.compile("^whsec_"))
        await look(page, "notifications-secret")
        await page.get_by_role("link", name="Done").click()
        await page.get_by_role("button", name="Send a test message").click()
        await expect(page.locator("#tested")).to_have_text("The test message was delivered: the receiver answered 200.")
        assert receiver.received[0].json["data"]["title"] == "Test of the channel on-call"

        receiver.status = 410
        gone = Announcement(
            event="runner_offline",
            organization_id=server.organization_id,
            path="data/warehouse",
            subject_id="rnr_1",
            content=NotificationContent(title="The runner dw is offline"),
        )
        await server.db.write(lambda tx: service.announce(tx, gone))
        await sending.step()
        row = page.locator("#deliveries tr", has_text="The runner dw is offline")
        await expect(row).to_contain_text("Given up")  # the page has noticed it by itself
        await look(page, "notifications-channel")
        receiver.status = 204
        await row.get_by_role("button", name="Send again").click()
        await expect(row).to_contain_text("Waiting")
        await sending.step()
        await expect(row).to_contain_text("Delivered")
