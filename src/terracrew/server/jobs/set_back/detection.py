"""Notices that the database was set back, by points of its history that somebody was told and that it lacks."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from terracrew.api.job_views import Hold
from terracrew.errors import Conflict, Superseded
from terracrew.logging import get_logger
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.history import store
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
    for point in sorted(missing, key=lambda point: point.at):
        reason = f"{teller} knows of {_moment(point.at)}, and the database does not"
        hold = await start(tx, reason, lost_at=point.at)
        if point.module_id:
            text = f"{teller} was told of a change at {_moment(point.at)}"
            await store.note_evidence(tx, hold.id, point.module_id, text)


async def start(tx: Tx, reason: str, *, lost_at: float | None = None) -> Hold:
    """Hold the server because its database was set back. Attempts without a report of their own count as begun from now on.

    `lost_at` is the time of something that the database has lost; points that were written since do not count. A hold that began
    after it covers it: a runner that returns late does not hold a server again that a person has released.
    """
    known = [hold for hold in await store.holds(tx) if hold.is_set_back]
    if lost_at is not None and (covering := [each for each in known if each.started_at.timestamp() >= lost_at]):
        return covering[-1]
    set_back_to = await store.newest_point_at(tx, tx.now + 1.0 if lost_at is None else lost_at)
    found = await store.open_hold(tx)
    if found is None:
        found = await store.start(tx, reason, is_set_back=True, set_back_to=set_back_to)
    elif lost_at is not None or not found.is_set_back:
        found = await store.start_again(tx, found.id, reason, set_back_to)
    else:
        return found
    if found is None:  # another server was faster
        raise Superseded("another server has noticed it at this moment")
    await _record(tx, SYSTEM, found, reason)
    tx.on_commit(partial(_say, reason, set_back_to))
    return found


async def start_by(tx: Tx, who: Principal, reason: str) -> Hold:
    """Hold the server because a person asks for it. This does not say that its database was set back."""
    found = await store.start(tx, reason, is_set_back=False, set_back_to=None)
    if found is None:
        raise Conflict("the server is held already: `terracrew server hold` shows why")
    await _record(tx, who, found, reason)
    return found


async def _record(tx: Tx, who: Principal, hold: Hold, reason: str) -> None:
    await attempt_store.assume_begun(tx)
    await audit.record(tx, who, "server.hold", "hold", hold.id, {"reason": reason})
    tx.wake("queue")
    tx.wake("holds")


def _say(reason: str, set_back_to: float | None) -> None:
    until = "an unknown time" if set_back_to is None else _moment(set_back_to)
    log.error(
        "nothing that changes something is handed out until a person releases it", reason=reason, set_back_to=until
    )


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
