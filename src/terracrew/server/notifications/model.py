"""What a channel keeps secret, what is sent by it, and what becomes of one try."""

from datetime import datetime

import msgspec

from terracrew.api.notifications import Channel, NotificationContent, NotificationEvent

MAX_ERROR_CHARACTERS = 500


class ChannelSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """What nobody can read back."""

    url: str = ""
    token: str = ""
    secret: str = ""
    """Webhook: what its messages are signed with (`whsec_…`)."""

    def __repr__(self) -> str:
        return "ChannelSecrets(…)"


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent by a channel."""

    id: str
    event: NotificationEvent | None
    """None for a test."""
    path: str
    subject_id: str
    content: NotificationContent
    at: datetime
    """When it happened."""
    url: str
    """The address of the page about it; empty if there is none."""
    thread: str = ""
    """What the receiver calls the thread that an earlier message about the same subject began."""


class Outbound(msgspec.Struct, frozen=True):
    """A message with the channel that sends it."""

    channel: Channel
    secrets: ChannelSecrets
    message: Message


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one try."""

    is_delivered: bool
    answer_status: int | None = None
    """The HTTP status, or the reply code of the mail server."""
    error: str = ""
    thread: str = ""
    retry_seconds: float = 0.0
    """How long the receiver asks to wait before the next try."""
    is_final: bool = False
    """Whether the receiver will never take it."""


def failed(error: str, status: int | None = None, *, retry_seconds: float = 0.0, is_final: bool = False) -> SendResult:
    return SendResult(
        is_delivered=False,
        answer_status=status,
        error=error[:MAX_ERROR_CHARACTERS],
        retry_seconds=retry_seconds,
        is_final=is_final,
    )
