"""Slack: by an incoming webhook, or by a bot token, with which all messages about one job are one thread.

Texts from outside are `plain_text`, in which Slack finds neither links nor mentions; only the line for notifications is escaped.
"""

import re
from typing import Any

import msgspec

from terracrew.server.notifications.model import Outbound, SendResult, failed
from terracrew.server.outgoing.answers import OutgoingAnswer
from terracrew.server.outgoing.client import OutgoingRequest
from terracrew.wording import notification_words as words

API = "https://slack.com/api"
_MAX_HEADER_CHARACTERS = 150
_MAX_FIELDS = 10
_ERROR = re.compile(r"[a-z][a-z0-9_]{1,60}")
"""What Slack calls an error. Other texts are not shown, because any service can be behind the address."""
_JSON = "application/json; charset=utf-8"


def request(outbound: Outbound) -> OutgoingRequest:
    secrets, message = outbound.secrets, outbound.message
    body = _body(outbound)
    if not secrets.token:
        return OutgoingRequest(secrets.url, "POST", {"Content-Type": _JSON}, msgspec.json.encode(body))
    body |= {"channel": outbound.channel.slack_channel, "unfurl_links": False}
    if message.thread:
        body |= {"thread_ts": message.thread}
    headers = {"Content-Type": _JSON, "Authorization": f"Bearer {secrets.token}"}
    url = f"{(secrets.url or API).rstrip('/')}/chat.postMessage"
    return OutgoingRequest(url, "POST", headers, msgspec.json.encode(body))


def bot_result(answer: OutgoingAnswer) -> SendResult:
    """Read the answer of Slack's API, whose status is 200 for errors, too."""
    try:
        found = msgspec.json.decode(answer.body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return failed("Slack's answer is not JSON", answer.status)
    if found.get("ok") is not True:
        error = str(found.get("error"))
        return failed(
            f"Slack refused the message: {error if _ERROR.fullmatch(error) else 'unknown error'}", answer.status
        )
    return SendResult(is_delivered=True, answer_status=answer.status, thread=str(found.get("ts", ""))[:50])


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _body(outbound: Outbound) -> dict[str, Any]:
    message = outbound.message
    content = message.content
    headline = words.headline(message.path, content.title)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(headline[:_MAX_HEADER_CHARACTERS])}]
    if content.text:
        blocks.append({"type": "section", "text": _plain(content.text)})
    if content.facts:
        fields = [_plain(f"{name}: {value}") for name, value in list(content.facts.items())[:_MAX_FIELDS]]
        blocks.append({"type": "section", "fields": fields})
    if message.url:
        button = {"type": "button", "text": _plain("Open"), "url": message.url}
        blocks.append({"type": "actions", "elements": [button]})
    return {"text": escaped(headline), "blocks": blocks}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}
