"""Says that this server uses the database, and ends the server when a newer one changes it in a way that this one cannot use."""

import asyncio
import contextlib

from terracrew.errors import Incompatible, TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.server.db import servers
from terracrew.server.db.migrate import newest_known
from terracrew.server.db.seam import Database, Tx

CHECK_SECONDS = 2.0
NOTICE_SECONDS = 2.0
"""How long `/readyz` says why before the server ends, if the newer one waits for it."""
LEAVE_SECONDS = 2.0
log = get_logger("terracrew.server")


class Closing(asyncio.Event):
    """Set when the server begins to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.error: TerracrewError | None = None
        """Why the server ends by itself; None if it was told to. It is known a little earlier than the event is set, so that load
        balancers stop sending requests."""
        self.is_restart = False
        """Whether this process then executes its command again, instead of ending."""

    def stop(self) -> None:
        self.is_restart = False
        self.set()

    def restart(self) -> None:
        """Stop, and begin again in the same process with the same listening socket. A server that already stops goes on stopping."""
        if not self.is_set():
            self.is_restart = True
            self.set()


async def join(db: Database, server_id: str) -> None:
    """Say that this server uses the database from now on. Raises if a newer server is about to change it.

    SQLite has one server, so nobody else looks for its row.
    """
    if db.kind == "sqlite":
        return
    known = newest_known()
    await db.write(lambda tx: servers.renew(tx, server_id, known, seconds=servers.FIRST_LEASE_SECONDS))
    # In a transaction of its own: a newer server that did not see the row has announced its change before this one looks.
    if problem := await db.write(lambda tx: servers.find_problem(tx, known)):
        await leave(db, server_id)
        raise problem


async def leave(db: Database, server_id: str) -> None:
    """Say that this server does not use the database any more, if the database answers."""
    if db.kind != "sqlite":
        with contextlib.suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await db.write(lambda tx: servers.leave(tx, server_id))


class Membership:
    def __init__(self, db: Database, server_id: str, closing: Closing) -> None:
        self._db, self._server_id, self._closing = db, server_id, closing
        self._newest_known = newest_known()

    async def run(self) -> None:
        """Renew the row of this server, also while it ends, and look for changes that it cannot use."""
        while True:
            await self.step()
            await asyncio.sleep(CHECK_SECONDS)

    async def step(self) -> None:
        problem = await self._db.write(self._renew)
        if problem is not None and self._closing.error is None:
            self._closing.error = problem
            log.error("this server ends", reason=problem.message)
            is_waited_for = "announced" in problem.details
            asyncio.get_running_loop().call_later(NOTICE_SECONDS if is_waited_for else 0, self._closing.set)

    async def _renew(self, tx: Tx) -> Incompatible | None:
        await servers.renew(tx, self._server_id, self._newest_known, seconds=servers.LEASE_SECONDS)
        return await servers.find_problem(tx, self._newest_known)
