"""Rows of states and outputs."""

from typing import LiteralString

import msgspec

from terracrew.server.db.mapping import row_to, rows_to
from terracrew.server.db.seam import Row, Tx
from terracrew.server.state.content import Contexts, Sealed, state_contexts
from terracrew.server.state.model import State

NEWEST_ID = "sta_zzzz"
"""Sorts after the id of every state."""
COLUMNS: LiteralString = (
    "id, module_id, status, job_id, attempt, event, origin, serial, lineage, sha256, size, created_at, version, problem"
)


class Kept(msgspec.Struct, frozen=True):
    """A state with its content."""

    state: State
    sealed: Sealed

    @property
    def contexts(self) -> Contexts:
        state = self.state
        return state_contexts(state.module_id, state.job_id, state.attempt, state.event)


async def get(tx: Tx, state_id: str) -> Kept | None:
    row = await tx.one("SELECT " + COLUMNS + ", content, object FROM states WHERE id = :id", id=state_id)
    return None if row is None else _kept(row)


async def current(tx: Tx, module_id: str) -> Kept | None:
    row = await tx.one(
        "SELECT " + COLUMNS + ", content, object FROM states WHERE module_id = :module_id AND status = 'current'",
        module_id=module_id,
    )
    return None if row is None else _kept(row)


async def resources(tx: Tx, state_id: str) -> int | None:
    """Return how many resources a state holds; None where its executor did not count them."""
    row = await tx.one("SELECT resources FROM states WHERE id = :id", id=state_id)
    return None if row is None else row["resources"]


async def versions(tx: Tx, module_id: str, before: str, count: int) -> list[State]:
    """Return all that ever arrived, the newest first; those in quarantine and the discarded ones have no version."""
    rows = await tx.all(
        "SELECT "
        + COLUMNS
        + """ FROM states WHERE module_id = :module_id AND id < :before
        ORDER BY id DESC LIMIT :count""",
        module_id=module_id,
        before=before or NEWEST_ID,
        count=count,
    )
    return rows_to(State, rows)


async def latest_outputs(tx: Tx, module_id: str) -> Row | None:
    """Return what the last job that read them found, unless everything has been destroyed since."""
    return await tx.one(
        """SELECT job_id, module_id, content, object, created_at FROM outputs
        WHERE module_id = :module_id AND NOT EXISTS (
            SELECT 1 FROM jobs WHERE jobs.module_id = :module_id AND jobs.type = 'DESTROY' AND jobs.status = 'SUCCEEDED'
                AND jobs.finished_at > outputs.created_at)
        ORDER BY created_at DESC LIMIT 1""",
        module_id=module_id,
    )


async def change_without_outputs(tx: Tx, module_id: str, read_at: float) -> Row | None:
    """Return the first change that began after outputs were read, and whose own outputs are not known. 0 finds one after none."""
    return await tx.one(
        """SELECT jobs.id AS job_id, jobs.number, attempts.begun_at
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE jobs.module_id = :module_id AND attempts.begun_at > :read_at
            AND NOT (jobs.type = 'DESTROY' AND jobs.status = 'SUCCEEDED')
            AND NOT EXISTS (SELECT 1 FROM jobs AS destroyed WHERE destroyed.module_id = :module_id
                AND destroyed.type = 'DESTROY' AND destroyed.status = 'SUCCEEDED'
                AND destroyed.finished_at > attempts.begun_at)
        ORDER BY attempts.begun_at LIMIT 1""",
        module_id=module_id,
        read_at=read_at,
    )


def _kept(row: Row) -> Kept:
    return Kept(row_to(State, row), Sealed(row["content"], row["object"]))
