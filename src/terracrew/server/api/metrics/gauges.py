"""Figures of the whole database: read in the background, one at a time, and kept for some seconds.

Every server reports the same values (take `max()` of them), and a scrape never waits long or reads more than once.
"""

import asyncio
import contextlib
import time

import msgspec

from terracrew import __version__
from terracrew.api.runners import AlertKind, RunnerStatus
from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.server.connections import reads as instance_reads
from terracrew.server.connections.registry import Registry
from terracrew.server.db import servers
from terracrew.server.db.seam import Database, Tx
from terracrew.server.metrics.process import loop_failures
from terracrew.server.retention import store as retention_store
from terracrew.server.retention import usage_reads
from terracrew.server.runners import view_reads as runner_reads
from terracrew.server.runners.alerts import store as alert_store
from terracrew.server.runners.eligibility import Precedence
from terracrew.server.scheduling.backlog import Backlog, backlog
from terracrew.source_rules import version_ranges

FRESH_SECONDS = 5.0
MAX_WAIT_SECONDS = 2.0
"""How long a scrape waits for fresh figures; then it gets the last ones."""
MAX_SHOWN_VERSIONS = 20
MAX_READ_VERSIONS = 100
log = get_logger("terracrew.server")


class Fleet(msgspec.Struct, frozen=True):
    runners: dict[str, int]
    """The number of runners that are not disabled, by status."""
    disabled: int
    instances: int
    """That are connected."""
    slots: int
    """The total of the connected instances."""
    versions: dict[str, int]
    """The connected instances by their version."""
    alerts: dict[str, int]
    """The alerts about runners that nobody has acknowledged, by kind."""


class Storage(msgspec.Struct, frozen=True):
    """What waits to be moved or removed, and when retention last came to its end."""

    logs_to_move: int
    """Attempts that have ended and whose log is in rows. Those in doubt, and those that may still deliver, are among them."""
    oldest_log_ended_at: float | None
    objects_to_delete: int
    finished_at: dict[str, float]
    """The last end of each chore, by its name; the present time if it has never ended."""


class Figures(msgspec.Struct, frozen=True):
    backlog: Backlog
    servers: dict[str, int]
    """The number of servers by version. SQLite has one, which writes no row."""
    fleet: Fleet
    storage: Storage
    read_at: float
    """The time of the monotonic clock."""


class Gauges:
    def __init__(self, db: Database, registry: Registry, precedence: Precedence) -> None:
        self._db, self._registry = db, registry
        self._precedence: Precedence = precedence
        self._figures: Figures | None = None
        self._reading: asyncio.Task[None] | None = None

    async def current(self) -> Figures | None:
        """Return the figures, fresh if that goes quickly; None if they have never been read."""
        if self._figures is None or time.monotonic() - self._figures.read_at >= FRESH_SECONDS:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read(), name="gauges")
                self._reading.add_done_callback(_note_failure)
            await asyncio.wait([self._reading], timeout=MAX_WAIT_SECONDS)
        return self._figures

    async def _read(self) -> None:
        with contextlib.suppress(Unavailable):  # the last figures stay, and their age tells
            self._figures = await self._db.read_in_background(self._work)

    async def _work(self, tx: Tx) -> Figures:
        jobs = await backlog(tx, self._registry, self._precedence)
        by_version = {__version__: 1} if self._db.kind == "sqlite" else await servers.count_by_version(tx)
        return Figures(jobs, by_version, await _fleet(tx), await _storage(tx), time.monotonic())


def _note_failure(reading: "asyncio.Task[None]") -> None:
    error = None if reading.cancelled() else reading.exception()
    if error is not None:
        log.error("the figures of the database cannot be read", exc_info=error)
        loop_failures.labels("gauges").inc()


async def _fleet(tx: Tx) -> Fleet:
    """The status of a runner is what `runners.model.status` says of it, for all of them at once."""
    runners = {status.value: 0 for status in RunnerStatus}
    disabled = 0
    for row in await runner_reads.counts_by_status(tx):
        if row["is_disabled"]:
            disabled += row["runners"]
        else:
            runners[row["status"]] += row["runners"]
    row = await instance_reads.connected_slots(tx)
    assert row is not None
    alerts = {kind.value: 0 for kind in AlertKind}
    alerts |= {each["kind"]: each["alerts"] for each in await alert_store.counts_by_kind(tx)}
    versions = _bounded(await instance_reads.connected_versions(tx, MAX_READ_VERSIONS), row["instances"])
    return Fleet(runners, disabled, row["instances"], int(row["slots"] or 0), versions, alerts)


def _bounded(found: dict[str, int], instances: int) -> dict[str, int]:
    """Return the most frequent semantic versions. A runner can report any text, so that all others count as `other`."""
    known = [version for version in found if version_ranges.parse_version(version) is not None][:MAX_SHOWN_VERSIONS]
    shown = {version: found[version] for version in known}
    rest = instances - sum(shown.values())
    return {**shown, "other": rest} if rest > 0 else shown


async def _storage(tx: Tx) -> Storage:
    row = await usage_reads.waiting(tx)
    assert row is not None
    runs = await retention_store.last_runs(tx)
    finished: dict[str, float] = {"pass": tx.now, "sweep": tx.now}
    finished |= {run["name"]: run["finished_at"] for run in runs}
    return Storage(row["logs"], row["oldest"], row["objects"], finished)
