"""Makes, changes, finds and deletes channels, tries them, and sends messages again, if the caller may do so.

A channel tells somebody outside of what happens at a place, so it takes the right to change the place. Whoever may see the place sees
its channels, without their secrets.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from terracrew import ids
from terracrew.api import fields
from terracrew.api.notifications import (
    Channel,
    ChannelChange,
    ChannelTest,
    ChannelView,
    CreatedChannel,
    NewChannel,
    NotificationContent,
    NotificationDelivery,
)
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.announcements import channel_store as store
from terracrew.server.announcements import delivery_store as deliveries
from terracrew.server.announcements.model import SealedChannel
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.notifications import rules, sealing, webhooks
from terracrew.server.notifications.model import ChannelSecrets, Message, Outbound
from terracrew.server.notifications.senders import Senders
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.modules import places

MAX_CHANNELS = 200
"""For each organization."""
MAX_REFERENCE_CHARACTERS = 2_000
MAX_SHOWN_DELIVERIES = 100


class Channels:
    """What people do with channels. It has what a channel needs besides its row: the keyring and the senders."""

    def __init__(self, db: Database, keys: Keyring, senders: Senders, url: str) -> None:
        self._db, self._keys, self._senders, self._url = db, keys, senders, url.rstrip("/")

    @property
    def has_mail_server(self) -> bool:
        return self._senders.mailer.has_server

    async def create(self, who: Principal, wanted: NewChannel) -> CreatedChannel:
        """Create a channel. The secret of a webhook is made here, and shown this once."""
        _check_name(wanted.name)
        own = ChannelSecrets(url=wanted.url.strip(), token=wanted.token.strip())
        if wanted.kind == "webhook":
            own = replace(own, secret=webhooks.new_secret())
        rules.check(wanted, own, has_mail_server=self.has_mail_server)

        async def work(tx: Tx) -> SealedChannel:
            at = await places.hold(tx, who, wanted.place)
            place = authorize.module if at.kind == "module" else authorize.group
            await authorize.require(tx, who, Verb.TREE_WRITE, place(at.organization_id, at.path))
            if await store.count(tx, at.organization_id) >= MAX_CHANNELS:
                raise Conflict(f"the organization has {MAX_CHANNELS} channels: delete one that is no longer used")
            channel_id = ids.new("nch")
            made = SealedChannel(
                id=channel_id,
                organization_id=at.organization_id,
                place_id=at.id,
                path=at.path,
                name=wanted.name,
                kind=wanted.kind,
                events=wanted.events,
                is_enabled=wanted.is_enabled,
                target=rules.target(wanted.kind, own),
                recipients=wanted.recipients,
                slack_channel=wanted.slack_channel,
                created_by=who.id,
                created_by_name=who.name,
                created_at=tx.moment,
                sealed=None if wanted.kind == "email" else sealing.seal(self._keys, channel_id, own),
            )
            await store.insert(tx, made)
            facts = {"kind": made.kind, "target": made.target, "events": made.events}
            await _record(tx, who, made, "notification_channel.create", facts)
            return made

        try:
            made = await self._db.write(work)
        except Conflict as error:
            raise _explained(error, wanted.name) from None
        return CreatedChannel(channel=_shown(made), secret=own.secret)

    async def change(self, who: Principal, reference: str, wanted: ChannelChange) -> Channel:
        """Change a channel. An address or a token that is not given, or empty, stays: nobody can read it back to send it again."""
        asked = fields.given(wanted)
        if "name" in asked:
            _check_name(asked["name"])

        async def work(tx: Tx) -> SealedChannel:
            before = await _hold(tx, who, reference)
            was = sealing.unseal(self._keys, before)
            given = {key: text for key in ("url", "token") if (text := str(asked.get(key) or "").strip())}
            own = replace(was, **given)
            if was.token and own.url != was.url and "token" not in given:  # it would go to whoever has the new address
                raise Invalid.in_field("token", "the token is sent to this address, so give both together")
            after = fields.changed(as_new(before), wanted, url=own.url, token=own.token)
            rules.check(after, own, has_mail_server=self.has_mail_server or before.kind == "email")
            changed = replace(
                before,
                name=after.name,
                events=after.events,
                is_enabled=after.is_enabled,
                recipients=after.recipients,
                slack_channel=after.slack_channel,
                target=rules.target(before.kind, own),
                sealed=sealing.seal(self._keys, before.id, own) if own != was else before.sealed,
            )
            if changed == before:
                return before
            await store.save(tx, changed)
            what = [name for name in Channel.__struct_fields__ if getattr(before, name) != getattr(changed, name)]
            facts = {"changed": sorted({*what, *(name for name in given if getattr(was, name) != getattr(own, name))})}
            await _record(tx, who, changed, "notification_channel.change", facts)
            return changed

        try:
            return _shown(await self._db.write(work))
        except Conflict as error:
            raise _explained(error, str(asked.get("name", ""))) from None

    async def replace_secret(self, who: Principal, reference: str) -> CreatedChannel:
        """Make another secret for a webhook. The earlier one ends at once."""
        secret = webhooks.new_secret()

        async def work(tx: Tx) -> SealedChannel:
            before = await _hold(tx, who, reference)
            if before.kind != "webhook":
                raise Conflict(f"the channel {label(before)} is no webhook: only their messages are signed")
            own = replace(sealing.unseal(self._keys, before), secret=secret)
            after = replace(before, sealed=sealing.seal(self._keys, before.id, own))
            await store.save(tx, after)
            await _record(tx, who, after, "notification_channel.replace_secret")
            return after

        return CreatedChannel(channel=_shown(await self._db.write(work)), secret=secret)

    async def test(self, who: Principal, reference: str) -> ChannelTest:
        """Send a message now, and return what became of it. It is tried once."""

        async def work(tx: Tx) -> tuple[SealedChannel, Message]:
            channel = await _hold(tx, who, reference)
            await _record(tx, who, channel, "notification_channel.test")
            content = NotificationContent(
                title=f"Test of the channel {channel.name}",
                text=f"{who.name} has sent this to see whether messages arrive.",
                facts={"Channel": label(channel)},
            )
            message = Message(
                id=ids.new("ntf"),
                event=None,
                path=channel.path,
                subject_id="",
                content=content,
                at=tx.moment,
                url=f"{self._url}/dashboard/notifications/{channel.id}",
            )
            return channel, message

        channel, message = await self._db.write(work)
        result = await self._senders.send(Outbound(channel, sealing.unseal(self._keys, channel), message))
        return ChannelTest(is_delivered=result.is_delivered, answer_status=result.answer_status, error=result.error)


async def find(tx: Tx, who: Principal, reference: str, verb: Verb = Verb.TREE_READ) -> SealedChannel:
    """Find a channel by its id or its path (`group/name`), if the caller has the right to do `verb` at its place."""
    unseen = NotFound(f"there is no channel `{reference[:300]}` here, or you may not see it")
    if ids.is_id("nch", reference):
        try:
            found = await store.get(tx, ids.parse("nch", reference))
        except NotFound:
            raise unseen from None
    elif reference.isprintable() and len(reference) <= MAX_REFERENCE_CHARACTERS:
        found = await store.named(tx, who.organization_id or "", *paths.split(reference))
    else:
        found = None
    if found is None:
        raise unseen
    await authorize.require(tx, who, verb, place_of(found), unseen)
    return found


async def show(tx: Tx, who: Principal, reference: str) -> ChannelView:
    [found] = await _views(tx, [_shown(await find(tx, who, reference))])
    return found


async def listing(tx: Tx, who: Principal, reference: str | None) -> list[ChannelView]:
    """Return the channels that the reader may see; with a place, those that tell of its events: its own, and those of the groups above."""
    if reference is not None:
        at = await places.find(tx, who, reference)
        found = await store.that_apply(tx, at.organization_id, at.path)
    else:
        found = await store.of_organization(tx, who.organization_id or "")
    visible = await authorize.visible(tx, who, Verb.TREE_READ)
    return await _views(tx, [each for each in found if visible.covers(place_of(each))])


async def delete(tx: Tx, who: Principal, reference: str) -> None:
    """Delete a channel, with what it has not sent yet."""
    found = await _hold(tx, who, reference)
    await store.delete(tx, found.id)
    await _record(tx, who, found, "notification_channel.delete")


async def last_deliveries(
    tx: Tx, who: Principal, reference: str, limit: int = MAX_SHOWN_DELIVERIES
) -> list[NotificationDelivery]:
    """Return what became of the newest messages of a channel."""
    found = await find(tx, who, reference)
    return await deliveries.of_channel(tx, found.id, min(limit, MAX_SHOWN_DELIVERIES))


async def send_again(tx: Tx, who: Principal, reference: str, notification_id: str) -> NotificationDelivery:
    """Send a message once more, whatever became of it. Its id stays, so a receiver can tell that it has it already."""
    found = await find(tx, who, reference, Verb.TREE_WRITE)
    unknown = NotFound(f"the channel {label(found)} has no message {notification_id[:100]}")
    id_ = ids.parse("ntf", notification_id) if ids.is_id("ntf", notification_id) else ""
    if not id_ or await deliveries.get(tx, found.id, id_) is None:
        raise unknown
    if not found.is_enabled:
        raise Conflict(f"the channel {label(found)} is disabled: enable it first")
    if not await deliveries.send_again(tx, found.id, id_):
        raise Conflict("the message is being sent at this moment")
    await _record(tx, who, found, "notification_channel.send_again", {"notification": id_})
    tx.wake("notifications", found.id)
    after = await deliveries.get(tx, found.id, id_)
    assert after is not None
    return fields.created(NotificationDelivery, after)


def label(channel: Channel) -> str:
    """Return the path by which a channel is found."""
    return paths.join(channel.path, channel.name)


def place_of(channel: Channel) -> authorize.Place:
    """Return the place of a channel, whose kind its id says."""
    if channel.place_id.startswith("mod_"):
        return authorize.module(channel.organization_id, channel.path)
    return authorize.group(channel.organization_id, channel.path)


def as_new(channel: Channel) -> NewChannel:
    """Return the channel as somebody would ask for it, without its secrets."""
    return fields.created(NewChannel, channel, place=channel.path, url="", token="")


async def _hold(tx: Tx, who: Principal, reference: str) -> SealedChannel:
    found = await find(tx, who, reference, Verb.TREE_WRITE)
    held = await store.hold(tx, found.id)
    if held is None:
        raise NotFound(f"the channel {label(found)} has just been deleted")
    return held


async def _views(tx: Tx, channels: Sequence[Channel]) -> list[ChannelView]:
    problems = await deliveries.problems(tx, [each.id for each in channels])
    return [fields.created(ChannelView, each, problem=problems.get(each.id, "")) for each in channels]


def _check_name(name: str) -> None:
    try:
        paths.name(name)
    except Invalid as error:
        raise Invalid.in_field("name", error.message) from None


def _shown(channel: SealedChannel) -> Channel:
    return Channel(**{name: getattr(channel, name) for name in Channel.__struct_fields__})


def _explained(error: Conflict, name: str) -> Conflict:
    if error.details.get("constraint") != "notification_channels_name":
        return error
    return Conflict(f"there is a channel {name!r} at that place already", field="name")


async def _record(tx: Tx, who: Principal, channel: Channel, action: str, details: dict[str, Any] | None = None) -> None:
    facts = {"name": channel.name, "path": channel.path, "channel": label(channel), **(details or {})}
    await audit.record(
        tx, who, action, "notification_channel", channel.id, facts, organization_id=channel.organization_id
    )
    tx.wake("notifications", channel.id)
