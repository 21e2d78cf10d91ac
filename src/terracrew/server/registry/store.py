"""Rows of published modules and of their versions."""

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from terracrew.api.registry import PublishedModuleSettings
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments
from terracrew.server.registry.model import PublishedModule, PublishedUse, RegistryVersion

MODULES = Table("published_modules", PublishedModule, without=("group",))
VERSIONS = Table("published_versions", RegistryVersion)
USES = Table("published_uses", PublishedUse)
SELECT: LiteralString = (
    f'SELECT {MODULES.columns}, groups.path AS "group" FROM published_modules'
    " JOIN groups ON groups.id = published_modules.group_id"
)
_LOOKED: tuple[LiteralString, ...] = (
    "looked_at",
    "problem",
    "refused_tags",
    "due_at",
    "failures",
    "lease_holder",
    "lease_until",
)
_SETTINGS = (
    *MODULES.fields_of(PublishedModuleSettings),
    "changed_at",
    "revision",
    "due_at",
    "failures",
    "problem",
    "refused_tags",
)


async def insert(tx: Tx, module: PublishedModule) -> None:
    await tx.run(MODULES.insert(), **to_params(module, *MODULES.fields))


async def get(tx: Tx, published_id: str) -> PublishedModule | None:
    row = await tx.one(SELECT + " WHERE published_modules.id = :id", id=published_id)
    return None if row is None else row_to(PublishedModule, row)


async def at(tx: Tx, organization_id: str, group: str, name: str, system: str) -> PublishedModule | None:
    """Return the published module of this name in the group with this path."""
    row = await tx.one(
        SELECT + " WHERE groups.organization_id = :organization_id AND groups.path = :path"
        " AND published_modules.name = :name AND published_modules.system = :system",
        organization_id=organization_id,
        path=group,
        name=name,
        system=system,
    )
    return None if row is None else row_to(PublishedModule, row)


async def hold(tx: Tx, published_id: str) -> PublishedModule | None:
    """Read a published module, and lock its row until the transaction ends."""
    if await tx.one("SELECT id FROM published_modules WHERE id = :id FOR UPDATE", id=published_id) is None:
        return None
    return await get(tx, published_id)


async def change(tx: Tx, after: PublishedModule) -> None:
    """Write what people may change of a published module that the transaction holds."""
    await tx.run(
        f"UPDATE published_modules SET {assignments(*_SETTINGS)} WHERE id = :id",
        id=after.id,
        **to_params(after, *_SETTINGS),
    )


async def make_due(tx: Tx, published_id: str) -> None:
    """Let the tags be looked at again at once, also those that could not become versions."""
    await tx.run(
        "UPDATE published_modules SET due_at = :now, asked_at = :now, failures = 0, refused_tags = '[]' WHERE id = :id",
        id=published_id,
        now=tx.now,
    )


async def following(tx: Tx, organization_id: str) -> list[PublishedModule]:
    """Return the published modules of an organization that follow the tags of a repository."""
    rows = await tx.all(
        SELECT + " WHERE published_modules.organization_id = :id AND published_modules.url <> ''"
        " ORDER BY published_modules.id",
        id=organization_id,
    )
    return rows_to(PublishedModule, rows)


async def ask(tx: Tx, published_ids: Sequence[str]) -> None:
    """Let the tags of modules be looked at at once. Those that could not become versions stay what they are."""
    await tx.each(
        "UPDATE published_modules SET due_at = batch.now, asked_at = batch.now FROM batch WHERE published_modules.id = batch.id",
        {"id": "text", "now": "double precision"},
        [(each, tx.now) for each in sorted(published_ids)],
    )


async def claim(tx: Tx, published_id: str, holder: str, seconds: float) -> PublishedModule | None:
    """Claim a published module for a server; None if another one works on it, or if it follows no tags any more."""
    found = await hold(tx, published_id)
    if found is None or not found.url or (found.lease_until is not None and found.lease_until > tx.moment):
        return None
    await tx.run(
        "UPDATE published_modules SET lease_holder = :holder, lease_until = :until WHERE id = :id",
        id=published_id,
        holder=holder,
        until=tx.now + seconds,
    )
    return found


