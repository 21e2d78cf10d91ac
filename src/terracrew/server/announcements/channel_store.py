"""Rows of channels. A channel is at a group or module, whose path it repeats so that one statement finds those of a place."""

from typing import LiteralString

from terracrew.api.notifications import Channel
from terracrew.errors import NotFound
from terracrew.server.announcements.model import SealedChannel
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments

CHANNELS = Table("notification_channels", SealedChannel)
_SHOWN: LiteralString = CHANNELS.columns_without("sealed")
_CHANGEABLE: tuple[LiteralString, ...] = (
    "name",
    "events",
    "is_enabled",
    "target",
    "recipients",
    "slack_channel",
    "sealed",
)


async def insert(tx: Tx, channel: SealedChannel) -> None:
    await tx.run(CHANNELS.insert(), **to_params(channel))


async def get(tx: Tx, channel_id: str) -> SealedChannel:
    found = await CHANNELS.find(tx, id=channel_id)
    if found is None:
        raise NotFound(f"there is no channel {channel_id}")
    return found


async def save(tx: Tx, channel: SealedChannel) -> None:
    """Write what people may change. The caller holds the row."""
    sql: LiteralString = "UPDATE notification_channels SET " + assignments(*_CHANGEABLE) + " WHERE id = :id"
    await tx.run(sql, **to_params(channel, "id", *_CHANGEABLE))


async def hold(tx: Tx, channel_id: str) -> SealedChannel | None:
    return await CHANNELS.hold(tx, id=channel_id)


async def delete(tx: Tx, channel_id: str) -> None:
    """Delete a channel with its deliveries."""
    await tx.run("DELETE FROM notification_channels WHERE id = :id", id=channel_id)


async def count(tx: Tx, organization_id: str) -> int:
    sql: LiteralString = "SELECT count(*) FROM notification_channels WHERE organization_id = :id"
    return await tx.value(sql, id=organization_id)


async def that_apply(tx: Tx, organization_id: str, path: str) -> list[Channel]:
    """Return the channels of a place and of the groups above it, the highest place first."""
    rows = await tx.all(
        f"""SELECT {_SHOWN} FROM notification_channels WHERE organization_id = :organization_id
        AND (path = '' OR path = :path OR substr(:path, 1, length(path) + 1) = path || '/')
        ORDER BY length(path), name""",
        organization_id=organization_id,
        path=path,
    )
    return rows_to(Channel, rows)


async def of_place(tx: Tx, place_id: str) -> list[Channel]:
    """Return the channels that are at a place itself."""
    sql: LiteralString = f"SELECT {_SHOWN} FROM notification_channels WHERE place_id = :id ORDER BY name"
    return rows_to(Channel, await tx.all(sql, id=place_id))


async def move(tx: Tx, place_id: str, path: str) -> None:
    """Note the new path of a place."""
    await tx.run("UPDATE notification_channels SET path = :path WHERE place_id = :id", path=path, id=place_id)


async def forget(tx: Tx, place_id: str) -> None:
    """Delete the channels of a place that is being deleted, with their deliveries."""
    await tx.run("DELETE FROM notification_channels WHERE place_id = :id", id=place_id)


async def named(tx: Tx, organization_id: str, path: str, name: str) -> SealedChannel | None:
    """Return the channel with this name at the place with this path."""
    return await CHANNELS.find(tx, organization_id=organization_id, path=path, name=name)


async def of_organization(tx: Tx, organization_id: str) -> list[Channel]:
    """Return all channels of an organization, which has a bounded number of them."""
    sql: LiteralString = f"SELECT {_SHOWN} FROM notification_channels WHERE organization_id = :id ORDER BY path, name"
    return rows_to(Channel, await tx.all(sql, id=organization_id))
