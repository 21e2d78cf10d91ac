"""Rows of discovery rules, and of the folders that they have found."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.api.discovery import DiscoverySettings
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table, assignments, excluded_assignments, values
from terracrew.server.discovery.model import DiscoveryRule, RuleFolder

RULES = Table("discovery_rules", DiscoveryRule, without=("group",))
FOLDERS = Table("discovery_folders", RuleFolder)
SELECT: LiteralString = (
    f'SELECT {RULES.columns}, groups.path AS "group" FROM discovery_rules'
    " JOIN groups ON groups.id = discovery_rules.group_id"
)
_SETTINGS = (*RULES.fields_of(DiscoverySettings), "changed_at", "revision", "due_at", "failures")
_LOOKED: tuple[LiteralString, ...] = (
    "repository_id",
    "seen_default",
    "commit_id",
    "looked_at",
    "problem",
    "due_at",
    "failures",
    "lease_holder",
    "lease_until",
)
_OF_FOLDER: tuple[LiteralString, ...] = ("path", "state", "module_id", "reason", "changed_at")


async def insert(tx: Tx, rule: DiscoveryRule) -> None:
    await tx.run(RULES.insert(), **to_params(rule, *RULES.fields))


async def get(tx: Tx, rule_id: str) -> DiscoveryRule | None:
    row = await tx.one(SELECT + " WHERE discovery_rules.id = :id", id=rule_id)
    return None if row is None else row_to(DiscoveryRule, row)


async def at(tx: Tx, organization_id: str, group: str, name: str) -> DiscoveryRule | None:
    """Return the rule of this name in the group with this path."""
    row = await tx.one(
        SELECT + " WHERE groups.organization_id = :organization_id AND groups.path = :path"
        " AND discovery_rules.name = :name",
        organization_id=organization_id,
        path=group,
        name=name,
    )
    return None if row is None else row_to(DiscoveryRule, row)


async def hold(tx: Tx, rule_id: str) -> DiscoveryRule | None:
    """Read a rule, and lock its row until the transaction ends."""
    if await tx.one("SELECT id FROM discovery_rules WHERE id = :id FOR UPDATE", id=rule_id) is None:
        return None
    return await get(tx, rule_id)


async def change(tx: Tx, after: DiscoveryRule) -> None:
    """Write what people may change of a rule that the transaction holds."""
    await tx.run(
        f"UPDATE discovery_rules SET {assignments(*_SETTINGS)} WHERE id = :id",
        id=after.id,
        **to_params(after, *_SETTINGS),
    )


async def delete(tx: Tx, rule_id: str) -> None:
    await tx.run("DELETE FROM discovery_rules WHERE id = :id", id=rule_id)


async def count(tx: Tx, organization_id: str) -> int:
    return await tx.value(
        "SELECT count(*) AS found FROM discovery_rules WHERE organization_id = :id", id=organization_id
    )


async def make_due(tx: Tx, rule_id: str) -> None:
    """Let a rule be looked at again at once."""
    await tx.run("UPDATE discovery_rules SET due_at = :now, failures = 0 WHERE id = :id", id=rule_id, now=tx.now)


async def claim(tx: Tx, rule_id: str, holder: str, seconds: float) -> DiscoveryRule | None:
    """Claim a rule for a server; None if another one works on it, or if it is not enabled."""
    found = await hold(tx, rule_id)
    if found is None or not found.is_enabled or (found.lease_until is not None and found.lease_until > tx.moment):
        return None
    await tx.run(
        "UPDATE discovery_rules SET lease_holder = :holder, lease_until = :until WHERE id = :id",
        id=rule_id,
        holder=holder,
        until=tx.now + seconds,
    )
    return found


async def renew(tx: Tx, rule_id: str, holder: str, seconds: float) -> None:
    await tx.run(
        "UPDATE discovery_rules SET lease_until = :until WHERE id = :id AND lease_holder = :holder",
        id=rule_id,
        holder=holder,
        until=tx.now + seconds,
    )


async def save_look(tx: Tx, after: DiscoveryRule) -> None:
    """Write what a look has found of a rule that the transaction holds, and give it back."""
    await tx.run(
        f"UPDATE discovery_rules SET {assignments(*_LOOKED)} WHERE id = :id", id=after.id, **to_params(after, *_LOOKED)
    )


async def folders_of(tx: Tx, rule_id: str) -> list[RuleFolder]:
    return await FOLDERS.all(tx, "FROM discovery_folders WHERE rule_id = :id ORDER BY folder", id=rule_id)


async def put_folders(tx: Tx, folders: Sequence[RuleFolder]) -> None:
    """Write folders, new ones and those that are known."""
    await tx.each(
        FOLDERS.insert_batch(*FOLDERS.fields)
        + f" ON CONFLICT (rule_id, folder) DO UPDATE SET {excluded_assignments(*_OF_FOLDER)}",
        FOLDERS.types,
        [values(each, *FOLDERS.fields) for each in sorted(folders, key=lambda each: each.folder)],
    )


async def remove_folders(tx: Tx, rule_id: str, folders: Sequence[str]) -> None:
    await tx.each(
        "DELETE FROM discovery_folders WHERE EXISTS (SELECT 1 FROM batch"
        " WHERE batch.rule_id = discovery_folders.rule_id AND batch.folder = discovery_folders.folder)",
        FOLDERS.types_of("rule_id", "folder"),
        [(rule_id, each) for each in sorted(folders)],
    )
