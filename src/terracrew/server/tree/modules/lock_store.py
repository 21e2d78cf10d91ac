"""The rows of the locks that people hold. The row of a locked module has the id of its lock, too, and both change together."""

from collections.abc import Sequence

from terracrew.api.locks import ModuleLock
from terracrew.errors import Locked
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.tree.modules import store
from terracrew.wording import lock_words

LOCKS = Table("module_locks", ModuleLock)
REMEMBERED_SECONDS = 30 * 24 * 3600.0
"""How long what the holder of a removed lock writes is still kept in quarantine."""


async def get(tx: Tx, module_id: str) -> ModuleLock | None:
    """Return the lock of a module, if a person holds it."""
    return await LOCKS.find(tx, module_id=module_id)


async def of_waiting(tx: Tx, waiting: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the locks of the modules of these jobs (job, module); `waiting` is the job."""
    return await tx.each(
        "SELECT batch.id AS waiting, "
        + LOCKS.columns
        + " FROM batch JOIN module_locks ON module_locks.module_id = batch.module_id",
        {"id": "text", "module_id": "text"},
        waiting,
    )


async def insert(tx: Tx, lock: ModuleLock) -> ModuleLock:
    """Write a lock, with the name of the API token that it is taken with. The row of the module must be locked (`store.hold`)."""
    await tx.run(LOCKS.insert(), **to_params(lock))
    await store.set_lock(tx, lock.module_id, lock.id)
    row = await tx.one(
        """UPDATE module_locks SET credential_name = coalesce((SELECT name FROM api_tokens
            WHERE api_tokens.id = module_locks.credential_id), '') WHERE module_id = :module_id RETURNING *""",
        module_id=lock.module_id,
    )
    assert row is not None
    return row_to(ModuleLock, row)


async def note_write(tx: Tx, module_id: str, *, is_intermediate: bool) -> None:
    """Note that a state was written under the lock."""
    await tx.run(
        "UPDATE module_locks SET writes = writes + 1, is_last_intermediate = :is_intermediate WHERE module_id = :module_id",
        module_id=module_id,
        is_intermediate=is_intermediate,
    )


async def delete(tx: Tx, module_id: str, doubt: str) -> None:
    """Delete a lock. With a doubt, no plan from before it is applied any more, and every change waits for a person."""
    await tx.run("DELETE FROM module_locks WHERE module_id = :module_id", module_id=module_id)
    await store.set_lock(tx, module_id, None)
    if doubt:
        await store.set_doubt(tx, module_id, doubt)


async def remember(tx: Tx, lock: ModuleLock, by: str) -> None:
    """Remember a lock that is removed by force, and forget those of its module that were removed long ago."""
    await tx.run(
        "DELETE FROM removed_locks WHERE module_id = :module_id AND removed_at < :before",
        module_id=lock.module_id,
        before=tx.now - REMEMBERED_SECONDS,
    )
    await tx.run(
        """INSERT INTO removed_locks (id, module_id, holder_id, credential_id, client_lock_id, removed_by_name, removed_at)
        VALUES (:id, :module_id, :holder_id, :credential_id, :client_lock_id, :by, :now)""",
        **to_params(lock, "id", "module_id", "holder_id", "credential_id", "client_lock_id"),
        by=by,
        now=tx.now,
    )


async def was_removed(tx: Tx, module_id: str, holder_id: str, credential_id: str, client_lock_id: str | None) -> bool:
    """Return whether a lock of this holder was removed by force; with the id of a lock, whether it was that one."""
    row = await tx.one(
        """SELECT 1 AS yes FROM removed_locks WHERE module_id = :module_id AND holder_id = :holder_id
            AND credential_id = :credential_id AND removed_at >= :since
            AND (CAST(:lock_id AS text) IS NULL OR client_lock_id = :lock_id OR id = :lock_id) LIMIT 1""",
        module_id=module_id,
        holder_id=holder_id,
        credential_id=credential_id,
        lock_id=client_lock_id,
        since=tx.now - REMEMBERED_SECONDS,
    )
    return row is not None


async def last_removed(tx: Tx, module_id: str, holder_id: str, credential_id: str) -> str | None:
    """Return the id of the last lock of this holder that was removed by force; None if there was none."""
    return await tx.value(
        """SELECT id FROM removed_locks WHERE module_id = :module_id AND holder_id = :holder_id
            AND credential_id = :credential_id AND removed_at >= :since ORDER BY removed_at DESC, id DESC LIMIT 1""",
        module_id=module_id,
        holder_id=holder_id,
        credential_id=credential_id,
        since=tx.now - REMEMBERED_SECONDS,
    )


async def require_free(tx: Tx, module_id: str, path: str, holder: tuple[str, str | None] | None = None) -> None:
    """Refuse what must not happen while a person holds the lock, unless it is this holder: a principal and its credential."""
    found = await get(tx, module_id)
    if found is not None and (found.holder_id, found.credential_id) != holder:
        raise locked(path, found)


def locked(path: str, found: ModuleLock) -> Locked:
    """Return the error for a module that a person has locked."""
    who = lock_words.holder(found.holder_kind, found.holder_name, found.credential)
    why = f" ({found.reason})" if found.reason else ""
    return Locked(
        f"`{path}` is locked by {who} since {found.created_at:%Y-%m-%d %H:%M} UTC{why}: wait until it is unlocked, or see "
        f"`terracrew module unlock {path} --force`",
        lock=found,
    )
