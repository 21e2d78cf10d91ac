"""The progress of the encryption under a new master key, in one row that all servers see."""

import msgspec

from terracrew.api.operations import RekeyProgress
from terracrew.server.db import stored_values
from terracrew.server.db.seam import Tx

NAME = "rekey"
"""The name of the setting that holds the progress, and of the topic that wakes the loops."""


async def load(tx: Tx) -> RekeyProgress:
    stored = await stored_values.get(tx, NAME)
    return RekeyProgress() if stored is None else msgspec.json.decode(stored, type=RekeyProgress)


async def save(tx: Tx, progress: RekeyProgress) -> None:
    await stored_values.put(tx, NAME, msgspec.json.encode(progress))


async def start(tx: Tx, key_id: str) -> RekeyProgress:
    """Request a rekey. One that already runs continues."""
    before = await load(tx)
    if before.status == "running" and before.key_id == key_id:
        progress = before
    else:
        progress = RekeyProgress("running", key_id, started_at=tx.moment)
        await save(tx, progress)
    tx.wake(NAME)
    return progress


async def stop(tx: Tx) -> RekeyProgress:
    before = await load(tx)
    progress = msgspec.structs.replace(before, status="stopped") if before.status == "running" else before
    await save(tx, progress)
    tx.wake(NAME)
    return progress


async def advance(tx: Tx, progress: RekeyProgress) -> bool:
    """Store the progress. Returns False if the rekey was stopped, or started again with another key."""
    before = await load(tx)
    if before.status != "running" or before.key_id != progress.key_id:
        return False
    await save(tx, progress)
    return True
