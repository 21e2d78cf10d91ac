"""Notifications: the channels by which people are told of events, and what became of each message."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.fields import UNCHANGED, Field

ChannelKind = Literal["webhook", "slack", "teams", "email"]
NotificationEvent = Literal["approval_wanted", "job_failed", "job_lost", "drift", "runner_offline", "release"]
EVENTS: tuple[NotificationEvent, ...] = (
    "approval_wanted",
    "job_failed",
    "job_lost",
    "drift",
    "runner_offline",
    "release",
)
DEFAULT_EVENTS: tuple[NotificationEvent, ...] = ("approval_wanted", "job_failed", "job_lost")
DeliveryStatus = Literal["WAITING", "DELIVERED", "GIVEN_UP"]


class NotificationContent(msgspec.Struct, frozen=True, kw_only=True):
    """What people are told, without its place."""

    title: str
    """One line, such as `Job #12 failed`."""
    text: str = ""
    """More about it, such as the error of a job."""
    link: str = ""
    """The path of the page about it, such as `/dashboard/jobs/job_…`."""
    facts: dict[str, str] = {}
    """Further details: names for people, such as `Runner`, and values."""


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What people choose about a channel."""

    events: Annotated[
        Annotated[list[NotificationEvent], msgspec.Meta(min_length=1)], Field(metavar="EVENT", option="--event")
    ] = msgspec.field(default_factory=lambda: list(DEFAULT_EVENTS))
    """Which events it sends: approval_wanted, job_failed, job_lost, drift, runner_offline or release."""
    is_enabled: Annotated[bool, Field(label="Enabled", option="--enabled")] = True
    """Whether it sends anything. What waits is kept until it is enabled again, and new events are left out."""
    recipients: Annotated[list[str], Field(metavar="ADDRESS", option="--to")] = []
    """The e-mail addresses that get the messages."""
    slack_channel: Annotated[str, Field(metavar="CHANNEL", label="Channel of Slack", option="--slack-channel")] = ""
    """For a bot token of Slack: the id of the channel, such as C0123456789, or its name."""
    url: Annotated[str, Field(metavar="URL", label="Address", option=None)] = ""
    """The address of the webhook, or the one that Slack or Teams has given. It is a secret, which cannot be read back."""
    token: Annotated[str, Field(metavar="TOKEN", label="Bot token", option=None)] = ""
    """The bot token (xoxb-…) of an app of Slack with the right chat:write. It is a secret, which cannot be read back."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"  # the address and the token are secrets


class NewChannel(ChannelSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A channel to create."""

    name: str
    kind: ChannelKind
    place: str = ""
    """The path or id of the group or module whose events it tells of, with everything below; empty for the organization."""


@fields.change
class ChannelChange(ChannelSettings, frozen=True, kw_only=True):
    """What to change; what is left out stays. An empty `url` or `token` stays, too: neither can be shown."""

    name: Annotated[str, Field(metavar="NAME")] = UNCHANGED
    """A new name."""


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """A channel at a group or module, without its secrets."""

    id: str
    organization_id: str
    place_id: str
    path: str
    """The path of the group or module whose events it tells of; empty for the whole organization."""
    name: str
    kind: ChannelKind
    events: list[NotificationEvent]
    is_enabled: bool
    target: str
    """Where the messages go, as far as it is no secret: a host, or the API of Slack."""
    recipients: list[str]
    slack_channel: str
    created_by: str
    created_by_name: str
    created_at: datetime


class ChannelView(Channel, frozen=True, kw_only=True):
    """A channel with what is known about its messages."""

    problem: str = ""
    """Why the newest message that was tried has not arrived; empty if it has."""


class CreatedChannel(msgspec.Struct, frozen=True, kw_only=True):
    """A channel that was created or got a new secret."""

    channel: Channel
    secret: str = ""
    """Webhook: the secret that its messages are signed with (`whsec_…`). It is shown once."""

    def __repr__(self) -> str:
        return f"CreatedChannel({self.channel.id!r})"


class NotificationDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a channel, and what became of it."""

    channel_id: str
    notification_id: str
    """The id of the message (`webhook-id`). It is the same for all tries."""
    event: NotificationEvent
    path: str
    """The path of the group or module that it is about; empty for the organization."""
    subject_id: str
    """The id of what it is about, such as a job. Messages about one subject are one thread."""
    content: NotificationContent
    status: DeliveryStatus
    tries: int
    created_at: datetime
    since: datetime
    """Since when it is tried."""
    next_at: datetime | None
    """When the next try is due."""
    sending_until: datetime | None
    """Until when a server holds it to send it."""
    ended_at: datetime | None
    answer_status: int | None
    """The HTTP status of the last answer, or the reply code of the mail server."""
    error: str
    """Why the last try failed."""


class ChannelTest(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a test message, which is sent at once."""

    is_delivered: bool
    answer_status: int | None = None
    error: str = ""
