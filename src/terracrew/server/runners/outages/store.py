"""Rows of outages. A row is inserted and deleted by one server only, which announces the change in the same transaction."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.table import Table
from terracrew.server.runners.outages.model import AbsentRunner, RunnerOutage

OUTAGES = Table("runner_outages", RunnerOutage)
_BEGIN: LiteralString = (
    OUTAGES.insert_batch(*OUTAGES.fields)
    + " ON CONFLICT (runner_id) DO NOTHING RETURNING runner_outages.runner_id AS id"
)
_END: LiteralString = """DELETE FROM runner_outages WHERE runner_id IN (SELECT id FROM batch)
RETURNING runner_outages.runner_id AS id"""


async def begin(tx: Tx, runners: Sequence[AbsentRunner]) -> set[str]:
    """Write the outages of these runners, and return the ids of those of which no server has written it before."""
    rows = [(each.id, each.since) for each in sorted(runners, key=lambda each: each.id)]
    return {row["id"] for row in await tx.each(_BEGIN, OUTAGES.types_of(*OUTAGES.fields), rows)}


async def end(tx: Tx, runners: Sequence[AbsentRunner]) -> set[str]:
    """Delete the outages of these runners, and return the ids of those of which no server has deleted it before."""
    return {row["id"] for row in await tx.each_id(_END, sorted(each.id for each in runners))}
