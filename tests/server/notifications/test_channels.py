"""Channels are managed by those who may change their place. Nobody can read their secrets back."""

import logging
from typing import Any

import pytest

from tests.builders.clock import ShiftedClock
from tests.machine.receiver import Receiver
from tests.server.application import Application, on_one
from tests.server.notifications.telling import CHANNELS, Telling

pytestmark = pytest.mark.feature("M3.channels")
URL = "https://hooks.slack.com/services/T000/B000/s3cret-path"
TOKEN = "xoxb-1234-5678-s3cret"


async def test_a_channel_is_found_by_its_id_and_its_path(telling: Telling) -> None:
    admin = telling.application.admin
    await admin.made("/api/v1/groups", {"path": "shop"})
    made = await telling.channel("slack", url=URL, place="shop")
    assert (made["path"], made["name"], made["target"], made["secret"]) == ("shop", "ops", "hooks.slack.com", "")
    for reference in (made["id"], "shop%2Fops"):
        assert (await admin.get(f"{CHANNELS}/{reference}")).json()["id"] == made["id"]
    for reference in ("ops", "shop%2Fother", "nch_" + "0" * 32, "x" * 3000):
        await admin.refused("GET", f"{CHANNELS}/{reference}", 404)


async def test_a_place_lists_its_channels_and_those_above(telling: Telling) -> None:
    admin = telling.application.admin
    for path in ("shop", "other"):
        await admin.made("/api/v1/groups", {"path": path})
        await telling.channel("slack", url=URL, place=path)
    await telling.channel("slack", url=URL)

    async def listed(**params: Any) -> list[str]:
        return [each["path"] for each in await admin.listed(CHANNELS, **params)]

    assert await listed() == ["", "other", "shop"]
    assert await listed(place="shop") == ["", "shop"]
    assert await listed(place="/") == [""]


async def test_a_place_lists_no_channel_that_the_reader_may_not_see(telling: Telling) -> None:
    """A viewer of a group was shown the recipients and the errors of the organization's channels, whose pages they cannot open."""
    admin = telling.application.admin
    await admin.made("/api/v1/groups", {"path": "shop"})
    for place in ("", "shop"):
        await telling.channel("slack", url=URL, place=place)
    viewer = await telling.application.person("vera", "viewer", "shop")
    assert [each["path"] for each in await viewer.listed(CHANNELS, place="shop")] == ["shop"]


