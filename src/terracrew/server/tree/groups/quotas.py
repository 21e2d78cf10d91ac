"""The quotas of an organization, so that one organization does not fill the server for the others.

They are the same for every organization, and in the settings of the server. Nothing that runs is stopped by a quota: it refuses
new jobs and new archives. Jobs that the server queues by itself (triggers, runs of groups) count, but are not refused.
"""

import asyncio
import time
from collections.abc import Mapping

import msgspec

from terracrew import backoff
from terracrew.errors import Conflict
from terracrew.server.db.seam import Database, Tx
from terracrew.server.tree.groups import quota_reads
from terracrew.settings.server import ServerSettings

MEGABYTE_BYTES = 1_000_000
PAUSE_SECONDS = 60.0
_PAUSE_RATIO = 50
"""A pause is this many times as long as the count before it, so that counting takes little of a large database's time."""


class Admission(msgspec.Struct, frozen=True):
    """How many of an organization's new jobs may be queued, and what the others are refused with."""

    count: int
    refusal: Conflict | None = None


class Quotas:
    def __init__(self, db: Database, settings: ServerSettings) -> None:
        self._db = db
        self._max_jobs = settings.max_queued_jobs_per_organization
        self._max_archive_bytes = settings.max_archive_megabytes_per_organization * MEGABYTE_BYTES
        self._max_log_bytes = settings.max_log_megabytes_per_organization * MEGABYTE_BYTES
        self._log_bytes: dict[str, int] = {}
        """The bytes of logs by organization, as they were counted last."""
        self._room: dict[str, int] = {}
        """How many jobs an organization may still queue before they are counted again."""

    async def admit_jobs(self, tx: Tx, wanted: Mapping[str, int]) -> dict[str, Admission]:
        """Decide how many of the new jobs of each organization may be queued."""
        return {each: await self._admit(tx, each, count) for each, count in wanted.items()}

    async def check_archive(self, tx: Tx, organization_id: str, size: int = 1) -> None:
        """Refuse an archive of this size if the organization has no room for it."""
        if not self._max_archive_bytes:
            return
        used = await quota_reads.archive_bytes(tx, organization_id)
        if used + size > self._max_archive_bytes:
            raise Conflict(
                f"the archives of this organization have {used:,} bytes, and its quota is {self._max_archive_bytes:,}: delete modules "
                "that are not needed, so that retention removes their archives (retain_archives_days), or ask an administrator of "
                "the server to change max_archive_megabytes_per_organization",
                quota="archives",
                used=used,
                limit=self._max_archive_bytes,
            )

    async def count_logs(self) -> None:
        """Count the bytes of logs outside the event loop."""
        self._log_bytes = await self._db.read_in_background(quota_reads.log_bytes)

    async def run(self) -> None:
        """Count the logs again and again, as long as there is a quota for them."""
        while self._max_log_bytes:
            began = time.monotonic()
            await self.count_logs()
            await asyncio.sleep(backoff.jittered(max(PAUSE_SECONDS, (time.monotonic() - began) * _PAUSE_RATIO)))
        await asyncio.Event().wait()  # a loop that ends is started again

    async def _admit(self, tx: Tx, organization_id: str, count: int) -> Admission:
        logged = self._log_bytes.get(organization_id, 0)
        if self._max_log_bytes and logged >= self._max_log_bytes:
            return Admission(
                0,
                Conflict(
                    f"the logs of this organization have {logged:,} bytes, and its quota is {self._max_log_bytes:,}: delete modules "
                    "that are not needed, or ask an administrator of the server to let retention remove old logs "
                    "(retain_logs_days) or to change max_log_megabytes_per_organization",
                    quota="logs",
                    used=logged,
                    limit=self._max_log_bytes,
                ),
            )
        if not self._max_jobs:
            return Admission(count)
        if (room := self._room.get(organization_id, 0)) >= count:
            self._room[organization_id] = room - count
            return Admission(count)
        used = await quota_reads.queued_jobs(tx, organization_id)
        free = max(0, self._max_jobs - used)
        admitted = min(free, count)
        # Half of the rest is used without counting, because other servers queue jobs of the same organization.
        self._room[organization_id] = (free - admitted) // 2
        refusal = Conflict(
            f"this organization has {used:,} queued jobs, and its quota is {self._max_jobs:,}: cancel some of them, wait until they "
            "have run, or ask an administrator of the server to change max_queued_jobs_per_organization",
            quota="queued_jobs",
            used=used,
            limit=self._max_jobs,
        )
        return Admission(admitted, refusal)
