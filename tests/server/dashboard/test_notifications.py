"""The pages of notifications: a channel is added by its kind, tried, changed and deleted, and its messages are sent again."""

import re

import pytest

from terracrew.api.notifications import NotificationContent
from terracrew.server.announcements import service
from terracrew.server.announcements.model import Announcement
from terracrew.server.notifications.sending import Sending
from tests.machine import receiver as receivers
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import Visitor, logged_in

HERE = "/dashboard/notifications"
URL = "https://hooks.example.com/services/T0/B0/plAnted"
FORM = {"name": "ops", "form": "webhook", "url": URL, "events": "job_failed", "is_enabled": "true"}
pytestmark = [on_one, pytest.mark.feature("M3.channels")]


async def group(application: Application) -> str:
    return (await application.admin.made("/api/v1/groups", {"path": "team"}))["id"]


async def added(someone: Visitor, place: str, **fields: str) -> str:
    """Add a webhook, and return the address of its page."""
    await someone.see(f"{HERE}/create?place={place}&kind=webhook")
    answer = await someone.submit(f"{HERE}/create", place=place, **(FORM | fields))
    assert answer.status_code == 200, answer.text
    found = re.search(rf'id="secret-done" href="({HERE}/nch_\w+)"', answer.text)
    assert found, answer.text
    return found[1]


async def test_a_webhook_is_added_on_the_page_of_a_group_and_shows_its_secret_once(application: Application) -> None:
    place, someone = await group(application), await logged_in(application)
    page = await someone.see(f"/dashboard/groups/{place}")
    assert "Nobody is notified of what happens here." in page
    assert f"{HERE}/create?place={place}" in page
    page = await someone.see(f"{HERE}/create?place={place}")
    assert f"{HERE}/create?place={place}&amp;kind=slack-bot" in page
    assert "kind=email" not in page, "this server has no mail server"
    await someone.see(f"{HERE}/create?place={place}&kind=webhook")
    answer = await someone.submit(f"{HERE}/create", place=place, **FORM)
    [secret] = re.findall(r"whsec_[\w+/=]+", answer.text)
    address = re.findall(rf'"({HERE}/nch_\w+)"', answer.text)[0]
    page = await someone.see(address)
    assert secret not in page
    assert "plAnted" not in page
    assert "hooks.example.com" in page
    assert "It has sent nothing yet." in page
    answer = await someone.submit(f"{address}/secret")
    [other] = re.findall(r"whsec_[\w+/=]+", answer.text)
    assert other != secret
    for listed in (f"/dashboard/groups/{place}", HERE, f"{HERE}?place=team"):
        assert address in await someone.see(listed)


async def test_each_kind_has_its_own_fields_and_mistakes_are_beside_them(application: Application) -> None:
    place, someone = await group(application), await logged_in(application)
    for form, fields in (
        ("webhook", {"url"}),
        ("slack", {"url"}),
        ("slack-bot", {"token", "slack_channel"}),
        ("teams", {"url"}),
        ("email", {"recipients"}),
    ):
        page = await someone.see(f"{HERE}/create?place={place}&kind={form}")
        own = {"url", "token", "slack_channel", "recipients"} & set(re.findall(r'name="(\w+)"', page))
        assert own == fields, form
    for change, field, words in (
        ({"url": "hooks"}, "url", "not an address"),
        ({"url": ""}, "url", "missing"),
        ({"name": "a b"}, "name", "not a valid name"),
        ({"events": ""}, "events", "Choose at least one"),
        ({"events": "weather"}, "events", "weather"),
        ({"form": "slack-bot", "token": "x", "slack_channel": "C1"}, "token", "xoxb-"),
        ({"form": "email", "recipients": "nobody"}, "recipients", "team@example.com"),
    ):
        answer = await someone.submit(f"{HERE}/create", place=place, **(FORM | change))
        assert answer.status_code == 200
        found = re.search(rf'id="{field}-wrong"[^>]*>(.*?)</span>', answer.text)
        assert found, (change, answer.text)
        assert words in found[1]
    await added(someone, place)
    answer = await someone.submit(f"{HERE}/create", place=place, **FORM)
    assert "There is a channel &#39;ops&#39; at that place already" in answer.text


async def test_a_channel_is_tried_changed_and_deleted(application: Application) -> None:
    place, someone = await group(application), await logged_in(application)
    address = await added(someone, place)
    page = await someone.see(address)
    answer = await someone.submit(f"{address}/test")  # there is no such host
    assert "The test message was not delivered." in answer.text
    stored = re.search(r'name="_stored" value="([^"]*)"', page)
    assert stored
    typed = {"name": "night", "url": "", "events": "drift", "is_enabled": ""}
    answer = await someone.submit(address, _stored=stored[1].replace("&#34;", '"'), **typed)
    assert answer.status_code == 303, answer.text
    page = await someone.see(address)
    assert "Not enabled" in page
    assert "hooks.example.com" in page, "an address that is not typed stays"
    assert re.findall(r'type="checkbox" id="events-[\w-]+" name="events" value="(\w+)" checked', page) == ["drift"]
    answer = await someone.submit(f"{address}/delete")
    assert answer.headers["location"] == f"{HERE}?place={place}"
    await someone.see(address, 404)


async def test_a_message_is_sent_again_from_the_page(application: Application) -> None:
    place, someone = await group(application), await logged_in(application)
    server = application.server
    sending = Sending(server.db, server.keys, server.senders, server.settings.url)
    async with receivers.running("127.0.0.2") as private:
        address = await added(someone, place, url=private.url)
        announced = Announcement(
            event="job_failed",
            organization_id=server.organization_id,
            path="team",
            subject_id="job_1",
            content=NotificationContent(title="Job <b>#1</b> failed", link="/dashboard/jobs/job_1"),
        )
        await server.db.write(lambda tx: service.announce(tx, announced))
        await sending.step()
        page = await someone.see(address)
        assert "Job &lt;b&gt;#1&lt;/b&gt; failed" in page
        assert "Trying again" in page
        assert "has an address that is not public" in await someone.see(f"{HERE}?place=team"), "the list says it, too"
        [again] = re.findall(rf'action="({address}/deliveries/ntf_\w+/send-again)"', page)
        assert (await someone.submit(again)).status_code == 303
        await sending.step()
        assert "1 min" not in await someone.see(f"{address}/deliveries")
        assert not private.received


async def test_who_may_only_look_gets_no_buttons_and_strangers_nothing(application: Application) -> None:
    place, someone = await group(application), await logged_in(application)
    address = await added(someone, place)
    await application.admin.made("/api/v1/groups", {"path": "other"})
    await application.person("vera", "viewer", "team")
    await application.person("otto", "owner", "other")
    vera, otto = await logged_in(application, "vera"), await logged_in(application, "otto")
    page = await vera.see(address)
    for button in ("test-channel", "save-channel", "delete-channel", "replace-secret", "Send again"):
        assert button not in page
    await vera.see(f"{HERE}/create?place=team", 403)
    assert (await vera.submit(f"{HERE}/create", place=place, **FORM)).status_code == 403
    for action in ("test", "secret", "delete"):
        assert (await vera.submit(f"{address}/{action}")).status_code == 403
        assert (await otto.submit(f"{address}/{action}")).status_code in (403, 404)
    await otto.see(address, 404)
    assert "ops" not in re.findall(r">(\w+)</a></div>", await otto.see(HERE))
