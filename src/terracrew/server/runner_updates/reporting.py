"""Stores what an instance reports about its own update."""

from datetime import UTC, datetime

from terracrew import ids
from terracrew.errors import Invalid
from terracrew.protocol.messages import UpdateReport
from terracrew.server.db.seam import Tx
from terracrew.server.runner_updates import model, store


async def take(tx: Tx, instance_id: str, report: UpdateReport) -> None:
    """Store a report. One about an update that has ended, was withdrawn or is not known any more changes nothing: runners repeat
    their last report on every new connection."""
    before = await store.hold(tx, ids.parse("upd", report.update_id))
    if before is None:
        return
    if before.instance_id != instance_id:
        raise Invalid("an instance reports only about its own updates")
    after = model.reported(before, report, datetime.fromtimestamp(tx.now, UTC))
    if after is not None:
        await store.save(tx, before, after)
