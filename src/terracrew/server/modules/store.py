"""The rows of modules and archives."""

from collections.abc import Sequence

from terracrew.server.db.mapping import row_to, rows_to, to_params
from terracrew.server.db.seam import Row, Tx
from terracrew.server.modules.model import Archive, Module
from terracrew.server.modules.removal import DELETED_ORGANIZATION


async def insert(tx: Tx, module: Module) -> None:
    await tx.run(
        """INSERT INTO modules (id, organization_id, group_id, name, path, description, engine, source,
                                backend, oidc_audiences, runner_id, runner_instance_name, needs_approval,
                                approval_seconds, interrupted, max_destroy, max_destroy_percent, created_at)
           VALUES (:id, :organization_id, :group_id, :name, :path, :description, :engine, :source,
                   :backend, :oidc_audiences, :runner_id, :runner_instance_name, :needs_approval,
                   :approval_seconds, :interrupted, :max_destroy, :max_destroy_percent, :created_at)""",
        **to_params(
            module,
            "id",
            "organization_id",
            "group_id",
            "name",
            "path",
            "description",
            "engine",
            "source",
            "backend",
            "oidc_audiences",
            "runner_id",
            "runner_instance_name",
            "needs_approval",
            "approval_seconds",
            "interrupted",
            "max_destroy",
            "max_destroy_percent",
            "created_at",
        ),
    )


async def update(tx: Tx, module: Module) -> None:
    """Write what a person may change; the state's version is not theirs."""
    await tx.run(
        """UPDATE modules SET description = :description, engine = :engine, source = :source,
                  backend = :backend, oidc_audiences = :oidc_audiences, runner_id = :runner_id,
                  runner_instance_name = :runner_instance_name, needs_approval = :needs_approval,
                  approval_seconds = :approval_seconds, interrupted = :interrupted,
                  max_destroy = :max_destroy, max_destroy_percent = :max_destroy_percent
           WHERE id = :id""",
        **to_params(
            module,
            "id",
            "description",
            "engine",
            "source",
            "backend",
            "oidc_audiences",
            "runner_id",
            "runner_instance_name",
            "needs_approval",
            "approval_seconds",
            "interrupted",
            "max_destroy",
            "max_destroy_percent",
        ),
    )


async def get(tx: Tx, id: str) -> Module | None:  # noqa: A002
    row = await tx.one(
        "SELECT * FROM modules WHERE id = :id AND organization_id <> :deleted", id=id, deleted=DELETED_ORGANIZATION
    )
    return None if row is None else row_to(Module, row)


async def get_many(tx: Tx, ids: Sequence[str]) -> list[Module]:
    rows = await tx.each(
        "SELECT modules.* FROM modules JOIN batch ON batch.id = modules.id", {"id": "text"}, [(each,) for each in ids]
    )
    return [module for module in rows_to(Module, rows) if module.organization_id != DELETED_ORGANIZATION]


async def hold(tx: Tx, id: str) -> Module | None:  # noqa: A002
    """Read it and keep it as it is until the transaction ends."""
    row = await tx.one("SELECT * FROM modules WHERE id = :id FOR UPDATE", id=id)
    return None if row is None or row["organization_id"] == DELETED_ORGANIZATION else row_to(Module, row)


async def at(tx: Tx, organization_id: str, path: str) -> Module | None:
    row = await tx.one(
        "SELECT * FROM modules WHERE organization_id = :organization_id AND path = :path",
        organization_id=organization_id,
        path=path,
    )
    return None if row is None else row_to(Module, row)


def modules(rows: Sequence[Row]) -> list[Module]:
    """Whole rows as modules."""
    return rows_to(Module, rows)


async def insert_archive(tx: Tx, archive: Archive) -> None:
    await tx.run(
        """INSERT INTO archives (id, organization_id, sha256, size, created_by, created_at, configurations)
           VALUES (:id, :organization_id, :sha256, :size, :created_by, :created_at, :configurations)""",
        **to_params(archive),
    )


async def archive(tx: Tx, id: str, organization_id: str) -> Archive | None:  # noqa: A002
    row = await tx.one(
        "SELECT * FROM archives WHERE id = :id AND organization_id = :organization_id",
        id=id,
        organization_id=organization_id,
    )
    return None if row is None else row_to(Archive, row)


async def hold_archive(tx: Tx, id: str, organization_id: str) -> Archive | None:  # noqa: A002
    """Read it and keep it from being removed until the transaction ends, which makes something of it."""
    row = await tx.one(
        "SELECT * FROM archives WHERE id = :id AND organization_id = :organization_id FOR SHARE",
        id=id,
        organization_id=organization_id,
    )
    return None if row is None else row_to(Archive, row)
