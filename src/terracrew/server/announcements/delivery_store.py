"""Rows of deliveries, the outbox: written with the change that they tell of, and held by one server at a time to send them."""

from collections.abc import Sequence
from typing import LiteralString

import msgspec

from terracrew.api.notifications import NotificationContent, NotificationDelivery
from terracrew.server.announcements.model import Announcement, StoredDelivery
from terracrew.server.db.seam import Columns, Tx
from terracrew.server.db.statements.mapping import rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments

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

_WAITING: LiteralString = """WITH RECURSIVE waiting (channel_id) AS (
    SELECT min(channel_id) FROM notification_deliveries WHERE status = 'WAITING'
    UNION ALL
    SELECT (SELECT min(later.channel_id) FROM notification_deliveries AS later
        WHERE later.status = 'WAITING' AND later.channel_id > waiting.channel_id)
    FROM waiting WHERE waiting.channel_id IS NOT NULL
)"""
"""The channels in which a message waits. It reads one entry of the index for each, however many messages wait."""
_DUE: LiteralString = f"""{_WAITING}, sending AS (
    SELECT notification_deliveries.channel_id, notification_channels.organization_id FROM notification_deliveries
    JOIN notification_channels ON notification_channels.id = notification_deliveries.channel_id
    WHERE notification_deliveries.sending_until IS NOT NULL AND notification_deliveries.sending_until > :now
), oldest AS (
    SELECT waiting.channel_id, notification_channels.organization_id, (
            SELECT notification_id FROM notification_deliveries
            WHERE notification_deliveries.channel_id = waiting.channel_id AND status = 'WAITING'
            ORDER BY next_at, notification_id LIMIT 1) AS notification_id
    FROM waiting JOIN notification_channels ON notification_channels.id = waiting.channel_id
    WHERE notification_channels.is_enabled AND waiting.channel_id NOT IN (SELECT channel_id FROM sending)
), due AS (
    SELECT oldest.channel_id, oldest.notification_id, oldest.organization_id, notification_deliveries.next_at FROM oldest
    JOIN notification_deliveries ON notification_deliveries.channel_id = oldest.channel_id
        AND notification_deliveries.notification_id = oldest.notification_id AND notification_deliveries.next_at <= :now
)
SELECT channel_id, notification_id FROM due
ORDER BY row_number() OVER (PARTITION BY organization_id ORDER BY next_at, notification_id)
    + (SELECT count(*) FROM sending WHERE sending.organization_id = due.organization_id), next_at, notification_id
LIMIT :limit"""
"""The organization that sends the fewest messages at this moment has the next turn."""
_NEXT_DUE: LiteralString = f"""{_WAITING} SELECT min((SELECT min(next_at) FROM notification_deliveries
    WHERE notification_deliveries.channel_id = waiting.channel_id AND status = 'WAITING'))
FROM waiting JOIN notification_channels ON notification_channels.id = waiting.channel_id
WHERE notification_channels.is_enabled"""
_HOLD: LiteralString = f"""UPDATE notification_deliveries
SET sending_until = batch.until, tries = notification_deliveries.tries + 1 FROM batch
WHERE notification_deliveries.channel_id = batch.channel_id AND notification_deliveries.notification_id = batch.notification_id
    AND notification_deliveries.status = 'WAITING' AND notification_deliveries.next_at <= batch.now
    AND (notification_deliveries.sending_until IS NULL OR notification_deliveries.sending_until <= batch.now)
RETURNING {DELIVERIES.columns}"""
_HOLD_TYPES: Columns = {
    "channel_id": "text",
    "notification_id": "text",
    "now": "double precision",
    "until": "double precision",
}
_TRIED: tuple[LiteralString, ...] = (
    "status",
    "next_at",
    "sending_until",
    "ended_at",
    "answer_status",
    "error",
    "thread",
)
_SAVE: LiteralString = f"""UPDATE notification_deliveries SET {assignments(*_TRIED)}
WHERE channel_id = :channel_id AND notification_id = :notification_id AND status = 'WAITING' AND sending_until = :held_until"""


_PROBLEMS: LiteralString = """SELECT batch.id, (SELECT notification_deliveries.error FROM notification_deliveries
    WHERE notification_deliveries.channel_id = batch.id
        AND (notification_deliveries.status = 'DELIVERED' OR notification_deliveries.error <> '')
    ORDER BY notification_deliveries.notification_id DESC LIMIT 1) AS error FROM batch"""


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


