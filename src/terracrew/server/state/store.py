"""Rows of states and outputs."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from terracrew.api.states import State
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements import fragments
from terracrew.server.db.statements.fragments import is_destroyed_after
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.state.content import Sealed, state_context
from terracrew.server.state.model import Received

NEWEST_ID = "sta_zzzz"
"""Sorts after the id of every state."""
STATES = Table("states", State)
_INSERT = STATES.insert("content", "object", "resources")


class StoredState(msgspec.Struct, frozen=True):
    """A state with its content."""

    state: State
    sealed: Sealed

    @property
    def context(self) -> str:
        state = self.state
        return state_context(state.module_id, state.job_id, state.attempt, state.event)


async def get(tx: Tx, state_id: str) -> StoredState | None:
    row = await tx.one("SELECT " + STATES.columns + ", content, object FROM states WHERE id = :id", id=state_id)
    return None if row is None else _kept(row)


async def current(tx: Tx, module_id: str) -> StoredState | None:
    row = await tx.one(
        "SELECT "
        + STATES.columns
        + ", content, object FROM states WHERE module_id = :module_id AND status = 'current'",
        module_id=module_id,
    )
    return None if row is None else _kept(row)


async def of_attempt(tx: Tx, job_id: str, attempt: int, count: int) -> list[State]:
    """Return the newest states of an attempt that can be read, the newest first."""
    return await STATES.all(
        tx,
        """FROM states WHERE job_id = :job_id AND attempt = :attempt AND problem = ''
        ORDER BY event DESC LIMIT :count""",
        job_id=job_id,
        attempt=attempt,
        count=count,
    )


async def resources(tx: Tx, state_id: str) -> int | None:
    """Return how many resources a state holds; None where its executor did not count them."""
    return await tx.value("SELECT resources FROM states WHERE id = :id", id=state_id)


async def versions(tx: Tx, module_id: str, before: str, count: int) -> list[State]:
    """Return the states of a module, the newest first. Those in quarantine and discarded ones are included, without a version."""
    return await STATES.all(
        tx,
        """FROM states WHERE module_id = :module_id AND id < :before
        ORDER BY id DESC LIMIT :count""",
        module_id=module_id,
        before=before or NEWEST_ID,
        count=count,
    )


async def late_states(tx: Tx, module_id: str, writer_id: str) -> list[State]:
    """Return the states in quarantine that a person wrote without the lock."""
    return await STATES.all(
        tx,
        "FROM states WHERE module_id = :module_id AND status = 'quarantined' AND brought_by = :writer_id ORDER BY id",
        module_id=module_id,
        writer_id=writer_id,
    )


async def version_before(tx: Tx, state: State) -> StoredState | None:
    """Return the version of a module's state that came before this state, if it is still stored."""
    row = await tx.one(
        "SELECT "
        + STATES.columns
        + """, content, object FROM states WHERE module_id = :module_id AND version IS NOT NULL AND id < :id
        ORDER BY id DESC LIMIT 1""",
        module_id=state.module_id,
        id=state.id,
    )
    return None if row is None else _kept(row)


class VersionFacts(NamedTuple):
    version: int
    """The version of the module's state."""
    has_quarantine: bool
    """Whether any of its states is in quarantine."""
    is_brought: bool
    """Whether a person imported or restored the current one."""
    is_replaced: bool
    """Whether it took the place of another one then."""
    lock_doubt: str
    """How the lock of a person ended, if not in order, and no state was written since."""
    is_locked: bool
    """Whether a person holds the lock."""


async def version_facts(tx: Tx, module_id: str) -> VersionFacts:
    row = await tx.one(
        """SELECT state_version, lock_doubt, lock_id IS NOT NULL AS is_locked, EXISTS (
            SELECT 1 FROM states WHERE states.module_id = modules.id AND states.status = 'quarantined') AS has_quarantine,
            EXISTS (SELECT 1 FROM states WHERE states.module_id = modules.id AND states.status = 'current'
                AND states.brought_by <> '' AND states.origin <> 'terminal' AND modules.backend = 'terracrew') AS is_brought,
            EXISTS (SELECT 1 FROM states WHERE states.module_id = modules.id AND states.status = 'current'
                AND states.brought_by <> '' AND states.origin <> 'terminal' AND states.version > 1
                AND modules.backend = 'terracrew') AS is_replaced
        FROM modules WHERE id = :module_id""",
        module_id=module_id,
    )
    assert row is not None
    return VersionFacts(
        row["state_version"],
        bool(row["has_quarantine"]),
        bool(row["is_brought"]),
        bool(row["is_replaced"]),
        row["lock_doubt"],
        bool(row["is_locked"]),
    )


