"""Rows of a module's states and outputs as they change: the current state is replaced, a new one is added."""

import msgspec

from terracrew import ids
from terracrew.protocol.events import OutputsRead
from terracrew.server.db.seam import Tx
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import store
from terracrew.server.state.model import Received, State
from terracrew.server.state.store import Kept


async def kept(tx: Tx, module_id: str) -> Kept | None:
    """Return the current state with its content, as it is stored."""
    return await store.current(tx, module_id)


async def current(tx: Tx, module_id: str) -> State | None:
    found = await store.current(tx, module_id)
    return None if found is None else found.state


async def hold(tx: Tx, module_id: str) -> None:
    """Until the transaction ends, nobody else gives leave on this module or takes in a state of it."""
    await tx.one("SELECT id FROM modules WHERE id = :id FOR NO KEY UPDATE", id=module_id)


async def version(tx: Tx, module_id: str) -> tuple[int, bool]:
    """Return the version of the module's state, and whether any of its states is in quarantine."""
    row = await tx.one(
        """SELECT state_version, EXISTS (
            SELECT 1 FROM states WHERE states.module_id = modules.id AND states.status = 'quarantined') AS has_quarantine
        FROM modules WHERE id = :module_id""",
        module_id=module_id,
    )
    assert row is not None
    return row["state_version"], bool(row["has_quarantine"])


async def insert(
    tx: Tx, module_id: str, job_id: str, attempt: int, event: int, received: Received, version: int | None
) -> None:
    """Add a state: the current one if it has a version, else one in quarantine."""
    fact = received.fact
    await tx.run(
        """INSERT INTO states (id, module_id, version, status, job_id, attempt, event, origin, serial, lineage, sha256, size,
            content, object, resources, problem, created_at)
        VALUES (:id, :module_id, :version, :status, :job_id, :attempt, :event, :origin, :serial, :lineage, :sha256, :size,
            :content, :object, :resources, :problem, :now)""",
        id=ids.new("sta"),
        module_id=module_id,
        version=version,
        status="quarantined" if version is None else "current",
        job_id=job_id,
        attempt=attempt,
        event=event,
        origin=fact.origin,
        serial=fact.serial,
        lineage=fact.lineage,
        sha256=fact.sha256,
        size=fact.size,
        content=received.content,
        object=received.object,
        resources=fact.resources,
        problem=received.problem,
        now=tx.now,
    )


async def count_unreadable(tx: Tx, job_id: str, attempt: int) -> int:
    """Return how many states of an attempt that cannot be read are kept."""
    row = await tx.one(
        "SELECT count(*) AS count FROM states WHERE job_id = :job_id AND attempt = :attempt AND problem <> ''",
        job_id=job_id,
        attempt=attempt,
    )
    return 0 if row is None else row["count"]


async def supersede(tx: Tx, module_id: str) -> int:
    """Make room for a new current state and return its version; the module's row is held until the transaction ends."""
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


def outputs_context(job_id: str) -> str:
    return f"outputs:{job_id}"


async def keep_outputs(
    tx: Tx, module_id: str, job_id: str, outputs: OutputsRead, keys: Keyring, object_name: str | None = None
) -> None:
    """Keep them as the job's: in the row or, where they came by HTTP, in the object that holds them."""
    content = b"" if object_name else keys.encrypt(msgspec.json.encode(outputs.outputs), outputs_context(job_id))
    await tx.run(
        """INSERT INTO outputs (job_id, module_id, sha256, content, object, created_at)
        VALUES (:job_id, :module_id, :sha256, :content, :object, :now)
        ON CONFLICT (job_id) DO UPDATE SET sha256 = excluded.sha256, content = excluded.content,
            object = excluded.object, created_at = excluded.created_at""",
        job_id=job_id,
        module_id=module_id,
        sha256=outputs.sha256,
        content=content,
        object=object_name,
        now=tx.now,
    )