async def problems(tx: Tx, channel_ids: Sequence[str]) -> dict[str, str]:
    """Return why the newest message that was tried has not arrived, by the ids of the channels of which that is so."""
    rows = await tx.each_id(_PROBLEMS, channel_ids) if channel_ids else []
    return {row["id"]: row["error"] for row in rows if row["error"]}


async def of_channel(tx: Tx, channel_id: str, limit: int) -> list[NotificationDelivery]:
    """Return the newest deliveries of a channel."""
    rows = await tx.all(
        f"""SELECT {_SHOWN} FROM notification_deliveries WHERE channel_id = :id
        ORDER BY notification_id DESC LIMIT :limit""",
        id=channel_id,
        limit=limit,
    )
    return rows_to(NotificationDelivery, rows)


async def get(tx: Tx, channel_id: str, notification_id: str) -> StoredDelivery | None:
    return await DELIVERIES.find(tx, channel_id=channel_id, notification_id=notification_id)


async def due(tx: Tx, limit: int) -> list[tuple[str, str]]:
    """Return the oldest message that is due of each channel that sends none at this moment, as keys of rows."""
    rows = await tx.all(_DUE, now=tx.now, limit=limit)
    return [(row["channel_id"], row["notification_id"]) for row in rows]


async def next_due(tx: Tx) -> float | None:
    """Return when the next message is due; in the past if one is due already."""
    return await tx.value(_NEXT_DUE)


async def hold(tx: Tx, keys: Sequence[tuple[str, str]], seconds: float) -> list[StoredDelivery]:
    """Hold rows for one try each, and return those that no other server has taken in the meantime."""
    until = round(tx.now + seconds, 6)  # as exact as a datetime, because `save` compares it
    rows = [(*key, tx.now, until) for key in sorted(keys)]
    return rows_to(StoredDelivery, await tx.each(_HOLD, _HOLD_TYPES, rows)) if rows else []


async def thread(tx: Tx, channel_id: str, subject_id: str) -> str:
    """Return what the receiver calls the thread about this subject; empty if no message has begun one."""
    sql: LiteralString = """SELECT thread FROM notification_deliveries
        WHERE channel_id = :channel_id AND subject_id = :subject_id AND thread <> '' ORDER BY notification_id LIMIT 1"""
    return await tx.value(sql, channel_id=channel_id, subject_id=subject_id) or ""


async def save(tx: Tx, held: StoredDelivery, after: StoredDelivery) -> bool:
    """Write what became of a try. Returns False if the row is not held by it any more, or was deleted."""
    changed = await tx.run(
        _SAVE,
        held_until=to_params(held)["sending_until"],
        **to_params(after, "channel_id", "notification_id", *_TRIED),
    )
    return changed > 0


async def send_again(tx: Tx, channel_id: str, notification_id: str) -> bool:
    """Make a message due now, whatever became of it. Returns False if it is being sent at this moment."""
    changed = await tx.run(
        """UPDATE notification_deliveries SET status = 'WAITING', tries = 0, since = :now, next_at = :now, ended_at = NULL,
            sending_until = NULL, answer_status = NULL, error = ''
        WHERE channel_id = :channel_id AND notification_id = :notification_id
            AND (sending_until IS NULL OR sending_until <= :now)""",
        channel_id=channel_id,
        notification_id=notification_id,
        now=tx.now,
    )
    return changed > 0


async def give_up_oldest(tx: Tx, channel_id: str, kept: int) -> None:
    """Give up the oldest messages of a channel that wait, so that this many are left."""
    await tx.run(
        """UPDATE notification_deliveries SET status = 'GIVEN_UP', next_at = NULL, sending_until = NULL, ended_at = :now,
            error = :error
        WHERE channel_id = :id AND status = 'WAITING' AND (sending_until IS NULL OR sending_until <= :now)
            AND notification_id IN (
                SELECT notification_id FROM notification_deliveries WHERE channel_id = :id AND status = 'WAITING'
                ORDER BY since DESC, notification_id DESC LIMIT 1000 OFFSET :kept)""",
        id=channel_id,
        kept=kept,
        now=tx.now,
        error=f"more than {kept} messages waited for the receiver, so the oldest ones were given up",
    )


async def prune(tx: Tx, channel_id: str, kept: int) -> None:
    """Delete the oldest deliveries of a channel that have ended, so that this many are left."""
    await tx.run(
        """DELETE FROM notification_deliveries WHERE channel_id = :id AND status <> 'WAITING' AND notification_id <= (
            SELECT notification_id FROM notification_deliveries WHERE channel_id = :id AND status <> 'WAITING'
            ORDER BY notification_id DESC LIMIT 1 OFFSET :kept)""",
        id=channel_id,
        kept=kept,
    )