async def count_unreadable(tx: Tx, job_id: str, attempt: int) -> int:
    """Return how many states of an attempt that cannot be read are kept."""
    return await tx.value(
        "SELECT count(*) AS count FROM states WHERE job_id = :job_id AND attempt = :attempt AND problem <> ''",
        job_id=job_id,
        attempt=attempt,
    )


async def latest_outputs(tx: Tx, module_id: str) -> Row | None:
    """Return the outputs that a job read last, unless everything was destroyed since."""
    return await tx.one(
        f"""SELECT job_id, module_id, sha256, content, object, created_at FROM outputs
        WHERE module_id = :module_id AND NOT {is_destroyed_after(":module_id", "outputs.created_at")}
        ORDER BY created_at DESC LIMIT 1""",
        module_id=module_id,
    )


async def last_outputs(tx: Tx, module_id: str, count: int) -> list[Row]:
    """Return the outputs that jobs of a module have read, the newest first, also those from before everything was destroyed."""
    return await tx.all(
        """SELECT job_id, module_id, sha256, content, object, created_at FROM outputs
        WHERE module_id = :module_id ORDER BY created_at DESC LIMIT :count""",
        module_id=module_id,
        count=count,
    )


async def insert(tx: Tx, state: State, received: Received) -> None:
    """Write a state that has arrived, with its content or the name of the object that holds it."""
    await tx.run(
        _INSERT,
        **to_params(state),
        content=received.content,
        object=received.object,
        resources=received.fact.resources,
    )


async def supersede(tx: Tx, module_id: str) -> int:
    """Increase the version of the module's state, so that a new state can become current, and return the new version.

    The row of the module is locked until the transaction ends.
    """
    moved = await tx.one(
        "UPDATE modules SET state_version = state_version + 1 WHERE id = :module_id RETURNING state_version",
        module_id=module_id,
    )
    assert moved is not None
    await tx.run(
        "UPDATE states SET status = 'superseded' WHERE module_id = :module_id AND status = 'current'",
        module_id=module_id,
    )
    return moved["state_version"]


async def decide(tx: Tx, state: State) -> bool:
    """Write what was decided about a state in quarantine. Returns False if it is no longer in quarantine."""
    return bool(
        await tx.run(
            "UPDATE states SET status = :status, version = :version WHERE id = :id AND status = 'quarantined'",
            **to_params(state, "id", "status", "version"),
        )
    )


async def delete_old(tx: Tx, state_ids: Sequence[str]) -> list[Row]:
    """Delete those of these states that are neither current nor in quarantine, and return their id, size and object."""
    return await tx.each_id(
        """DELETE FROM states WHERE id IN (SELECT id FROM batch) AND status IN ('superseded', 'discarded')
        RETURNING id, size AS bytes, object""",
        state_ids,
    )


async def delete_batch(tx: Tx, module_id: str, count: int) -> list[Row]:
    """Delete the next states of a deleted module, a bounded number of bytes, and return their id and object."""
    rows = await tx.all(
        """SELECT id, object, coalesce(length(content), 0) AS bytes FROM states WHERE module_id = :module_id
        ORDER BY id LIMIT :count""",
        module_id=module_id,
        count=count,
    )
    chosen = fragments.leading(rows, lambda row: row["bytes"])
    keys = [(row["id"],) for row in chosen]
    await tx.each("DELETE FROM states WHERE id IN (SELECT id FROM batch)", {"id": "text"}, keys)
    return chosen


async def save_outputs(
    tx: Tx, job_id: str, module_id: str, sha256: str, content: bytes, object_name: str | None
) -> None:
    """Write the outputs of a job: encrypted content, or the name of the object that holds it."""
    await tx.run(
        """INSERT INTO outputs (job_id, module_id, sha256, content, object, created_at)
        VALUES (:job_id, :module_id, :sha256, :content, :object, :now)
        ON CONFLICT (job_id) DO UPDATE SET sha256 = excluded.sha256, content = excluded.content,
            object = excluded.object, created_at = excluded.created_at""",
        job_id=job_id,
        module_id=module_id,
        sha256=sha256,
        content=content,
        object=object_name,
        now=tx.now,
    )


async def delete_outputs(tx: Tx, job_id: str) -> list[str]:
    """Delete the outputs of a job and return the names of the objects that held them."""
    rows = await tx.all("DELETE FROM outputs WHERE job_id = :job_id RETURNING object", job_id=job_id)
    return [row["object"] for row in rows if row["object"] is not None]


def _kept(row: Row) -> StoredState:
    return StoredState(row_to(State, row), Sealed(row["content"], row["object"]))
