"""Collects heartbeats in memory and writes them in one batch every few seconds, so that every server knows them."""

import asyncio
from collections.abc import Iterable
from typing import LiteralString

from terracrew.errors import Unavailable
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import GAP_SECONDS, Registry
from terracrew.server.db.seam import Columns, Database, Param, Tx

WRITE_SECONDS = 5.0
STALE_SECONDS = 3 * WRITE_SECONDS
"""If a server has written nothing about its executor for this long, it may have been killed."""
IS_ELSEWHERE: LiteralString = (
    "coalesce(attempts.executor_server_id <> :server_id AND attempts.executor_heard_at > :since, false)"
)
"""Whether an attempt's executor is connected to another server than this one."""
_INSTANCES: LiteralString = """
UPDATE instances SET heard_at = batch.at FROM batch
WHERE instances.id = batch.id AND instances.epoch = batch.epoch AND instances.heard_at < batch.at"""
_ATTEMPTS: LiteralString = """
UPDATE attempts SET heard_at = CASE WHEN attempts.heard_at > batch.at THEN attempts.heard_at ELSE batch.at END,
    executor_server_id = coalesce(batch.server_id, attempts.executor_server_id),
    executor_heard_at = CASE WHEN batch.server_id IS NULL THEN attempts.executor_heard_at ELSE batch.at END
FROM batch
WHERE attempts.job_id = batch.job_id AND attempts.number = batch.attempt AND (attempts.ended_at IS NULL OR attempts.is_in_doubt)
    AND coalesce(batch.instance_id, attempts.instance_id) = attempts.instance_id"""
_SILENT: LiteralString = """
UPDATE attempts SET heard_at = batch.at, executor_server_id = NULL FROM batch
WHERE attempts.job_id = batch.job_id AND attempts.number = batch.attempt AND attempts.heard_at > batch.at
    AND attempts.executor_server_id = batch.server_id"""
_LEFT: LiteralString = """
UPDATE attempts SET executor_server_id = NULL
WHERE job_id = :job_id AND number = :attempt AND ended_at IS NULL AND executor_server_id = :server_id"""
_COLUMNS: Columns = {
    "job_id": "text",
    "attempt": "bigint",
    "instance_id": "text",
    "server_id": "text",
    "at": "double precision",
}


async def named(tx: Tx, instance_id: str, refs: Iterable[AttemptRef]) -> None:
    """An instance has just named these attempts; those that are its own are heard."""
    await tx.each(_ATTEMPTS, _COLUMNS, [(ref.job_id, ref.attempt, instance_id, None, tx.now) for ref in sorted(refs)])


async def executor_came(tx: Tx, ref: AttemptRef, server_id: str) -> None:
    await tx.each(_ATTEMPTS, _COLUMNS, [(ref.job_id, ref.attempt, None, server_id, tx.now)])


async def executor_left(tx: Tx, ref: AttemptRef, server_id: str) -> None:
    """Nobody can reach it any more: whoever has its runner looks whether something is still to be told."""
    if await tx.run(_LEFT, job_id=ref.job_id, attempt=ref.attempt, server_id=server_id):
        tx.wake("cancel", ref.job_id)


async def is_elsewhere(tx: Tx, ref: AttemptRef, server_id: str) -> bool:
    row = await tx.one(
        "SELECT " + IS_ELSEWHERE + " AS yes FROM attempts WHERE job_id = :job_id AND number = :attempt",
        job_id=ref.job_id,
        attempt=ref.attempt,
        server_id=server_id,
        since=tx.now - STALE_SECONDS,
    )
    return row is not None and bool(row["yes"])


class Heartbeats:
    """Times are written as those of the heartbeats, not of the batch: a minute of silence is a minute."""

    def __init__(self, db: Database, registry: Registry, server_id: str = "") -> None:
        self._db = db
        self._registry = registry
        self._server_id = server_id
        self._noted: dict[str, tuple[int, float]] = {}

    def note(self, instance_id: str, epoch: int) -> None:
        self._noted[instance_id] = epoch, self._registry.now()

    async def run(self) -> None:
        while True:
            await self.step()  # at once, also after the database was away: those who were heard meanwhile are online
            await asyncio.sleep(WRITE_SECONDS)

    async def step(self) -> None:
        registry, began = self._registry, self._registry.now()
        noted, self._noted = self._noted, {}
        silent, registry.fell_silent = registry.fell_silent, {}
        connected = sorted(registry.executors)
        named = sorted(one for one in registry.named(noted) if one[0] not in registry.executors)

        async def work(tx: Tx) -> None:
            zero = tx.now - registry.now()  # what the database's clock says when ours says nothing
            instances = [(id_, epoch, zero + at) for id_, (epoch, at) in sorted(noted.items())]
            await tx.each(_INSTANCES, {"id": "text", "epoch": "bigint", "at": "double precision"}, instances)
            await tx.each(_SILENT, _COLUMNS, [self._row(ref, None, zero + at) for ref, at in sorted(silent.items())])
            # By attempt and instance: a runner that names another's attempt must not stand in the way of that one's word.
            await tx.each(_ATTEMPTS, _COLUMNS, [self._row(ref, by, zero + noted[by][1]) for ref, by in named])
            await tx.each(_ATTEMPTS, _COLUMNS, [self._row(ref, None, tx.now) for ref in connected])

        if noted or connected or silent:
            try:
                await self._db.write(work)
            except Unavailable:
                self._noted = noted | self._noted
                registry.fell_silent = silent | registry.fell_silent
                registry.pause()
                raise
            if registry.now() - began > GAP_SECONDS:
                registry.pause()

    def _row(self, ref: AttemptRef, instance_id: str | None, at: float) -> tuple[Param, ...]:
        return ref.job_id, ref.attempt, instance_id, None if instance_id else self._server_id, at
