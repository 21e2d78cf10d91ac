"""Builds channels in a database, and reads what they have to send."""

from terracrew import ids
from terracrew.api.notifications import EVENTS, ChannelKind, NotificationDelivery, NotificationEvent
from terracrew.server.announcements import channel_store, delivery_store
from terracrew.server.announcements.model import SealedChannel
from terracrew.server.db.seam import Database, Tx
from tests.builders.job_rows import JobRows


async def add(
    rows: JobRows,
    place_id: str = "",
    path: str = "",
    *,
    events: tuple[NotificationEvent, ...] = EVENTS,
    is_enabled: bool = True,
    kind: ChannelKind = "webhook",
) -> str:
    """Add a channel at a place; by default at the root of the organization."""
    channel_id = ids.new("nch")

    async def work(tx: Tx) -> None:
        channel = SealedChannel(
            id=channel_id,
            organization_id=rows.organization,
            place_id=place_id or rows.root,
            path=path,
            name=channel_id,
            kind=kind,
            events=list(events),
            is_enabled=is_enabled,
            target="receiver.example",
            recipients=[],
            slack_channel="",
            created_by="usr_1",
            created_by_name="olga",
            created_at=tx.moment,
            sealed=b"x" if kind != "email" else None,
        )
        await channel_store.insert(tx, channel)

    await rows.db.write(work)
    return channel_id


async def outbox(db: Database, channel_id: str) -> list[NotificationDelivery]:
    """What a channel has to send or has sent, the newest first."""
    return await db.read(lambda tx: delivery_store.of_channel(tx, channel_id, 100))
