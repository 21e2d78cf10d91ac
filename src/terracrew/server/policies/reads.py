"""Reads which policies look at the plans of a module."""

from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.policies import store
from terracrew.server.policies.model import Policy

_OF_GROUPS: LiteralString = """ UNION ALL SELECT groups.parent_id FROM above JOIN groups ON groups.id = above.group_id
    WHERE groups.parent_id IS NOT NULL) """
_ABOVE_GROUP: LiteralString = "WITH RECURSIVE above (group_id) AS (SELECT CAST(:group_id AS text)" + _OF_GROUPS
_ABOVE_MODULE: LiteralString = (
    "WITH RECURSIVE above (group_id) AS (SELECT modules.group_id FROM modules WHERE modules.id = :module_id"
    + _OF_GROUPS
)
_ORDER: LiteralString = " ORDER BY coalesce(groups.path, modules.path), policies.name"


async def of_group(tx: Tx, group_id: str) -> list[Policy]:
    """Return the policies that look at the plans of all modules of a group: its own, and those of the groups above."""
    sql: LiteralString = (
        _ABOVE_GROUP + store.SELECT + " WHERE policies.group_id IN (SELECT above.group_id FROM above)" + _ORDER
    )
    return rows_to(Policy, await tx.all(sql, group_id=group_id))


async def of_module(tx: Tx, module_id: str) -> list[Policy]:
    """Return the policies that look at the plans of a module: its own, and those of the groups above."""
    sql: LiteralString = (
        _ABOVE_MODULE
        + store.SELECT
        + " WHERE policies.group_id IN (SELECT above.group_id FROM above) OR policies.module_id = :module_id"
        + _ORDER
    )
    return rows_to(Policy, await tx.all(sql, module_id=module_id))


async def is_any_active(tx: Tx) -> bool:
    """Return whether any policy of this installation looks at plans."""
    return await tx.one("SELECT id FROM policies WHERE state = 'active' LIMIT 1") is not None


async def active(tx: Tx, module_id: str) -> list[Policy]:
    """Return those that look at its plans now."""
    return [each for each in await of_module(tx, module_id) if each.state == "active"]
