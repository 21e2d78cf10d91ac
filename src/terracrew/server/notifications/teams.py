"""Teams: an Adaptive Card for the address of a Power Automate workflow.

Texts from outside are runs of a `RichTextBlock`, in which Teams finds no Markdown.
"""

from typing import Any

import msgspec

from terracrew.server.notifications.model import Outbound
from terracrew.server.outgoing.client import OutgoingRequest
from terracrew.wording import notification_words as words


def request(outbound: Outbound) -> OutgoingRequest:
    message = outbound.message
    content = message.content
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            _text(words.headline(message.path, content.title), weight="Bolder", size="Large"),
            *([_text(content.text)] if content.text else []),
            *(_text(value, name=name) for name, value in content.facts.items()),
        ],
        "actions": [{"type": "Action.OpenUrl", "title": "Open", "url": message.url}] if message.url else [],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    body = msgspec.json.encode({"type": "message", "attachments": [attachment]})
    return OutgoingRequest(outbound.secrets.url, "POST", {"Content-Type": "application/json"}, body)


def _text(text: str, *, name: str = "", **look: str) -> dict[str, Any]:
    runs: list[dict[str, Any]] = [{"type": "TextRun", "text": f"{name}: ", "weight": "Bolder"}] if name else []
    return {"type": "RichTextBlock", "inlines": [*runs, {"type": "TextRun", "text": text, **look}]}
