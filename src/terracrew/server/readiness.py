"""Whether this server can do its work: its database and its object store answer and take writes, and it is not being stopped."""

import asyncio
import logging
import time

from terracrew.errors import Unavailable
from terracrew.server.db import stored_values
from terracrew.server.db.seam import Database, Tx
from terracrew.server.membership import Closing
from terracrew.server.objects import Objects

TIMEOUT_SECONDS = 1.0
FRESH_SECONDS = 1.0
"""How long an answer holds: any number of probes causes one write in this time."""
REFUSAL_SECONDS = 2.0
"""How long a refused write counts, although the small one of a probe found room."""
_PROBE = "write_probe"
_NO_WRITES = "the database takes no writes"
"""The public message. The database's own message, which contains its address, is only in the server's log."""
_log = logging.getLogger("terracrew.server")


class Readiness:
    def __init__(self, db: Database, objects: Objects, closing: Closing) -> None:
        self._db, self._objects, self._closing = db, objects, closing
        self._lock = asyncio.Lock()
        self._checked_at = float("-inf")
        self._problem = self._problem_of_objects = self._logged = ""

    async def check(self, *, needs_objects: bool) -> str:
        """Return if requests can be served; raise with the reason otherwise. Without `needs_objects`, a problem of the object store is
        returned: most of what people do needs only the database."""
        if self._closing.error is not None:
            raise Unavailable(f"this server ends: {self._closing.error.message}")
        if self._closing.is_set():
            raise Unavailable("the server is being stopped")
        async with self._lock:
            if time.monotonic() - self._checked_at >= FRESH_SECONDS:
                self._problem = await self._find_problem()
                self._problem_of_objects = await self._find_problem_of_objects()
                self._checked_at = time.monotonic()
        problem = self._problem or (self._problem_of_objects if needs_objects else "")
        if problem:
            raise Unavailable(problem)
        return self._problem_of_objects

    async def _find_problem(self) -> str:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._db.write(probe)
        except TimeoutError:
            return f"the database did not answer within {TIMEOUT_SECONDS:g} s"
        except Unavailable as error:
            detail = error.message
        else:
            detail = self._db.health.refused_within(REFUSAL_SECONDS)
        if detail and detail != self._logged:  # once, not for every probe
            _log.warning("not ready: %s: %s", _NO_WRITES, detail)
        self._logged = detail
        return _NO_WRITES if detail else ""

    async def _find_problem_of_objects(self) -> str:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._objects.problem()
        except TimeoutError:
            return f"the object store did not answer within {TIMEOUT_SECONDS:g} s"


async def probe(tx: Tx) -> None:
    """Change something: a database whose disk is full, or a standby, still answers every read."""
    await stored_values.put(tx, _PROBE, str(tx.now).encode())