async def renew(tx: Tx, published_id: str, holder: str, seconds: float) -> None:
    await tx.run(
        "UPDATE published_modules SET lease_until = :until WHERE id = :id AND lease_holder = :holder",
        id=published_id,
        holder=holder,
        until=tx.now + seconds,
    )


async def save_look(tx: Tx, after: PublishedModule) -> None:
    """Write what a look at the tags has found, and give the published module back."""
    await tx.run(
        f"UPDATE published_modules SET {assignments(*_LOOKED)} WHERE id = :id",
        id=after.id,
        **to_params(after, *_LOOKED),
    )


async def mark_moved(tx: Tx, version_id: str, moved_to: str) -> None:
    """Note which other commit the tag of a version names now; '' if it names the first one again."""
    await tx.run("UPDATE published_versions SET moved_to = :moved_to WHERE id = :id", id=version_id, moved_to=moved_to)


async def set_latest(tx: Tx, published_id: str, latest: str) -> None:
    await tx.run("UPDATE published_modules SET latest = :latest WHERE id = :id", id=published_id, latest=latest)


async def delete(tx: Tx, published_id: str) -> None:
    """Delete a published module with its versions."""
    await tx.run("DELETE FROM published_modules WHERE id = :id", id=published_id)


async def count(tx: Tx, organization_id: str) -> int:
    return await tx.value(
        "SELECT count(*) AS found FROM published_modules WHERE organization_id = :id", id=organization_id
    )


async def of_organization(tx: Tx, organization_id: str) -> list[PublishedModule]:
    """Return all published modules of an organization in the order of their paths, without the tags that are no versions."""
    rows = await tx.all(
        f'SELECT {MODULES.columns_without("refused_tags")}, groups.path AS "group" FROM published_modules'
        " JOIN groups ON groups.id = published_modules.group_id WHERE published_modules.organization_id = :organization_id"
        " ORDER BY groups.path, published_modules.name, published_modules.system",
        organization_id=organization_id,
    )
    return rows_to(PublishedModule, rows)


async def count_of_group(tx: Tx, group_id: str) -> int:
    return await tx.value("SELECT count(*) AS found FROM published_modules WHERE group_id = :id", id=group_id)


async def insert_version(tx: Tx, version: RegistryVersion, documentation: str) -> None:
    await tx.run(VERSIONS.insert("documentation"), **to_params(version, *VERSIONS.fields), documentation=documentation)


async def version(tx: Tx, published_id: str, version: str) -> RegistryVersion | None:
    return await VERSIONS.find(tx, published_id=published_id, version=version)


async def version_by_id(tx: Tx, version_id: str) -> RegistryVersion | None:
    return await VERSIONS.find(tx, id=version_id)


async def versions(tx: Tx, published_id: str) -> list[RegistryVersion]:
    return await VERSIONS.all(tx, "FROM published_versions WHERE published_id = :id", id=published_id)


async def documentation(tx: Tx, version_id: str) -> str:
    return await tx.value("SELECT documentation FROM published_versions WHERE id = :id", id=version_id)


async def withdraw(tx: Tx, version_id: str, at: datetime | None, reason: str) -> None:
    """Withdraw a version, or give it back with no time."""
    await tx.run(
        "UPDATE published_versions SET withdrawn_at = :at, withdrawn_reason = :reason WHERE id = :id",
        id=version_id,
        at=None if at is None else at.timestamp(),
        reason=reason,
    )


async def use(tx: Tx, version_id: str, module_id: str) -> PublishedUse | None:
    return await USES.find(tx, version_id=version_id, module_id=module_id)


async def put_use(tx: Tx, use: PublishedUse) -> None:
    """Write that a module has fetched a version, for the first time or again."""
    await tx.run(
        USES.insert() + " ON CONFLICT (version_id, module_id) DO UPDATE SET job_id = excluded.job_id,"
        " fetched_at = excluded.fetched_at",
        **to_params(use),
    )
