"""The rows of runners."""

from collections.abc import Sequence
from typing import LiteralString, NamedTuple

from terracrew.api.runners import Runner, RunnerOptions
from terracrew.server.db.seam import Columns, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, delete_some
from terracrew.server.db.statements.mapping import rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments

RUNNERS = Table("runners", Runner)
_INSERT = RUNNERS.insert("worker_token_sha256", "worker_token_expires_at")
_CHANGEABLE = (
    *RUNNERS.fields_of(RunnerOptions),
    "service_account_id",
    "is_disabled",
    "is_draining",
    "configuration",
    "removing_since",
    "is_declared",
    "declared_in",
)
_UPDATE = f"UPDATE runners SET {assignments(*_CHANGEABLE)} WHERE id = :id"
_KEEP_NAME: LiteralString = """
INSERT INTO removed (id, name, removed_at) SELECT batch.id, batch.name, batch.now FROM batch
WHERE EXISTS (SELECT 1 FROM attempts WHERE attempts.instance_id = batch.id)"""
_IS_NAME_UNUSED: LiteralString = """removed_at < :before
    AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.instance_id = removed.id)
    AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.runner_id = removed.id) ORDER BY removed_at"""

_ACCOUNT: LiteralString = """SELECT service_accounts.id, groups.path
FROM service_accounts JOIN groups ON groups.id = service_accounts.group_id"""


async def insert(tx: Tx, runner: Runner, worker_token_sha256: str | None, expires_at: float | None = None) -> None:
    token = {"worker_token_sha256": worker_token_sha256, "worker_token_expires_at": expires_at}
    await tx.run(_INSERT, **to_params(runner), **token)


async def update(tx: Tx, runner: Runner) -> None:
    await tx.run(_UPDATE, **to_params(runner, "id", *_CHANGEABLE))


async def set_worker_token(tx: Tx, id: str, sha256: str, expires_at: float) -> None:  # noqa: A002
    await tx.run(
        "UPDATE runners SET worker_token_sha256 = :sha256, next_worker_token_sha256 = NULL,"
        " worker_token_expires_at = :expires_at, is_worker_token_rotated = false WHERE id = :id",
        expires_at=expires_at,
        id=id,
        sha256=sha256,
    )


async def get(tx: Tx, id: str) -> Runner | None:  # noqa: A002
    return await RUNNERS.find(tx, id=id)


async def hold(tx: Tx, id: str) -> Runner | None:  # noqa: A002
    """Read a runner and lock its row until the transaction ends."""
    return await RUNNERS.hold(tx, id=id)


async def at(tx: Tx, organization_id: str, path: str) -> Runner | None:
    """Return the organization's runner with that path, otherwise the shared one."""
    return await RUNNERS.one(
        tx,
        """FROM runners WHERE path = :path AND (organization_id = :organization_id OR organization_id IS NULL)
           ORDER BY organization_id IS NULL LIMIT 1""",
        organization_id=organization_id,
        path=path,
    )


async def shared(tx: Tx, name: str) -> Runner | None:
    return await RUNNERS.one(tx, "FROM runners WHERE organization_id IS NULL AND path = :name", name=name)


async def all_shared(tx: Tx) -> list[Runner]:
    return await RUNNERS.all(tx, "FROM runners WHERE organization_id IS NULL ORDER BY path")


async def hold_shared(tx: Tx) -> list[Runner]:
    """Read all shared runners and lock their rows until the transaction ends."""
    return await RUNNERS.all(tx, "FROM runners WHERE organization_id IS NULL ORDER BY path FOR UPDATE")


async def insert_declared(tx: Tx, runner: Runner, worker_token_sha256: str) -> None:
    """Insert a shared runner. One that was removed before has the same id, so its name need not be kept any more."""
    await tx.run("DELETE FROM removed WHERE id = :id", id=runner.id)
    await insert(tx, runner, worker_token_sha256)


