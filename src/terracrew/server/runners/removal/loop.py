"""Deletes the records of runners that are being removed, as soon as each of them has nothing left to finish."""

from terracrew.logging import get_logger
from terracrew.server.db.seam import Database
from terracrew.server.runners.removal import reads, service

POLL_SECONDS = 1.0
"""How often runners that are being removed are checked."""
SWEEP_SECONDS = 30.0
"""While none is being removed, the loop waits for a change of a runner, or for this long."""
MAX_RUNNERS_PER_STEP = 100
log = get_logger("terracrew.runners")


class Removals:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def run(self) -> None:
        with self._db.listen("runners") as wakeups:
            while True:
                is_waiting = await self.step()
                await wakeups.get(timeout=POLL_SECONDS if is_waiting else SWEEP_SECONDS)

    async def step(self) -> bool:
        """Delete what can be deleted, and return whether a runner was being removed."""
        found, is_waiting = await self._db.read(lambda tx: reads.removing(tx, MAX_RUNNERS_PER_STEP))
        for runner_id in found:
            if await self._db.write(lambda tx, runner_id=runner_id: service.finish(tx, runner_id)):
                log.info("runner removed", runner=runner_id)
        return is_waiting
