"""Builds a module with a runner, on a server that holds changes."""

from terracrew.api.job_views import Hold
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.jobs.attempts import lost_attempts
from terracrew.server.jobs.decision_types import Doubt
from terracrew.server.jobs.set_back import detection
from tests.builders.job_rows import Instance, JobRows


class Site:
    def __init__(self, rows: JobRows, runner: Instance, module: str) -> None:
        self.rows, self.runner, self.module = rows, runner, module

    @classmethod
    async def make(cls, db: Database) -> "Site":
        rows = await JobRows.make(db)
        return cls(rows, await rows.runner(slots=100), await rows.module())

    async def hold(self, reason: str = "a test") -> Hold:
        return await self.rows.db.write(lambda tx: detection.start(tx, reason))

    async def doubts(self) -> list[Doubt]:
        return await self.rows.db.write(lambda tx: lost_attempts.doubts(tx, Registry(), self.module))
