"""Reads which rules have something to do, and what people are shown of them."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.api.discovery import FolderState
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.discovery import store
from terracrew.server.discovery.decide import KnownFolders, KnownModule, all_paths, is_made, wanted_paths
from terracrew.server.discovery.model import DiscoveryRule
from terracrew.server.forges import reads as forge_reads
from terracrew.server.forges.model import ForgeRepository
from terracrew.server.forges.reads import GitModule, UsedRepository
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.modules import reads as module_reads

_DUE: LiteralString = """SELECT discovery_rules.id FROM discovery_rules
LEFT JOIN forge_repositories ON forge_repositories.id = discovery_rules.repository_id
WHERE discovery_rules.is_enabled AND (discovery_rules.lease_until IS NULL OR discovery_rules.lease_until <= :now)
    AND (discovery_rules.due_at <= :now OR (discovery_rules.failures = 0
        AND discovery_rules.branch IN ('', forge_repositories.default_branch)
        AND forge_repositories.default_commit <> discovery_rules.seen_default))
ORDER BY discovery_rules.due_at, discovery_rules.id LIMIT :count"""
_NEXT: LiteralString = """SELECT min(CASE WHEN lease_until IS NULL THEN due_at ELSE lease_until END) AS next
    FROM discovery_rules WHERE is_enabled"""
_PAGE: LiteralString = " AND discovery_rules.id > :after ORDER BY discovery_rules.id LIMIT :count"
_COUNTS: LiteralString = """SELECT batch.id, discovery_folders.state, count(*) AS found FROM batch
    JOIN discovery_folders ON discovery_folders.rule_id = batch.id GROUP BY batch.id, discovery_folders.state"""


async def due(tx: Tx, count: int) -> list[str]:
    """Return the rules for which there is something to do now, and that no server works on."""
    return [row["id"] for row in await tx.all(_DUE, now=tx.now, count=count)]


async def next_due(tx: Tx) -> float | None:
    return await tx.value(_NEXT)


async def sources(tx: Tx) -> list[UsedRepository]:
    """Return the repositories that enabled rules of all organizations read, so that they are watched."""
    rows = await tx.all(
        """SELECT discovery_rules.organization_id, groups.path AS "group", discovery_rules.url FROM discovery_rules
        JOIN groups ON groups.id = discovery_rules.group_id WHERE discovery_rules.is_enabled ORDER BY discovery_rules.id"""
    )
    return rows_to(UsedRepository, rows)


async def of_repository(tx: Tx, repository: ForgeRepository, branch: str) -> list[DiscoveryRule]:
    """Return the enabled rules that read this branch of a repository."""
    rows = await tx.all(
        store.SELECT + " WHERE discovery_rules.repository_id = :id AND discovery_rules.is_enabled"
        " AND discovery_rules.branch IN (CAST(:branch AS text), CAST(:default AS text)) ORDER BY discovery_rules.id",
        id=repository.id,
        branch=branch,
        default="" if branch == repository.default_branch else branch,
    )
    return rows_to(DiscoveryRule, rows)


async def page(tx: Tx, organization_id: str, seen: Visible, after: str, count: int) -> list[DiscoveryRule]:
    """Return rules of an organization whose groups the reader may see."""
    if seen.is_nothing:
        return []
    if seen.is_everything(organization_id):
        sql: LiteralString = store.SELECT + " WHERE discovery_rules.organization_id = :organization_id" + _PAGE
        rows = await tx.all(sql, organization_id=organization_id, after=after, count=count)
    else:
        sql = (
            f"{visibility.SEEN_GROUPS} {store.SELECT} JOIN seen_groups ON seen_groups.id = discovery_rules.group_id"
            " WHERE discovery_rules.organization_id = :organization_id" + _PAGE
        )
        rows = await tx.all(sql, organization_id=organization_id, after=after, count=count, **visibility.params(seen))
    return rows_to(DiscoveryRule, rows)


async def of_group(tx: Tx, group_id: str) -> list[DiscoveryRule]:
    """Return the rules of a group itself, by name."""
    rows = await tx.all(
        store.SELECT + " WHERE discovery_rules.group_id = :id ORDER BY discovery_rules.name", id=group_id
    )
    return rows_to(DiscoveryRule, rows)


async def counts(tx: Tx, rule_ids: Sequence[str]) -> dict[str, dict[FolderState, int]]:
    """Return by rule how many of its folders are in each state."""
    found: dict[str, dict[FolderState, int]] = {each: {} for each in rule_ids}
    for row in await tx.each_id(_COUNTS, sorted(found)):
        found[row["id"]][row["state"]] = row["found"]
    return found


async def known_folders(
    tx: Tx, rule: DiscoveryRule, repository: ForgeRepository, branch: str, folders: Sequence[str]
) -> KnownFolders:
    """Read what decides what becomes of these folders."""
    rows = {each.folder: each for each in await store.folders_of(tx, rule.id)}
    made = [each.module_id for each in rows.values() if each.module_id is not None and is_made(each)]
    existing = await module_reads.paths_in(tx, rule.organization_id, made)
    modules: dict[str, KnownModule] = {}
    for each in await tracked_modules(tx, repository, branch):
        if paths.is_within(each.path, rule.group):
            modules.setdefault(each.folder, KnownModule(each.id, each.path))
    wanted = wanted_paths(rule, folders, repository.name)
    taken = await module_reads.taken_paths(tx, rule.organization_id, all_paths(wanted.values()))
    return KnownFolders(rows, modules, frozenset(existing), taken)


async def tracked_modules(
    tx: Tx, repository: ForgeRepository, branch: str, folder: str | None = None
) -> list[GitModule]:
    """Return the modules that run what is in a branch of a repository, or only those that run in one of its folders."""
    return [each for each in await forge_reads.modules_of(tx, repository, folder) if each.tracks(repository, branch)]
