"""Notices that the database was set back, by points of its history that somebody was told and that it lacks."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from terracrew.logging import get_logger
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.history import store
from terracrew.server.history.model import Hold
from terracrew.server.history.points import History, Point
from terracrew.server.jobs import attempt_store
from terracrew.server.principals.model import SYSTEM, Principal

log = get_logger("terracrew.history")


async def compare(db: Database, history: History, points: Sequence[str], teller: str) -> None:
    """Hold the server if the database lacks one of the points that `teller` was told."""
    if points and (missing := await db.read(lambda tx: history.missing(tx, points))):
        await db.write(lambda tx: note_missing(tx, missing, teller))


async def note_missing(tx: Tx, missing: Sequence[Point], teller: str) -> None:
    """Hold the server, unless a hold that began after these points covers them, and note which modules they are about."""
    known = await store.holds(tx)
    for point in sorted(missing, key=lambda point: point.at):
        hold = next((hold for hold in reversed(known) if hold.started_at.timestamp() >= point.at), None)
        if hold is None:
            reason = f"{teller} knows of {_moment(point.at)}, and the database does not"
            hold = await start(tx, reason, lost_at=point.at)
            known = await store.holds(tx)
        if point.module_id:
            text = f"{teller} was told of a change at {_moment(point.at)}"
            await store.note_evidence(tx, hold.id, point.module_id, text)


async def start(tx: Tx, reason: str, by: Principal = SYSTEM, *, lost_at: float | None = None) -> Hold:
    """Open a hold, or return the open one. Attempts without a report of their own count as begun from now on.

    `lost_at` is the time of something that the database has lost; the points that were written since do not count. A hold that
    a person starts does not say that the database was set back.
    """
    is_set_back = by is SYSTEM
    before = tx.now + 1.0 if lost_at is None else lost_at
    set_back_to = await store.newest_point_at(tx, before) if is_set_back else None
    hold = await store.start(tx, reason, set_back_to)
    if hold is None:
        found = await store.open_hold(tx)
        assert found is not None
        return found
    await attempt_store.assume_begun(tx)
    await audit.record(tx, by, "server.hold", "hold", hold.id, {"reason": reason})
    tx.wake("queue")
    tx.wake("holds")
    tx.on_commit(partial(_say, reason, set_back_to))
    return hold


def _say(reason: str, set_back_to: float | None) -> None:
    until = "an unknown time" if set_back_to is None else _moment(set_back_to)
    log.error(
        "nothing that changes something is handed out until a person releases it", reason=reason, set_back_to=until
    )


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
