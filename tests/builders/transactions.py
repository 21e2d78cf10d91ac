"""Keeps a transaction open while a test does something else, which then has to wait for it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from terracrew.server.db.seam import Database, Tx, Work

BLOCKED_SECONDS = 20.0


@asynccontextmanager
async def held_open(db: Database, work: Work[Any]) -> AsyncGenerator[None]:
    """Do the work of a transaction, and commit it at the end of the block."""
    is_done, may_commit = asyncio.Event(), asyncio.Event()

    async def hold(tx: Tx) -> None:
        await work(tx)
        is_done.set()
        await may_commit.wait()

    holding = asyncio.create_task(db.write(hold))
    await is_done.wait()
    try:
        yield
    finally:
        may_commit.set()
        await holding


async def until_blocked(db: Database, transactions: int = 1) -> None:
    """Wait until so many transactions of PostgreSQL wait for a lock."""
    sql = "SELECT count(*) AS waiting FROM pg_locks WHERE NOT granted"
    async with asyncio.timeout(BLOCKED_SECONDS):
        while (row := await db.read(lambda tx: tx.one(sql))) is None or row["waiting"] < transactions:
            await asyncio.sleep(0.01)
