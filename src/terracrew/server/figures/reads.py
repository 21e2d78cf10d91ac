"""Reads sums of groups together with the entries that are not folded yet, by one statement, so that nothing is seen twice or missed."""

from collections.abc import Collection, Sequence
from typing import LiteralString

from terracrew.server.db.seam import Columns, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.db.statements.table import Table
from terracrew.server.figures.model import SHARED, FigureEntry, tally

ENTRIES = Table("figure_entries", FigureEntry)
_NO_ENTRY: LiteralString = ", ".join(f"NULL AS {name}" for name in ENTRIES.fields)
_ASKED: Columns = {"id": "text", "organization_id": "text", "period": "bigint", "since": "bigint", "part": "bigint"}
_SUMS: LiteralString = f"""
SELECT found.starts_at, found.kind, found.amount, {_NO_ENTRY}
FROM (SELECT batch.since + (figures.starts_at - batch.since) / batch.part * batch.part AS starts_at, figures.kind,
        sum(figures.amount) AS amount
    FROM batch JOIN figures ON figures.group_id = batch.id AND figures.period_seconds = batch.period
        AND figures.starts_at >= batch.since
    GROUP BY batch.since + (figures.starts_at - batch.since) / batch.part * batch.part, figures.kind) AS found
UNION ALL
SELECT NULL, NULL, NULL, {ENTRIES.columns} FROM figure_entries
WHERE figure_entries.organization_id IN (SELECT organization_id FROM batch)"""
_ANCESTORS: LiteralString = """WITH RECURSIVE chain (of_id, id, parent_id) AS (
    SELECT groups.id, groups.id, groups.parent_id FROM batch JOIN groups ON groups.id = batch.id
    UNION ALL SELECT chain.of_id, groups.id, groups.parent_id FROM chain JOIN groups ON groups.id = chain.parent_id)
SELECT of_id, id FROM chain"""


async def ancestors(tx: Tx, group_ids: Collection[str]) -> dict[str, list[str]]:
    """Return each of these groups that exists, with itself and the groups above it."""
    found: dict[str, list[str]] = {}
    for row in await tx.each_id(_ANCESTORS, sorted(group_ids)):
        found.setdefault(row["of_id"], []).append(row["id"])
    return found


async def sums(
    tx: Tx, organization_id: str, group_ids: Sequence[str], period_seconds: int, since: int, part_seconds: int = 0
) -> dict[int, dict[str, float]]:
    """Return what is known of these groups together since a time: by the start of each part, the amounts by kind.

    A part is one period, or as many as `part_seconds` says. None of the groups may be below another one of them, because the sums of
    a group contain those below it.
    """
    part = part_seconds or period_seconds
    found: dict[int, dict[str, float]] = {}
    rows = await tx.each(_SUMS, _ASKED, [(each, organization_id, period_seconds, since, part) for each in group_ids])
    for row in rows:
        if row["kind"] is not None:
            _add(found, row["starts_at"], row["kind"], row["amount"])
    entries = rows_to(FigureEntry, [row for row in rows if row["kind"] is None])
    wanted = frozenset(group_ids) - {SHARED}
    groups = {each.group_id for each in entries} | {each.runner_group_id for each in entries}
    above = await ancestors(tx, groups) if groups else {}
    for (group_id, _, start, kind), amount in tally(entries, above, [period_seconds]).items():
        if group_id in wanted and start >= since:
            _add(found, since + (start - since) // part * part, kind, amount)
    return found


def _add(found: dict[int, dict[str, float]], start: int, kind: str, amount: float) -> None:
    amounts = found.setdefault(start, {})
    amounts[kind] = amounts.get(kind, 0.0) + amount


async def sampled_at(tx: Tx) -> float | None:
    """Return when the capacity of the runners was last looked at."""
    return await tx.value("SELECT sampled_at FROM figure_samples WHERE id = 1")
