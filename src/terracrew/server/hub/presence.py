"""Marks silent instances as disconnected, and finds other changes of connections for which there is no event."""

import asyncio

from terracrew.logging import get_logger
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import reads
from terracrew.server.connections import store as instance_store
from terracrew.server.db.seam import Row, Tx
from terracrew.server.hub.context import ConnectionContext
from terracrew.server.rekey import key_holders
from terracrew.server.runners.model import SILENCE_SECONDS

POLL_SECONDS = 1.0
SCAN_SECONDS = 5.0
"""How often the instances of all servers are checked: with 100,000 of them, each check takes PostgreSQL some 30 ms. The servers take
turns, so that the cost does not grow with their number; with more than seven, `MAX_SCAN_SECONDS` comes first."""
MAX_SCAN_SECONDS = 35.0
"""A server does not wait longer than this for its turn. A server that was killed misses its turns until its lease has expired."""
log = get_logger("terracrew.hub")


class Presence:
    """Checks every instance of all servers, including those whose server was killed, and writes by compare-and-set."""

    def __init__(self, hub: ConnectionContext) -> None:
        self._hub = hub
        self._registry = hub.registry
        self._scanned_at = float("-inf")
        self._turn = -1

    async def run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.step()

    async def step(self) -> None:
        closed = self._registry.closed
        silent, asked, elsewhere, now = await self._hub.db.read(lambda tx: self._read(tx, closed))
        self._registry.note_check()
        for ref in elsewhere:
            self._registry.is_elsewhere(ref)
        for row in asked:
            self._ask(row)
        for row in silent:
            if self._registry.silence_of(row["id"], row["epoch"], now - row["heard_at"]) >= SILENCE_SECONDS:
                await self._hub.db.write(lambda tx, row=row: _offline(tx, row))
                log.warning("runner silent", runner=row["runner_id"], instance=row["name"])

    async def _read(self, tx: Tx, closed: list[AttemptRef]) -> tuple[list[Row], list[Row], list[AttemptRef], float]:
        return (
            await self._silent(tx),
            await reads.asked(tx),
            await reads.not_gone(tx, closed, self._hub.server_id),
            tx.now,
        )

    async def _silent(self, tx: Tx) -> list[Row]:
        """Return instances that may be silent. The connections of this server are known without the rows of a whole fleet."""
        if await self._is_to_scan(tx):
            return await reads.silent(tx, SILENCE_SECONDS)
        return await reads.contacts(tx, self._registry.silent_instances(SILENCE_SECONDS))

    async def _is_to_scan(self, tx: Tx) -> bool:
        """Return whether it is this server's turn to check all instances. All servers count turns by the time of the database."""
        turn, now = int(tx.now // SCAN_SECONDS), self._registry.now()
        is_new_turn, self._turn = turn != self._turn, turn
        is_due = not 0 <= now - self._scanned_at < MAX_SCAN_SECONDS
        if is_new_turn and not is_due:
            is_due = self._hub.db.kind == "sqlite" or await self._is_own(tx, turn)
        if is_due:
            self._scanned_at = now
        return is_due

    async def _is_own(self, tx: Tx, turn: int) -> bool:
        servers = sorted(await key_holders.servers(tx))
        return self._hub.server_id not in servers or servers[turn % len(servers)] == self._hub.server_id

    def _ask(self, row: Row) -> None:
        """Forward the question of a takeover, because its wake-up may have been lost."""
        session = self._registry.runners.get(row["id"])
        if session is not None and session.epoch == row["epoch"]:
            session.ask()


async def _offline(tx: Tx, row: Row) -> None:
    await instance_store.disconnect_silent(tx, row["runner_id"], row["id"], row["epoch"], row["heard_at"])
