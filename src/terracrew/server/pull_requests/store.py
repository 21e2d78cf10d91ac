"""Rows of pull requests, of the modules that they touch, and of users of forges."""

from collections.abc import Sequence
from datetime import timedelta
from typing import LiteralString

from msgspec.structs import replace

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table, assignments, batch_assignments, excluded_assignments, values
from terracrew.server.pull_requests.model import ForgeUser, TouchedModule, TrackedPullRequest

PULL_REQUESTS = Table("pull_requests", TrackedPullRequest)
MODULES = Table("pull_request_modules", TouchedModule)
USERS = Table("forge_users", ForgeUser)
_FIXED = ("id", "organization_id", "created_at")
_CHANGEABLE: tuple[LiteralString, ...] = tuple(field for field in PULL_REQUESTS.fields if field not in _FIXED)
_OF_MODULE = ("pull_request_id", "module_id")
_CHANGEABLE_OF_MODULE: tuple[LiteralString, ...] = tuple(field for field in MODULES.fields if field not in _OF_MODULE)


async def get(tx: Tx, pull_request_id: str) -> TrackedPullRequest | None:
    return await PULL_REQUESTS.find(tx, id=pull_request_id)


async def hold(tx: Tx, pull_request_id: str) -> TrackedPullRequest | None:
    return await PULL_REQUESTS.hold(tx, id=pull_request_id)


async def insert(tx: Tx, pull_request_id: str, organization_id: str) -> None:
    """Begin to track a pull request, unless another server does so at the same moment."""
    made = TrackedPullRequest(id=pull_request_id, organization_id=organization_id, created_at=tx.moment)
    fields = ("id", "organization_id", "created_at")
    await tx.each(
        PULL_REQUESTS.insert_batch(*fields) + " ON CONFLICT (id) DO NOTHING",
        PULL_REQUESTS.types_of(*fields),
        [values(made, *fields)],
    )


async def claim(tx: Tx, pull_request_id: str, holder: str, seconds: float) -> TrackedPullRequest | None:
    """Take a pull request for a while; None if another server works on it."""
    row = await hold(tx, pull_request_id)
    if row is None or (row.lease_until is not None and row.lease_until > tx.moment):
        return None
    until = tx.moment + timedelta(seconds=seconds)
    after = replace(row, lease_holder=holder, lease_until=until, due_at=until)  # another one goes on if this one ends
    await save(tx, after)
    return after


async def show_plan_again(tx: Tx, job_id: str) -> None:
    """Let the forge be told more about the plan of a job, if a pull request shows it."""
    await tx.run(
        """UPDATE pull_requests SET due_at = :now WHERE is_active AND id IN
        (SELECT pull_request_id FROM pull_request_modules WHERE plan_job_id = :job_id)""",
        job_id=job_id,
        now=tx.now,
    )
    tx.wake("pull_requests")


async def renew(tx: Tx, pull_request_id: str, holder: str, seconds: float) -> None:
    await tx.run(
        "UPDATE pull_requests SET lease_until = :until WHERE id = :id AND lease_holder = :holder",
        id=pull_request_id,
        holder=holder,
        until=tx.now + seconds,
    )


async def save(tx: Tx, after: TrackedPullRequest) -> None:
    """Write a pull request whose lease or row the caller holds."""
    await tx.run(
        f"UPDATE pull_requests SET {assignments(*_CHANGEABLE)} WHERE id = :id",
        id=after.id,
        **to_params(after, *_CHANGEABLE),
    )


async def make_due(tx: Tx, pull_request_id: str) -> None:
    """Let a pull request be looked at again at once, whoever works on it now."""
    await tx.run(
        "UPDATE pull_requests SET due_at = :now, failures = 0, is_active = true WHERE id = :id",
        id=pull_request_id,
        now=tx.now,
    )
    tx.wake("pull_requests", pull_request_id)


async def modules_of(tx: Tx, pull_request_id: str) -> list[TouchedModule]:
    return await MODULES.all(
        tx, "FROM pull_request_modules WHERE pull_request_id = :id ORDER BY module_id", id=pull_request_id
    )


async def hold_module(tx: Tx, pull_request_id: str, module_id: str) -> TouchedModule | None:
    return await MODULES.hold(tx, pull_request_id=pull_request_id, module_id=module_id)


async def put_modules(tx: Tx, modules: Sequence[TouchedModule]) -> None:
    """Write modules of pull requests, new ones and those that are known."""
    await tx.each(
        MODULES.insert_batch(*MODULES.fields)
        + f" ON CONFLICT (pull_request_id, module_id) DO UPDATE SET {excluded_assignments(*_CHANGEABLE_OF_MODULE)}",
        MODULES.types,
        [values(each) for each in sorted(modules, key=lambda each: each.module_id)],
    )


async def save_modules(tx: Tx, modules: Sequence[TouchedModule]) -> None:
    """Write modules of pull requests that are known, as far as they still are."""
    await tx.each(
        f"UPDATE pull_request_modules SET {batch_assignments(*_CHANGEABLE_OF_MODULE)} FROM batch"
        " WHERE pull_request_modules.pull_request_id = batch.pull_request_id"
        " AND pull_request_modules.module_id = batch.module_id",
        MODULES.types,
        [values(each) for each in sorted(modules, key=lambda each: each.module_id)],
    )


async def remove_modules(tx: Tx, pull_request_id: str, module_ids: Sequence[str]) -> None:
    await tx.each(
        "DELETE FROM pull_request_modules WHERE EXISTS (SELECT 1 FROM batch"
        " WHERE batch.pull_request_id = pull_request_modules.pull_request_id"
        " AND batch.module_id = pull_request_modules.module_id)",
        MODULES.types_of(*_OF_MODULE),
        [(pull_request_id, each) for each in sorted(module_ids)],
    )


async def link(tx: Tx, user: ForgeUser) -> None:
    await tx.run(
        USERS.insert() + " ON CONFLICT (connection_id, forge_user_id) DO UPDATE SET forge_user = excluded.forge_user,"
        " user_id = excluded.user_id, linked_by = excluded.linked_by, linked_at = excluded.linked_at",
        **to_params(user),
    )


async def unlink(tx: Tx, connection_id: str, forge_user_id: str) -> bool:
    changed = await tx.run(
        "DELETE FROM forge_users WHERE connection_id = :connection_id AND forge_user_id = :forge_user_id",
        connection_id=connection_id,
        forge_user_id=forge_user_id,
    )
    return changed > 0


async def linked(tx: Tx, connection_id: str, forge_user_id: str) -> ForgeUser | None:
    return await USERS.find(tx, connection_id=connection_id, forge_user_id=forge_user_id)


async def users_of(tx: Tx, connection_id: str) -> list[ForgeUser]:
    return await USERS.all(
        tx, "FROM forge_users WHERE connection_id = :id ORDER BY forge_user, forge_user_id", id=connection_id
    )
