"""Lists what a module needs of other modules, and which modules use its outputs."""

from datetime import UTC, datetime
from typing import Literal

from terracrew.api.inputs import Dependency
from terracrew.api.pages import Page
from terracrew.server.db.seam import Row, Tx
from terracrew.server.paging import cursor, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.tree.inputs import dependency_reads
from terracrew.wording.module_words import HIDDEN

Direction = Literal["needs", "used_by"]
"""`needs`: the modules whose outputs a module uses. `used_by`: the modules that use its outputs."""


MAX_USERS = 100
"""How many of the modules that use outputs of a module are named or counted."""


async def listing(
    tx: Tx, who: Principal, module_id: str, place: Place, direction: Direction, after: str | None, limit: int
) -> Page[Dependency]:
    """Return a page of the dependencies of a module that the caller may see. Its owners see all that use its outputs."""
    verbs = await authorize.visible_by_verb(tx, who, Verb.TREE_READ, Verb.TREE_WRITE)
    seen = verbs[Verb.TREE_READ]
    if direction == "needs":  # a module has few inputs, so all of them are read
        rows = [row for row in await dependency_reads.needs(tx, module_id) if row["id"] > start(after)]
    else:
        is_all = seen.is_everything(place.organization_id or "") or verbs[Verb.TREE_WRITE].covers(place)
        rows = await dependency_reads.used_by(tx, module_id, None if is_all else seen, start(after), limit + 1)
    items = [_dependency(row, seen) for row in rows[:limit]]
    return Page(items, cursor(items[-1].id) if len(rows) > limit else None)


async def users(tx: Tx, who: Principal | None, module_id: str) -> list[str]:
    """Return the paths of the modules that use outputs of a module, `MAX_USERS` at most.

    Whoever is about to destroy it has to know that it is used, so a module that the reader may not see is counted, not named.
    """
    rows = await dependency_reads.users(tx, module_id, MAX_USERS)
    if not rows or who is None:
        return [row["path"] for row in rows]
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    places = [(row["path"], authorize.module(row["organization_id"], row["path"])) for row in rows]
    return [path if seen.covers(place) else HIDDEN for path, place in places]


def _dependency(row: Row, seen: Visible) -> Dependency:
    is_deleted = row["other_id"] is None
    is_shown = not is_deleted and seen.covers(authorize.module(row["other_organization_id"], row["other_path"]))
    return Dependency(
        id=row["id"],
        module_id=row["other_id"] if is_shown else None,
        path=row["other_path"] if is_shown else None,
        is_deleted=is_deleted,
        output=row["source_output"],
        target=row["target"],
        name=row["name"],
        is_waited_for=bool(row["is_waited_for"]),
        is_outdated=bool(row["is_waited_for"] and row["has_older_outputs"]),
        triggers=row.get("triggers"),
        set_by_name=row["set_by_name"],
        set_at=datetime.fromtimestamp(row["set_at"], UTC),
        is_ended=bool(row["is_ended"]),
        ended_by_name=row["ended_by_name"],
    )
