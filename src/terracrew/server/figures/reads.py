"""Reads sums of groups together with the entries that are not folded yet, by one statement, so that nothing is seen twice or missed."""

from collections.abc import Collection, Sequence
from typing import LiteralString

from terracrew.server.db.seam import Columns, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.figures.model import SHARED, FigureEntry, tally

ENTRY_COLUMNS: LiteralString = """figure_entries.job_id, figure_entries.attempt, figure_entries.status, figure_entries.group_id,
    figure_entries.at, figure_entries.is_end, figure_entries.failure_class, figure_entries.runner_group_id,
    figure_entries.busy_since, figure_entries.wait_seconds"""
_ASKED: Columns = {"id": "text", "organization_id": "text", "period": "bigint", "since": "bigint", "part": "bigint"}
_SUMS: LiteralString = f"""
SELECT found.starts_at, found.kind, found.amount, NULL AS job_id, NULL AS attempt, NULL AS status,
    NULL AS group_id, NULL AS at, NULL AS is_end, NULL AS failure_class, NULL AS runner_group_id, NULL AS busy_since,
    NULL AS wait_seconds
FROM (SELECT batch.since + (figures.starts_at - batch.since) / batch.part * batch.part AS starts_at, figures.kind,
        sum(figures.amount) AS amount
    FROM batch JOIN figures ON figures.group_id = batch.id AND figures.period_seconds = batch.period
        AND figures.starts_at >= batch.since
    GROUP BY batch.since + (figures.starts_at - batch.since) / batch.part * batch.part, figures.kind) AS found
UNION ALL
SELECT NULL, NULL, NULL, {ENTRY_COLUMNS} FROM figure_entries
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
