"""What becomes of a state that arrives: the current one, or into quarantine until a person has looked."""

from collections.abc import Iterable

import msgspec

from terracrew import ids
from terracrew.protocol.events import OutputsRead
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import decide
from terracrew.server.jobs.destruction import DestroyLimits
from terracrew.server.jobs.model import Attempt, Job
from terracrew.server.principals.model import SYSTEM
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import store
from terracrew.server.state.model import Received, State
from terracrew.server.state.store import Kept

NO_LIMITS = DestroyLimits()
MAX_UNREADABLE = 32
"""How many states of one attempt that cannot be read are kept: a person must decide about each of them."""


async def kept(tx: Tx, module_id: str) -> Kept | None:
    """Return the current state with its content, as it is stored."""
    return await store.current(tx, module_id)


async def current(tx: Tx, module_id: str) -> State | None:
    found = await store.current(tx, module_id)
    return None if found is None else found.state


async def hold(tx: Tx, module_id: str) -> None:
    """Until the transaction ends, nobody else gives leave on this module or takes in a state of it."""
    await tx.one("SELECT id FROM modules WHERE id = :id FOR NO KEY UPDATE", id=module_id)


async def standing(
    tx: Tx, module_id: str, doubts: Iterable[decide.Doubt] = (), limits: DestroyLimits = NO_LIMITS
) -> decide.ModuleStanding:
    """Return what `begin` asks about a module."""
    row = await tx.one(
        """SELECT state_version, EXISTS (
            SELECT 1 FROM states WHERE states.module_id = modules.id AND states.status = 'quarantined') AS has_quarantine
        FROM modules WHERE id = :module_id""",
        module_id=module_id,
    )
    assert row is not None
    return decide.ModuleStanding(row["state_version"], bool(row["has_quarantine"]), tuple(doubts), limits)


async def receive(
    tx: Tx, job: Job, attempt: Attempt, event: int, received: Received, address: str | None = None
) -> bool:
    """Take in a state once. That of the attempt that has leave to mutate becomes current; any other must earn it.

    `address` is where it came from. Return whether it is kept: of those that cannot be read, an attempt has only so many kept.
    """
    if received.problem and await _unreadable(tx, job.id, attempt.number) >= MAX_UNREADABLE:
        return False
    await hold(tx, job.module_id)
    now = await current(tx, job.module_id)
    module = await standing(tx, job.module_id)
    fact = received.fact
    is_nobody_elses = attempt.begun_state_version == module.state_version or (
        now is not None and (now.job_id, now.attempt) == (job.id, attempt.number)
    )
    is_adopted = not received.problem and decide.adoption(
        job,
        attempt,
        is_newest=is_nobody_elses and (now is None or fact.serial > now.serial),
        is_same_lineage=now is None or fact.lineage == now.lineage,
        is_module_mutating=await _is_mutating(tx, job.module_id),
        has_quarantine=module.has_quarantine,
    )
    version = await supersede(tx, job.module_id) if is_adopted else None
    await tx.run(
        """INSERT INTO states (id, module_id, version, status, job_id, attempt, event, origin, serial, lineage, sha256, size,
            content, object, resources, problem, created_at)
        VALUES (:id, :module_id, :version, :status, :job_id, :attempt, :event, :origin, :serial, :lineage, :sha256, :size,
            :content, :object, :resources, :problem, :now)""",
        id=ids.new("sta"),
        module_id=job.module_id,
        version=version,
        status="current" if is_adopted else "quarantined",
        job_id=job.id,
        attempt=attempt.number,
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
    if is_adopted and not decide.is_current(job, attempt):
        details = {"module": job.module_id, "attempt": attempt.number, "version": version, "serial": fact.serial}
        by = msgspec.structs.replace(SYSTEM, address=address)
        await audit.record(tx, by, "state.adopt_late", "job", job.id, details, organization_id=job.organization_id)
    tx.wake("states", job.module_id)
    tx.wake("jobs", job.id)
    return True


async def _unreadable(tx: Tx, job_id: str, attempt: int) -> int:
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


async def _is_mutating(tx: Tx, module_id: str) -> bool:
    """Return whether any attempt of the module is between its `begin` and its end."""
    row = await tx.one(
        """SELECT 1 AS yes FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE jobs.module_id = :module_id AND jobs.status IN ('CLAIMED', 'PROCESSING') AND attempts.ended_at IS NULL
            AND attempts.begun_at IS NOT NULL LIMIT 1""",
        module_id=module_id,
    )
    return row is not None


def outputs_context(job_id: str) -> str:
    return f"outputs:{job_id}"


async def keep_outputs(tx: Tx, job: Job, outputs: OutputsRead, keys: Keyring, object_name: str | None = None) -> None:
    """Keep them as the job's: in the row or, where they came by HTTP, in the object that holds them."""
    content = b"" if object_name else keys.encrypt(msgspec.json.encode(outputs.outputs), outputs_context(job.id))
    await tx.run(
        """INSERT INTO outputs (job_id, module_id, sha256, content, object, created_at)
        VALUES (:job_id, :module_id, :sha256, :content, :object, :now)
        ON CONFLICT (job_id) DO UPDATE SET sha256 = excluded.sha256, content = excluded.content,
            object = excluded.object, created_at = excluded.created_at""",
        job_id=job.id,
        module_id=job.module_id,
        sha256=outputs.sha256,
        content=content,
        object=object_name,
        now=tx.now,
    )
