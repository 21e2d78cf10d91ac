"""The rows of modules and archives."""

from collections.abc import Iterable, Sequence

from terracrew.api.modules import Archive, Module, ModuleSettings
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import readable_rows, row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments
from terracrew.server.tree.groups.store import DELETED_ORGANIZATION

MODULES = Table("modules", Module, without=("inputs", "environment"))
ARCHIVES = Table("archives", Archive)
_SETTINGS = (*MODULES.fields_of(ModuleSettings), "runner_id")
_UPDATE = f"UPDATE modules SET {assignments(*_SETTINGS, 'source_gone')} WHERE id = :id"


async def insert(tx: Tx, module: Module) -> None:
    await tx.run(MODULES.insert(), **to_params(module, *MODULES.fields))


async def update(tx: Tx, module: Module) -> None:
    """Write the columns that a person may change. The version of the state is not one of them."""
    await tx.run(_UPDATE, **to_params(module, "id", *_SETTINGS, "source_gone"))


async def mark_source(tx: Tx, id: str, gone: str) -> None:  # noqa: A002
    """Write since which commit the folder of a module is gone, or that it is there."""
    await tx.run("UPDATE modules SET source_gone = :gone WHERE id = :id", id=id, gone=gone)


async def set_lock(tx: Tx, id: str, lock_id: str | None) -> None:  # noqa: A002
    """Write the id of the lock that a person holds, or that nobody does."""
    await tx.run("UPDATE modules SET lock_id = :lock_id WHERE id = :id", id=id, lock_id=lock_id)


async def set_doubt(tx: Tx, id: str, doubt: str) -> None:  # noqa: A002
    """Write why what was changed under a lock may be in no state. Every plan from before is stale then (rule 4)."""
    await tx.run(
        "UPDATE modules SET lock_doubt = :doubt, state_version = state_version + 1 WHERE id = :id", id=id, doubt=doubt
    )


async def end_doubt(tx: Tx, id: str) -> None:  # noqa: A002
    """Note that a state was written after the doubt about what was changed under a lock."""
    await tx.run("UPDATE modules SET lock_doubt = '' WHERE id = :id AND lock_doubt <> ''", id=id)


async def sealed_key(tx: Tx, id: str) -> bytes | None:  # noqa: A002
    row = await tx.one("SELECT sealed_key FROM modules WHERE id = :id", id=id)
    return None if row is None or row["sealed_key"] is None else bytes(row["sealed_key"])


async def set_key(tx: Tx, id: str, sealed: bytes) -> None:  # noqa: A002
    """Store the module's key, which is never replaced."""
    await tx.run("UPDATE modules SET sealed_key = :sealed WHERE id = :id AND sealed_key IS NULL", id=id, sealed=sealed)


async def hide(tx: Tx, id: str, organization_id: str, group_id: str) -> None:  # noqa: A002
    """Move a deleted module to an organization without members, which frees its path."""
    await tx.run(
        """UPDATE modules SET organization_id = :organization_id, group_id = :group_id, path = id, name = id,
            runner_id = NULL, runner_instance_name = NULL
        WHERE id = :id""",
        organization_id=organization_id,
        group_id=group_id,
        id=id,
    )


async def move(tx: Tx, id: str, group_id: str, name: str, path: str) -> None:  # noqa: A002
    await tx.run(
        "UPDATE modules SET group_id = :group_id, name = :name, path = :path WHERE id = :id",
        id=id,
        group_id=group_id,
        name=name,
        path=path,
    )


async def delete(tx: Tx, id: str) -> None:  # noqa: A002
    """Delete the row of a module, which fails while anything refers to it."""
    await tx.run("DELETE FROM modules WHERE id = :id", id=id)


async def next_deleted(tx: Tx, after: str) -> str | None:
    """Return the id of the next deleted module after `after` whose row still exists."""
    return await tx.value(
        """SELECT id FROM modules WHERE organization_id = :organization_id AND path > :after ORDER BY path LIMIT 1""",
        organization_id=DELETED_ORGANIZATION,
        after=after,
    )


async def get(tx: Tx, id: str) -> Module | None:  # noqa: A002
    return await MODULES.one(
        tx, "FROM modules WHERE id = :id AND organization_id <> :deleted", id=id, deleted=DELETED_ORGANIZATION
    )


async def hold_many(tx: Tx, ids: Sequence[str]) -> list[Module]:
    """Return those of these modules that exist and can be read. They are not moved or deleted until the transaction ends."""
    rows = await tx.each_id(
        "SELECT modules.* FROM modules JOIN batch ON batch.id = modules.id FOR KEY SHARE OF modules", ids
    )
    return [module for module in readable_rows(Module, rows) if module.organization_id != DELETED_ORGANIZATION]


async def hold(tx: Tx, id: str) -> Module | None:  # noqa: A002
    """Read a module and lock its row until the transaction ends."""
    row = await tx.one("SELECT * FROM modules WHERE id = :id FOR UPDATE", id=id)
    return None if row is None or row["organization_id"] == DELETED_ORGANIZATION else row_to(Module, row)


async def lock(tx: Tx, id: str) -> None:  # noqa: A002
    """Lock the row of a module against other changes until the transaction ends; rows that refer to it can be added."""
    await tx.one("SELECT id FROM modules WHERE id = :id FOR NO KEY UPDATE", id=id)


async def at(tx: Tx, organization_id: str, path: str) -> Module | None:
    return await MODULES.find(tx, organization_id=organization_id, path=path)


async def hold_at_many(tx: Tx, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Module]:
    """Likewise, the modules at these paths. Each is given with its organization, as in the keys of the result."""
    rows = await tx.each(
        """SELECT modules.* FROM batch
        JOIN modules ON modules.organization_id = batch.organization_id AND modules.path = batch.path
        FOR KEY SHARE OF modules""",
        {"organization_id": "text", "path": "text"},
        sorted(set(places)),
    )
    return {(module.organization_id, module.path): module for module in rows_to(Module, rows)}


def modules(rows: Sequence[Row]) -> list[Module]:
    """Convert whole rows to modules."""
    return rows_to(Module, rows)


async def insert_archive(tx: Tx, archive: Archive) -> None:
    await tx.run(ARCHIVES.insert(), **to_params(archive))


async def delete_archive(tx: Tx, id: str) -> None:  # noqa: A002
    await tx.run("DELETE FROM archives WHERE id = :id", id=id)


async def archive(tx: Tx, id: str, organization_id: str) -> Archive | None:  # noqa: A002
    return await ARCHIVES.find(tx, id=id, organization_id=organization_id)


async def hold_archive(tx: Tx, id: str, organization_id: str) -> Archive | None:  # noqa: A002
    """Read an archive and lock its row, so that it cannot be removed before the transaction that uses it ends."""
    return await ARCHIVES.one(
        tx,
        "FROM archives WHERE id = :id AND organization_id = :organization_id FOR SHARE",
        id=id,
        organization_id=organization_id,
    )
