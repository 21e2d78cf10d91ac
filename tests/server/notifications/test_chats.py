"""What Slack and Teams get, and that texts from outside stay texts."""

from typing import Any, cast

import pytest

from terracrew.api.notifications import ChannelKind
from tests.machine.receiver import Receiver
from tests.server.application import on_one
from tests.server.notifications.telling import Telling

HOSTILE = "<!channel> <https://evil.example|Approve> *b* & [x](https://evil.example)"
pytestmark = on_one


async def sent(telling: Telling, receiver: Receiver) -> dict[str, Any]:
    await telling.announce(HOSTILE, text=HOSTILE, facts={"Failure": HOSTILE})
    await telling.sending.step()
    return receiver.received[-1].json


def texts(value: Any) -> list[dict[str, Any]]:
    """All objects of Block Kit that have a text."""
    if isinstance(value, list):
        return [found for each in cast("list[Any]", value) for found in texts(each)]
    if not isinstance(value, dict):
        return []
    block = cast("dict[str, Any]", value)
    own = [block] if isinstance(block.get("text"), str) and "type" in block else []
    return own + [found for each in block.values() for found in texts(each)]


@pytest.mark.feature("M3.slack")
async def test_an_incoming_webhook_of_slack_gets_blocks_of_plain_texts(telling: Telling, receiver: Receiver) -> None:
    await telling.channel("slack", url=f"{receiver.url}/services/T/B/x")
    body = await sent(telling, receiver)
    assert set(body) == {"text", "blocks"}
    assert body["text"] == HOSTILE.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert [each["type"] for each in body["blocks"]] == ["header", "section", "section", "actions"]
    assert {each["type"] for each in texts(body["blocks"])} == {"plain_text"}
    [button] = body["blocks"][-1]["elements"]
    assert button["url"] == "https://crew.example/dashboard/jobs/job_1"
    assert len(body["blocks"][0]["text"]["text"]) <= 150


@pytest.mark.feature("M3.slack")
async def test_with_a_bot_token_all_messages_about_a_job_are_one_thread(telling: Telling, receiver: Receiver) -> None:
    fields = {"token": "xoxb-1234-5678", "slack_channel": "C0123456789", "url": f"{receiver.url}/api"}
    await telling.channel("slack", **fields)
    for number, subject in enumerate(("job_1", "job_2", "job_1", "job_1")):
        receiver.body = b'{"ok": true, "ts": "17.%d"}' % number
        await telling.announce(subject=subject)
        await telling.sending.step()
    assert {each.target for each in receiver.received} == {"/api/chat.postMessage"}
    assert {each.headers["authorization"] for each in receiver.received} == {"Bearer xoxb-1234-5678"}
    bodies = [each.json for each in receiver.received]
    assert {each["channel"] for each in bodies} == {"C0123456789"}
    assert [each.get("thread_ts") for each in bodies] == [None, None, "17.0", "17.0"]


@pytest.mark.feature("M3.slack")
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"ok": false, "error": "not_in_channel"}', "Slack refused the message: not_in_channel"),
        (b"<html>", "Slack's answer is not JSON"),
    ],
)
async def test_an_error_of_slack_is_one_although_its_status_is_200(
    telling: Telling, receiver: Receiver, body: bytes, error: str
) -> None:
    await telling.channel("slack", token="xoxb-1234-5678", slack_channel="C1", url=receiver.url)
    receiver.body = body
    await telling.announce()
    await telling.sending.step()
    found = await telling.delivery()
    assert (found["status"], found["answer_status"], found["error"]) == ("WAITING", 200, error)


@pytest.mark.feature("M3.channels")
@pytest.mark.parametrize("kind", ["slack", "teams"])
async def test_nobody_is_shown_what_an_internal_service_answers(
    telling: Telling, receiver: Receiver, kind: ChannelKind
) -> None:
    """A channel for Slack or Teams with the address of an internal service showed the first 200 characters of its answer."""
    await telling.channel(kind, url=f"{receiver.url}/admin")
    receiver.status, receiver.body = 400, b"internal page"
    await telling.announce()
    await telling.sending.step()
    assert (await telling.delivery())["error"] == "the receiver answered 400"


@pytest.mark.feature("M3.slack")
@pytest.mark.parametrize("error", ['"db password: s3cret"', '{"password": "s3cret"}', "null", '"' + "a" * 90 + '"'])
async def test_an_error_that_is_no_word_of_slack_is_not_shown(telling: Telling, receiver: Receiver, error: str) -> None:
    await telling.channel("slack", token="xoxb-1234-5678", slack_channel="C1", url=receiver.url)
    receiver.body = f'{{"ok": false, "error": {error}}}'.encode()
    await telling.announce()
    await telling.sending.step()
    assert (await telling.delivery())["error"] == "Slack refused the message: unknown error"


@pytest.mark.feature("M3.teams")
async def test_teams_gets_an_adaptive_card_without_markdown_from_outside(telling: Telling, receiver: Receiver) -> None:
    await telling.channel("teams", url=f"{receiver.url}/workflows/x")
    receiver.status = 202
    body = await sent(telling, receiver)
    [attachment] = body["attachments"]
    assert (body["type"], attachment["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert {each["type"] for each in card["body"]} == {"RichTextBlock"}, "a TextBlock would read Markdown"
    assert {run["type"] for each in card["body"] for run in each["inlines"]} == {"TextRun"}
    [open_page] = card["actions"]
    assert (open_page["type"], open_page["url"]) == ("Action.OpenUrl", "https://crew.example/dashboard/jobs/job_1")
    assert (await telling.delivery())["status"] == "DELIVERED"
