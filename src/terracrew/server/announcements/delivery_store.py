"""Rows of deliveries, the outbox: written with the change that they tell of, and held by one server at a time to send them."""

from collections.abc import Sequence
from typing import LiteralString

import msgspec

from terracrew.api.notifications import NotificationContent, NotificationDelivery
from terracrew.server.announcements.model import Announcement, StoredDelivery
from terracrew.server.db.seam import Columns, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.db.statements.table import Table

DELIVERIES = Table("notification_deliveries", StoredDelivery)
_SHOWN: LiteralString = DELIVERIES.columns_without("thread")
_BATCH: Columns = {
    "id": "text",
    "event": "text",
    "module_id": "text",
    "path": "text",
    "subject_id": "text",
    "content": "text",
    "now": "double precision",
    "organization_id": "text",
}
_INSERT: LiteralString = """INSERT INTO notification_deliveries
    (channel_id, notification_id, event, path, subject_id, content, status, created_at, since, next_at)
SELECT notification_channels.id, batch.id, batch.event, coalesce(modules.path, batch.path), batch.subject_id, batch.content,
    'WAITING', batch.now, batch.now, batch.now
FROM batch LEFT JOIN modules ON modules.id = batch.module_id"""
_TELLS: LiteralString = """notification_channels.is_enabled
    AND notification_channels.events LIKE '%"' || batch.event || '"%'"""
_OF_PLACE: LiteralString = f"""{_INSERT}
JOIN notification_channels ON notification_channels.organization_id = batch.organization_id
WHERE {_TELLS} AND (notification_channels.path = '' OR notification_channels.path = coalesce(modules.path, batch.path)
    OR substr(coalesce(modules.path, batch.path), 1, length(notification_channels.path) + 1) = notification_channels.path || '/')
RETURNING notification_deliveries.channel_id"""
_OF_SERVER: LiteralString = f"""{_INSERT}
JOIN notification_channels ON batch.organization_id = ''
WHERE {_TELLS} RETURNING notification_deliveries.channel_id"""


async def insert_for_channels(tx: Tx, announced: Sequence[tuple[str, Announcement, NotificationContent]]) -> set[str]:
    """Write a row for each channel that tells of an announcement, and return the ids of these channels.

    Each announcement has its id and its content before it. Those of a place are told by the channels there and in the groups above.
    """
    found = set[str]()
    statements: tuple[tuple[LiteralString, bool], ...] = ((_OF_PLACE, False), (_OF_SERVER, True))
    for sql, is_of_server in statements:
        rows = [
            (
                id_,
                each.event,
                each.module_id,
                each.path,
                each.subject_id,
                msgspec.json.encode(content).decode(),
                tx.now,
                each.organization_id or "",
            )
            for id_, each, content in announced
            if (each.organization_id is None) == is_of_server
        ]
        if rows:
            found |= {row["channel_id"] for row in await tx.each(sql, _BATCH, rows)}
    return found


async def of_channel(tx: Tx, channel_id: str, limit: int) -> list[NotificationDelivery]:
    """Return the newest deliveries of a channel."""
    rows = await tx.all(
        f"""SELECT {_SHOWN} FROM notification_deliveries WHERE channel_id = :id
        ORDER BY notification_id DESC LIMIT :limit""",
        id=channel_id,
        limit=limit,
    )
    return rows_to(NotificationDelivery, rows)
