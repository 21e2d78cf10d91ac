"""Finds modules by words of their paths and descriptions, among those that the reader may see."""

from typing import LiteralString

from terracrew.server.db.seam import Param, Tx
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.principals.model import Principal
from terracrew.server.search import patterns

_SEARCHED: LiteralString = """groups.path >= :group_path AND (groups.path > :group_path OR modules.name > :name)
    AND (CAST(:word_1 AS text) = '%%' OR lower(modules.path || ' ' || modules.description) LIKE CAST(:word_1 AS text) ESCAPE '\\')
    AND (CAST(:word_2 AS text) = '%%' OR lower(modules.path || ' ' || modules.description) LIKE CAST(:word_2 AS text) ESCAPE '\\')
    AND (CAST(:word_3 AS text) = '%%' OR lower(modules.path || ' ' || modules.description) LIKE CAST(:word_3 AS text) ESCAPE '\\')
    AND (CAST(:word_4 AS text) = '%%' OR lower(modules.path || ' ' || modules.description) LIKE CAST(:word_4 AS text) ESCAPE '\\')"""
_OF_ORGANIZATION: LiteralString = (
    "SELECT modules.id FROM groups JOIN modules ON modules.group_id = groups.id"
    " WHERE groups.organization_id = :organization_id AND " + _SEARCHED
)
_OF_READER: LiteralString = (
    visibility.SEEN_MODULES
    + """ SELECT modules.id FROM seen_modules JOIN modules ON modules.id = seen_modules.id
    JOIN groups ON groups.id = modules.group_id WHERE """
    + _SEARCHED
)
_OF_PATHS: tuple[LiteralString, LiteralString] = ("modules.path || ' ' || modules.description", "modules.path")
_ORDERED: LiteralString = " ORDER BY groups.path, modules.name LIMIT :count"


async def matching(
    tx: Tx, who: Principal, seen: Visible, search: str, after: str, count: int, *, only_paths: bool = False
) -> list[str]:
    """Return the ids of the modules, by group and name, behind the path `after`; with `only_paths`, descriptions do not count."""
    if seen.is_nothing:
        return []
    group_path, _, name = after.rpartition("/")
    given: dict[str, Param] = {"group_path": group_path, "name": name, "count": count, **patterns(search)}
    if seen.is_everything(who.organization_id or ""):
        sql = _OF_ORGANIZATION.replace(*_OF_PATHS) if only_paths else _OF_ORGANIZATION
        rows = await tx.all(sql + _ORDERED, organization_id=who.organization_id, **given)
    else:
        sql = _OF_READER.replace(*_OF_PATHS) if only_paths else _OF_READER
        rows = await tx.all(sql + _ORDERED, **given, **visibility.params(seen))
    return [row["id"] for row in rows]
