"""Follows a fleet job and its log live, from the last line that the viewer has to the end. It subscribes first, and then reads."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal

import msgspec

from terracrew.errors import Unavailable
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.topics import log_of
from terracrew.server.fleet_jobs import reads, store
from terracrew.server.fleet_jobs.model import FleetLine

QUIET_SECONDS = 15.0
RECHECK_SECONDS = 0.5
MAX_LINES_PER_READ = 1_000


class LogPlace(msgspec.Struct, frozen=True):
    """The last line that a viewer has."""

    attempt: int = 1
    number: int = 0

    def __str__(self) -> str:
        return f"{self.attempt}.{self.number}"


FleetNews = list[FleetLine] | Literal["changed", "quiet", "end"]
"""Lines of the log; the job has changed; nothing has happened for a while; or nothing more follows."""


async def follow(
    db: Database, closing: asyncio.Event, job_id: str, place: LogPlace
) -> AsyncGenerator[tuple[LogPlace, FleetNews]]:
    """Yield what happens to a job and its log after this place, with a "changed" at the start.

    When the server stops, it ends without "end", and the viewer reconnects.
    """
    stopping = asyncio.create_task(closing.wait())
    stopping.add_done_callback(lambda done: done.cancelled() or db.wake_here(log_of(job_id), ""))
    try:
        with db.listen(log_of(job_id), "fleet") as wakeups:
            yield place, "changed"
            while not closing.is_set():
                try:
                    lines, is_ended = await db.read(lambda tx, place=place: _after(tx, job_id, place))
                except Unavailable:
                    await db.ready(RECHECK_SECONDS)
                    yield place, "quiet"
                    continue
                if lines:
                    place = LogPlace(lines[-1].attempt, lines[-1].number)
                    yield place, lines
                    continue
                if is_ended:
                    yield place, "end"
                    return
                woken = await wakeups.get(timeout=QUIET_SECONDS)
                if not woken:
                    yield place, "quiet"
                elif any(topic == "fleet" and key in ("", job_id) for topic, key in woken):
                    yield place, "changed"
    finally:
        stopping.cancel()


async def _after(tx: Tx, job_id: str, place: LogPlace) -> tuple[list[FleetLine], bool]:
    """Return more of the log, and whether the job had ended when it was read. Its last lines are written before its end."""
    job = await store.get(tx, job_id)
    lines = await reads.lines(tx, job_id, place.attempt, place.number, MAX_LINES_PER_READ)
    return lines, job is None or job.is_terminal
