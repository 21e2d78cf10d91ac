"""Collects heartbeats in memory and writes them in one batch every few seconds, so that every server knows them."""

import asyncio
from collections.abc import Iterable

from terracrew.errors import Unavailable
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import store
from terracrew.server.connections.registry import GAP_SECONDS, Registry
from terracrew.server.db.seam import Database, Param, Tx

WRITE_SECONDS = 5.0
MAX_INSTANCES_PER_WRITE = 200
"""On SQLite so many take a few milliseconds, for which the event loop waits; thousands of connected runners are written in several
parts."""
STALE_SECONDS = 3 * WRITE_SECONDS
"""If a server has written nothing about its executor for this long, it may have been killed."""


async def named(tx: Tx, refs: Iterable[tuple[str, AttemptRef]]) -> None:
    """Note contact with those of the reported attempts that belong to the instance that reports them."""
    rows = sorted((ref.job_id, ref.attempt, instance_id) for instance_id, ref in refs)
    await store.note_attempt_contacts(tx, [(*row, None, tx.now) for row in rows])


async def executor_came(tx: Tx, ref: AttemptRef, server_id: str) -> None:
    await store.note_attempt_contacts(tx, [(ref.job_id, ref.attempt, None, server_id, tx.now)])


class Heartbeats:
    """Writes the time of each heartbeat, not the time of the batch, so that silence is measured exactly."""

    def __init__(self, db: Database, registry: Registry, server_id: str = "") -> None:
        self._db = db
        self._registry = registry
        self._server_id = server_id
        self._noted: dict[str, tuple[int, float]] = {}

    def note(self, instance_id: str, epoch: int) -> None:
        self._noted[instance_id] = epoch, self._registry.now()

    async def run(self) -> None:
        while True:
            await self.step()  # at once, so that clients that were in contact while the database was away are online
            await asyncio.sleep(WRITE_SECONDS)

    async def step(self) -> None:
        registry, began = self._registry, self._registry.now()
        noted, self._noted = self._noted, {}
        silent, registry.fell_silent = registry.fell_silent, {}
        connected = sorted(registry.executors)
        named = sorted(one for one in registry.reported_by(noted) if one[0] not in registry.executors)

        async def work(tx: Tx) -> None:
            zero = tx.now - registry.now()  # the database's time at which this server's clock was zero
            await store.silence_executors(tx, [self._row(ref, None, zero + at) for ref, at in sorted(silent.items())])
            # The key includes the instance, so that a runner cannot replace what another runner reports about an attempt.
            await store.note_attempt_contacts(tx, [self._row(ref, by, zero + noted[by][1]) for ref, by in named])
            await store.note_attempt_contacts(tx, [self._row(ref, None, tx.now) for ref in connected])

        if noted or connected or silent:
            try:
                await self._note_instance_contacts(noted)
                if silent or named or connected:
                    await self._db.write(work)
            except Unavailable:
                self._noted = noted | self._noted
                registry.fell_silent = silent | registry.fell_silent
                registry.pause()
                raise
            if registry.now() - began > GAP_SECONDS:
                registry.pause()

    async def _note_instance_contacts(self, noted: dict[str, tuple[int, float]]) -> None:
        instances = sorted(noted.items())
        for start in range(0, len(instances), MAX_INSTANCES_PER_WRITE):
            part = instances[start : start + MAX_INSTANCES_PER_WRITE]

            async def work(tx: Tx, part: list[tuple[str, tuple[int, float]]] = part) -> None:
                zero = tx.now - self._registry.now()
                await store.note_instance_contacts(tx, [(id_, epoch, zero + at) for id_, (epoch, at) in part])

            await self._db.write(work)

    def _row(self, ref: AttemptRef, instance_id: str | None, at: float) -> tuple[Param, ...]:
        return ref.job_id, ref.attempt, instance_id, None if instance_id else self._server_id, at