async def set_declared_token(tx: Tx, id: str, sha256: str) -> bool:  # noqa: A002
    """Set the worker token of a shared runner. Returns False if it has this one already."""
    return (
        await tx.run(
            """UPDATE runners SET worker_token_sha256 = :sha256, next_worker_token_sha256 = NULL
               WHERE id = :id AND (worker_token_sha256 IS NULL OR worker_token_sha256 <> :sha256)""",
            id=id,
            sha256=sha256,
        )
        > 0
    )


async def path_of_token(tx: Tx, sha256: str, other_than: str) -> str | None:
    """Return the path of another runner that has this worker token."""
    return await tx.value(
        "SELECT path FROM runners WHERE worker_token_sha256 = :sha256 AND id <> :id LIMIT 1",
        sha256=sha256,
        id=other_than,
    )


async def active_jobs(tx: Tx, id: str) -> list[int]:  # noqa: A002
    """Return the numbers of the jobs that the runner has now."""
    rows = await tx.all(
        f"SELECT number FROM jobs WHERE runner_id = :id AND status IN {ACTIVE_STATUSES} ORDER BY number", id=id
    )
    return [row["number"] for row in rows]


async def delete(tx: Tx, id: str) -> None:  # noqa: A002
    """Delete a runner. Its jobs and attempts stay, so its name and those of its instances are kept."""
    await tx.run(
        """INSERT INTO removed (id, name, worker_token_sha256, removed_at)
           SELECT id, path, worker_token_sha256, CAST(:now AS double precision) FROM runners WHERE id = :id
           UNION ALL SELECT id, name, NULL, CAST(:now AS double precision) FROM instances WHERE runner_id = :id""",
        id=id,
        now=tx.now,
    )
    await tx.run("DELETE FROM runners WHERE id = :id", id=id)


async def pinned_modules(tx: Tx, id: str, limit: int) -> list[tuple[str, str]]:  # noqa: A002
    """Return the organization and the path of modules that are pinned to this runner."""
    rows = await tx.all(
        "SELECT organization_id, path FROM modules WHERE runner_id = :id ORDER BY path LIMIT :limit", id=id, limit=limit
    )
    return [(row["organization_id"], row["path"]) for row in rows]


async def count_pinned_modules(tx: Tx, id: str) -> int:  # noqa: A002
    return await tx.value("SELECT count(*) AS count FROM modules WHERE runner_id = :id", id=id)


async def get_many(tx: Tx, ids: Sequence[str]) -> list[Runner]:
    """Return these runners, in the order of the ids."""
    rows = await tx.each_id("SELECT runners.* FROM batch JOIN runners ON runners.id = batch.id", ids)
    found = {row["id"]: row for row in rows}
    return rows_to(Runner, [found[each] for each in ids if each in found])


class AccountPlace(NamedTuple):
    """A service account and the path of its group."""

    id: str
    group: str


async def service_account(tx: Tx, id: str, organization_id: str) -> AccountPlace | None:  # noqa: A002
    row = await tx.one(
        _ACCOUNT + " WHERE service_accounts.id = :id AND service_accounts.organization_id = :organization_id",
        id=id,
        organization_id=organization_id,
    )
    return None if row is None else AccountPlace(row["id"], row["path"])


async def service_account_at(tx: Tx, organization_id: str, group: str, name: str) -> AccountPlace | None:
    """Return the service account of this name in the group with this path."""
    row = await tx.one(
        _ACCOUNT
        + """ WHERE service_accounts.organization_id = :organization_id AND groups.path = :group
            AND service_accounts.name = :name""",
        organization_id=organization_id,
        group=group,
        name=name,
    )
    return None if row is None else AccountPlace(row["id"], row["path"])


async def keep_names(tx: Tx, instances: Sequence[tuple[str, str]]) -> None:
    """Keep the names (id, name) of removed instances that attempts refer to."""
    columns: Columns = {"id": "text", "name": "text", "now": "double precision"}
    await tx.each(_KEEP_NAME, columns, sorted((instance_id, name, tx.now) for instance_id, name in instances))


async def delete_names(tx: Tx, before: float, count: int) -> int:
    """Delete the names of runners and instances that were removed before this time, if no attempt refers to them."""
    return await delete_some(tx, "removed", _IS_NAME_UNUSED, before, count)
