"""Reads the jobs that one request cancels: those of a selection that have not ended and that the caller may cancel."""

from typing import LiteralString

import msgspec

from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.fragments import ENDED_STATUSES
from terracrew.server.jobs import store
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

_MATCHING: LiteralString = f""" FROM jobs JOIN modules ON modules.id = jobs.module_id
WHERE jobs.organization_id = :organization_id AND jobs.id > :after
  AND jobs.status NOT IN {ENDED_STATUSES}
  AND (CAST(:up_to AS text) IS NULL OR jobs.id <= :up_to)
  AND (CAST(:status AS text) IS NULL OR jobs.status = :status)
  AND (CAST(:module_id AS text) IS NULL OR jobs.module_id = :module_id)
  AND substr(modules.path, 1, length(CAST(:below AS text))) = CAST(:below AS text)"""
"""The jobs of a `CancelSelection` after a given one that have not ended."""
_IN_ORDER: LiteralString = " ORDER BY jobs.id LIMIT :count"
_SEEN: LiteralString = " AND jobs.module_id IN (SELECT id FROM seen_modules)"


class CancelSelection(msgspec.Struct, frozen=True):
    """The open jobs of an organization that a request is about; None and an empty text stand for no limit."""

    organization_id: str
    module_id: str | None
    below: str
    status: str | None
    up_to: str | None


async def ids(tx: Tx, selection: CancelSelection, seen: Visible, after: str, count: int) -> list[str]:
    """Return the oldest jobs of the selection after this one."""
    statement, given = _statement(seen, selection, "jobs.id")
    return [row["id"] for row in await tx.all(statement, after=after, count=count, **given)]


async def hold(tx: Tx, selection: CancelSelection, seen: Visible, after: str, count: int) -> list[Row]:
    """Return and lock the oldest jobs of the selection after this one."""
    statement, given = _statement(seen, selection, store.JOBS.columns)
    statement += " FOR NO KEY UPDATE OF jobs"
    return await tx.all(statement, after=after, count=count, **given)


def _statement(
    seen: Visible, selection: CancelSelection, columns: LiteralString
) -> tuple[LiteralString, dict[str, Param]]:
    """Return the oldest jobs of the selection that the principal may cancel, and what the statement takes."""
    given: dict[str, Param] = msgspec.structs.asdict(selection)
    matching: LiteralString = " SELECT " + columns + _MATCHING
    if seen.is_everything(selection.organization_id):
        return matching + _IN_ORDER, given
    return visibility.SEEN_MODULES + matching + _SEEN + _IN_ORDER, given | visibility.params(seen)