async def test_no_answer_log_or_audit_entry_has_a_secret(
    telling: Telling, receiver: Receiver, clock: ShiftedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    admin = telling.application.admin
    receiver.status, receiver.body = 500, b"broken"
    slack = await telling.channel("slack", name="slack", url=receiver.url, token=TOKEN, slack_channel="C0123456789")
    hook = await telling.channel(name="hook", url=f"{receiver.url}/s3cret-path?k=s3cret")
    await telling.announce()
    await telling.sending.step()
    for name in ("slack", "hook"):
        await admin.post(f"{CHANNELS}/{name}/test")
        await admin.patch(f"{CHANNELS}/{name}", json={"events": ["drift"]})
    replaced = (await admin.post(f"{CHANNELS}/hook/secret")).json()["secret"]
    assert replaced.startswith("whsec_")
    assert replaced != hook["secret"]
    seen = [
        (await admin.get(path)).text
        for path in (
            CHANNELS,
            f"{CHANNELS}/slack",
            f"{CHANNELS}/hook",
            f"{CHANNELS}/slack/deliveries",
            f"{CHANNELS}/hook/deliveries",
            "/api/v1/audit",
        )
    ]
    assert slack["secret"] == ""
    for secret in ("s3cret", TOKEN, hook["secret"], replaced):
        assert secret not in "".join(seen) + caplog.text
    assert "notification_channel.test" in seen[-1]


async def test_an_address_that_is_not_given_stays(telling: Telling, receiver: Receiver) -> None:
    admin = telling.application.admin
    await telling.webhook(receiver)
    changed = (await admin.patch(f"{CHANNELS}/ops", json={"name": "hooks", "url": ""})).json()
    assert changed["name"] == "hooks"
    assert (await admin.post(f"{CHANNELS}/hooks/test")).json()["is_delivered"]
    [got] = receiver.received
    assert (got.target, got.json["type"]) == ("/secret-path", "test")
    assert got.json["data"]["title"] == "Test of the channel hooks"
    changed = (await admin.patch(f"{CHANNELS}/hooks", json={"url": "https://other.example/x"})).json()
    assert changed["target"] == "other.example"


async def test_a_bot_token_goes_to_no_address_that_it_was_not_given_with(telling: Telling, receiver: Receiver) -> None:
    """Who may change the channel could have had the token sent to an address of their own, and nobody may read it back."""
    admin = telling.application.admin
    await telling.channel("slack", token=TOKEN, slack_channel="C0123456789")
    wanted = {"url": f"{receiver.url}/api"}
    words = await admin.refused("PATCH", f"{CHANNELS}/ops", 400, json=wanted)
    assert words == "token: the token is sent to this address, so give both together"
    receiver.body = b'{"ok": true, "ts": "1.1"}'
    changed = await admin.patch(f"{CHANNELS}/ops", json=wanted | {"token": "xoxb-1234-5678-other"})
    assert changed.status_code == 200, changed.text
    assert (await admin.post(f"{CHANNELS}/ops/test")).json()["is_delivered"]
    assert [each.headers["authorization"] for each in receiver.received] == ["Bearer xoxb-1234-5678-other"]


async def test_a_test_says_what_really_happened(telling: Telling, receiver: Receiver) -> None:
    await telling.webhook(receiver)
    receiver.status = 403
    answer = (await telling.application.admin.post(f"{CHANNELS}/ops/test")).json()
    assert answer == {"is_delivered": False, "answer_status": 403, "error": "the receiver answered 403"}
    assert await telling.deliveries() == []


async def test_only_who_may_change_a_place_manages_its_channels(telling: Telling, receiver: Receiver) -> None:
    application = telling.application
    for group in ("shop", "nothing"):
        await application.admin.made("/api/v1/groups", {"path": group})
    made = await telling.webhook(receiver, place="shop")
    path = f"{CHANNELS}/{made['id']}"
    viewer = await application.person("vera", "viewer", "shop")
    assert (await viewer.get(path)).json()["name"] == "ops"
    assert (await viewer.get(f"{path}/deliveries")).json()["items"] == []
    wanted = {"name": "x", "kind": "slack", "url": URL, "place": "shop"}
    for method, where, body in (
        ("POST", CHANNELS, wanted),
        ("PATCH", path, {"name": "x"}),
        ("DELETE", path, None),
        ("POST", f"{path}/secret", {}),
        ("POST", f"{path}/test", {}),
        ("POST", f"{path}/deliveries/ntf_{'0' * 32}/send-again", {}),
    ):
        await viewer.refused(method, where, 403, json=body)
    assert not receiver.received
    for stranger in (
        await application.person("olga", "owner", "", "other"),
        await application.person("otto", "owner", "nothing"),
    ):
        await stranger.refused("GET", path, 404)
        await stranger.refused("POST", f"{path}/test", 404)
        assert await stranger.listed(CHANNELS) == []
    owner = await application.person("oda", "owner", "shop")
    assert (await owner.delete(path)).status_code == 204
    await owner.refused("GET", path, 404)


async def test_a_name_is_taken_once_at_a_place(telling: Telling) -> None:
    await telling.channel("slack", url=URL)
    wanted = {"name": "ops", "kind": "slack", "url": URL}
    words = await telling.application.admin.refused("POST", CHANNELS, 409, json=wanted)
    assert words == "there is a channel 'ops' at that place already"


@on_one
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"kind": "webhook"}, "url: the address that gets the messages is missing"),
        ({"kind": "webhook", "url": "ftp://x"}, "url: this is not an address"),
        ({"kind": "webhook", "url": "https://user:s3cret@x.example"}, "url: this is not an address"),
        ({"kind": "webhook", "url": "https://x.example/\n"}, ""),
        ({"kind": "webhook", "url": "https://x.example/ä"}, "url: this is not an address"),
        ({"kind": "webhook", "url": URL, "token": TOKEN}, "token: only a channel for Slack"),
        ({"kind": "webhook", "url": URL, "recipients": ["a@b.c"]}, "recipients: only a channel for e-mail"),
        ({"kind": "webhook", "url": URL, "events": []}, "events"),
        ({"kind": "webhook", "url": URL, "events": ["drift", "drift"]}, "events: an event is named twice"),
        ({"kind": "webhook", "url": URL, "name": "a/b"}, "is not a valid name"),
        ({"kind": "slack", "token": TOKEN}, "slack_channel: name the channel"),
        ({"kind": "slack", "token": "xoxb-\r\nX: y", "slack_channel": "C1"}, "token: this is not a bot token"),
        ({"kind": "slack", "url": URL, "slack_channel": "C1"}, "slack_channel: only a bot token needs it"),
        ({"kind": "email", "recipients": ["a@b.c"]}, "kind: this server has no mail server"),
        ({"kind": "email", "recipients": []}, "recipients: name 1 to 20"),
        ({"kind": "email", "recipients": ["a@b.c\r\nBcc: d@e.f"]}, "is not an address such as"),
        ({"kind": "email", "recipients": ["a@b.c"], "url": URL}, "url: a channel for e-mail"),
        ({"kind": "webhook", "url": URL, "place": "nowhere"}, "there is no group or module"),
    ],
)
async def test_what_cannot_work_is_refused_with_its_field(
    application: Application, wanted: dict[str, Any], words: str
) -> None:
    answer = await application.admin.post(CHANNELS, json={"name": "ops"} | wanted)
    if not words:
        assert answer.status_code == 201, "spaces around an address are no part of it"
        return
    assert answer.status_code in (400, 404)
    assert words in answer.json()["detail"]
    assert "s3cret" not in answer.text


async def test_a_channel_goes_with_its_module(telling: Telling) -> None:
    admin = telling.application.admin
    source = {"kind": "git", "url": "https://git.example/x.git"}
    for path in ("shop", "other"):
        await admin.made("/api/v1/groups", {"path": path})
    await admin.made("/api/v1/modules", {"path": "shop/network", "source": source})
    await telling.channel("slack", url=URL, place="shop/network")
    moved = await admin.post("/api/v1/modules/shop%2Fnetwork/move", json={"path": "other/network"})
    assert moved.status_code < 300, moved.text
    assert [each["path"] for each in await admin.listed(CHANNELS)] == ["other/network"]
    assert (await admin.delete("/api/v1/modules/other%2Fnetwork")).status_code == 204
    assert await admin.listed(CHANNELS) == []
