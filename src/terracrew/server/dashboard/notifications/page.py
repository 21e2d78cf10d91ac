"""What the pages of notifications show, and how they read it."""

from typing import Literal, get_args

import msgspec

from terracrew.api.groups import Group
from terracrew.api.notifications import Channel, ChannelKind, ChannelView, NewChannel, NotificationDelivery
from terracrew.server.dashboard import field_forms
from terracrew.server.dashboard.field_forms import FieldContext, FormField
from terracrew.server.dashboard.tree import inputs
from terracrew.server.db.seam import Tx
from terracrew.server.notifications import service
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import places
from terracrew.wording import notification_words

HERE = "/dashboard/notifications"
ChannelForm = Literal["webhook", "slack", "slack-bot", "teams", "email"]
"""What the form of a channel asks for: its kind, and for Slack one of two ways."""
FORMS: tuple[ChannelForm, ...] = get_args(ChannelForm)
FORM_WORDS: dict[ChannelForm, tuple[str, str]] = {
    "webhook": ("Webhook", "A signed POST request to a program of yours, as Standard Webhooks describes it."),
    "slack": ("Slack", "Messages by an incoming webhook of Slack. Each stands alone."),
    "slack-bot": (
        "Slack with a bot token",
        "Messages by an app of yours in Slack. Those about one job are one thread.",
    ),
    "teams": ("Teams", "Cards by a workflow of a channel in Teams."),
    "email": ("E-mail", "Messages to up to 20 addresses, by the mail server of the settings."),
}
_KINDS: dict[ChannelForm, ChannelKind] = {
    "webhook": "webhook",
    "slack": "slack",
    "slack-bot": "slack",
    "teams": "teams",
    "email": "email",
}
_NOTES: dict[ChannelForm, str] = {
    "slack": "Create an incoming webhook in Slack, and copy its address.",
    "slack-bot": "Invite the app into the channel.",
    "teams": "In the channel, create the workflow “Post to a channel when a webhook request is received”, and copy its address.",
}
_OWN_FIELDS: dict[ChannelForm, tuple[str, ...]] = {
    "webhook": ("url",),
    "slack": ("url",),
    "slack-bot": ("token", "slack_channel"),
    "teams": ("url",),
    "email": ("recipients",),
}
_KEPT = "Leave it empty to keep the present one."


class ChannelsPanel(msgspec.Struct, frozen=True):
    """The channels that tell of one place, on its page."""

    place: InputPlace
    channels: list[ChannelView]
    may_change: bool


class ChannelsPage(msgspec.Struct, frozen=True):
    channels: list[ChannelView]
    place: InputPlace | None
    """The place whose channels these are, with those above it; None: all that the reader may see."""
    add_to: str
    """The id of the place that the reader may add a channel to; empty if there is none."""


class ChannelPage(msgspec.Struct, frozen=True):
    """A channel, of which there may be none yet."""

    place: InputPlace
    groups: list[Group]
    """The groups on the way to the place, the organization first."""
    form: ChannelForm
    channel: ChannelView | None
    deliveries: list[NotificationDelivery]
    may_change: bool
    empty: NewChannel
    """What the form of a new channel shows."""

    @property
    def settings(self) -> NewChannel:
        return service.as_new(self.channel) if self.channel else self.empty

    @property
    def shown(self) -> list[FormField]:
        """Return the fields of the form."""
        kept = FieldContext(note=_KEPT if self.channel else _NOTES.get(self.form, ""))
        events = FieldContext(options=tuple(notification_words.EVENTS.items()), hints=notification_words.EVENT_MEANINGS)
        names = ("name", *_OWN_FIELDS[self.form], "events", "is_enabled")
        return field_forms.layout(NewChannel, names, {"events": events, "url": kept, "token": kept})


class DeliveriesPage(msgspec.Struct, frozen=True):
    """What a channel has sent."""

    channel: ChannelView
    deliveries: list[NotificationDelivery]
    may_change: bool


async def read_list(tx: Tx, who: Principal, place: str) -> ChannelsPage:
    at = await places.find(tx, who, place) if place else None
    found = await service.listing(tx, who, at.id if at else None)
    return ChannelsPage(found, at, await _place_to_add(tx, who, at))


async def read_new(tx: Tx, who: Principal, place: str, form: ChannelForm) -> ChannelPage:
    """Return the form for a new channel at a place that the reader may change."""
    at = await places.find(tx, who, place)
    await authorize.require(tx, who, Verb.TREE_WRITE, _place(at))
    return ChannelPage(
        place=at,
        groups=await inputs.lineage(tx, who, at),
        form=form,
        channel=None,
        deliveries=[],
        may_change=True,
        empty=NewChannel(name="", kind=_KINDS[form], place=at.id),
    )


async def read_one(tx: Tx, who: Principal, reference: str) -> ChannelPage:
    found = await read_deliveries(tx, who, reference)
    channel = found.channel
    at = await places.find(tx, who, channel.place_id)
    return ChannelPage(
        place=at,
        groups=await inputs.lineage(tx, who, at),
        form=form_of(channel),
        channel=channel,
        deliveries=found.deliveries,
        may_change=found.may_change,
        empty=service.as_new(channel),
    )


async def read_deliveries(tx: Tx, who: Principal, reference: str) -> DeliveriesPage:
    channel = await service.show(tx, who, reference)
    return DeliveriesPage(
        channel,
        await service.last_deliveries(tx, who, channel.id),
        await authorize.may(tx, who, Verb.TREE_WRITE, service.place_of(channel)),
    )


async def panel(tx: Tx, who: Principal, at: InputPlace) -> ChannelsPanel:
    """Return the channels that tell of a place that the reader may see."""
    may_change = await authorize.may(tx, who, Verb.TREE_WRITE, _place(at))
    return ChannelsPanel(at, await service.listing(tx, who, at.id), may_change)


def form_of(channel: Channel) -> ChannelForm:
    if channel.kind == "slack":
        return "slack-bot" if channel.slack_channel else "slack"
    return channel.kind


def chosen_form(typed: str) -> ChannelForm | None:
    return next((each for each in FORMS if each == typed), None)


async def _place_to_add(tx: Tx, who: Principal, at: InputPlace | None) -> str:
    if at is None:
        place, found = authorize.organization(who.organization_id), "/"
    else:
        place, found = _place(at), at.id
    return found if await authorize.may(tx, who, Verb.TREE_WRITE, place) else ""


def _place(at: InputPlace) -> authorize.Place:
    make = authorize.module if at.kind == "module" else authorize.group
    return make(at.organization_id, at.path)
