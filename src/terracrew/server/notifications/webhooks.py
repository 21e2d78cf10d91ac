"""Webhooks: a JSON document that is signed as the Standard Webhooks specification says."""

import base64
import binascii
import hashlib
import hmac
import secrets

import msgspec

from terracrew.errors import Invalid
from terracrew.server.notifications.model import Outbound
from terracrew.server.outgoing.client import OutgoingRequest

SECRET_PREFIX = "whsec_"  # noqa: S105 (how such secrets begin)
_SECRET_BYTES = 32


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise Invalid("the secret of the channel is damaged: make another one") from None
    digest = hmac.digest(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def request(outbound: Outbound, now: float) -> OutgoingRequest:
    """Return the request of one try. `now` is the time of the try: receivers refuse messages that are too old."""
    message, timestamp = outbound.message, int(now)
    content = message.content
    body = msgspec.json.encode(
        {
            "type": message.event or "test",
            "timestamp": message.at,
            "data": {
                "organization_id": outbound.channel.organization_id,
                "place": message.path,
                "subject_id": message.subject_id,
                "title": content.title,
                "text": content.text,
                "url": message.url,
                "facts": content.facts,
            },
        }
    )
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(outbound.secrets.secret, message.id, timestamp, body),
    }
    return OutgoingRequest(outbound.secrets.url, "POST", headers, body)
