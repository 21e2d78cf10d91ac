"""Rows of the updates of instances. A status is written by compare-and-set, because a report and a withdrawal can come at once."""

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.db.topics import UpdateKey
from terracrew.server.runner_updates.model import InstanceUpdate

UPDATES = Table("instance_updates", InstanceUpdate)


async def insert(tx: Tx, update: InstanceUpdate) -> None:
    await tx.run(UPDATES.insert(), **to_params(update))
    _changed(tx, update)


async def get(tx: Tx, update_id: str) -> InstanceUpdate | None:
    return await UPDATES.find(tx, id=update_id)


async def hold(tx: Tx, update_id: str) -> InstanceUpdate | None:
    """Read an update and lock its row until the transaction ends: reports of two connections of an instance can come at once."""
    return await UPDATES.hold(tx, id=update_id)


async def of_job(tx: Tx, job_id: str) -> list[InstanceUpdate]:
    """Return the updates that a fleet job has asked for, in the order in which it asked."""
    return await UPDATES.all(tx, "FROM instance_updates WHERE job_id = :job_id ORDER BY id", job_id=job_id)


async def save(tx: Tx, before: InstanceUpdate, after: InstanceUpdate) -> bool:
    """Write what became of an update. Returns False if it has changed since it was read."""
    done = await tx.run(
        """UPDATE instance_updates SET status = :status, step = :step, words = :words, changed_at = :changed_at
        WHERE id = :id AND status = :was AND step = :was_step AND words = :was_words""",
        **to_params(after, "id", "status", "step", "words", "changed_at"),
        was=before.status,
        was_step=before.step,
        was_words=before.words,
    )
    if done:
        _changed(tx, after)
    return bool(done)


async def withdraw(tx: Tx, job_id: str) -> None:
    """Withdraw the updates of a fleet job that have not ended. Reports about them change nothing from then on."""
    for update in await of_job(tx, job_id):
        if update.is_open and await tx.run(
            """UPDATE instance_updates SET status = 'withdrawn', changed_at = :now
            WHERE id = :id AND status IN ('asked', 'running')""",
            id=update.id,
            now=tx.now,
        ):
            _changed(tx, update)


def _changed(tx: Tx, update: InstanceUpdate) -> None:
    tx.wake("updates", UpdateKey(update.job_id, update.instance_id).encode())
