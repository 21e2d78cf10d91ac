"""What people and executors ask of jobs: run, cancel, look, and leave to mutate."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from terracrew import ids
from terracrew.errors import Conflict, Forbidden, NotFound
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef, CancelMode
from terracrew.protocol.spec import STEPS_OF
from terracrew.server.audit import service as audit
from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity import authorize
from terracrew.server.identity.authorize import Verb
from terracrew.server.identity.model import Principal
from terracrew.server.jobs import decide, reasons, store
from terracrew.server.jobs.decide import Next
from terracrew.server.jobs.model import Attempt, Job, JobView, Lock, StepRow
from terracrew.server.state import service as states

_REFUSALS = {
    "state_moved": "the state has changed since the plan was made",
    "quarantine": "the module has a state in quarantine that a person must adopt or discard first",
    "superseded": "this attempt is no longer the current one",
    "canceled": "the job was canceled",
}


class Owned(msgspec.Struct, frozen=True):
    """An attempt, its job, and the key of its states as it is stored."""

    job: Job
    attempt: Attempt
    sealed_key: bytes


async def owned(tx: Tx, ref: AttemptRef) -> Owned:
    """What belongs to an attempt's credential."""
    found = await store.owned(tx, ref.job_id, ref.attempt)
    if found is None:
        raise Forbidden("this credential is for another attempt")
    return Owned(*found)


async def get(tx: Tx, job_id: str) -> Job:
    return await store.get(tx, job_id)


async def place_of(tx: Tx, job: Job) -> authorize.Place:
    row = await tx.one("SELECT path FROM modules WHERE id = :id", id=job.module_id)
    assert row is not None
    return authorize.module(job.organization_id, row["path"], job.id, job.attempt)


async def find(tx: Tx, principal: Principal, name: str, verb: Verb) -> Job:
    """A job by its id or its number, if the principal may do this with it."""
    if name.isascii() and name.isdigit() and len(name) < 19:
        row = await tx.one(
            "SELECT id FROM jobs WHERE organization_id = :organization_id AND number = :number",
            organization_id=principal.organization_id, number=int(name),
        )  # fmt: skip
        if row is None:
            raise NotFound(f"there is no job number {name}")
        name = row["id"]
    job = await store.get(tx, ids.parse("job", name))
    await authorize.require(tx, principal, verb, await place_of(tx, job), NotFound(f"there is no job {job.id}"))
    return job


async def cancel(db: Database, principal: Principal, name: str, mode: CancelMode) -> Job:
    """End a job that nobody runs; ask the attempt that runs it to stop."""

    async def work(tx: Tx) -> Job:
        job = await store.hold_job(tx, (await find(tx, principal, name, Verb.JOB_CANCEL)).id)
        if job.is_terminal:
            raise Conflict(f"job {job.number} has ended already: it is {job.status}", status=job.status)
        after = decide.cancel(job, mode, store.moment(tx), principal.name)
        await store.save(tx, job, after)
        await audit.record(tx, principal, "job.cancel", "job", job.id, {"mode": mode})
        if after.is_active:
            tx.wake("cancel", job.id)
        return after

    return await db.write(work)


async def begin(db: Database, ref: AttemptRef, state_version: int) -> messages.Begun | messages.BeginRefused:
    """Leave to mutate, or why not (rule 4)."""

    async def work(tx: Tx) -> messages.Begun | messages.BeginRefused:
        found = await store.hold(tx, ref.job_id, ref.attempt)
        if found is None:
            raise NotFound(f"{ref.job_id} has no attempt {ref.attempt}")
        job, attempt = found
        await states.hold(tx, job.module_id)
        module = await states.standing(tx, job.module_id)
        decision = decide.begin(job, attempt, module, state_version, store.moment(tx))
        if isinstance(decision, str):
            return messages.BeginRefused(decision, _REFUSALS[decision])
        if decision is not None:
            await store.move(tx, job, attempt, decision)
        return messages.Begun(state_version)

    return await db.write(work)


async def settle(
    db: Database, ref: AttemptRef, decision_of: Callable[[Job, Attempt, datetime], Next | None]
) -> Next | None:
    """Load an attempt and its job, decide, and save both if anything changes."""

    async def work(tx: Tx) -> Next | None:
        found = await store.hold(tx, ref.job_id, ref.attempt)
        decision = decision_of(*found, store.moment(tx)) if found else None
        if found and decision is not None:
            await store.move(tx, *found, decision)
        return decision

    return await db.write(work)


async def view(tx: Tx, job: Job) -> JobView:
    """Everything about a job that is not its log."""
    row = await tx.one(
        """SELECT modules.path AS module_path, modules.engine,
            (SELECT path FROM runners WHERE runners.id = jobs.runner_id) AS runner_path,
            (SELECT name FROM instances WHERE instances.id = jobs.instance_id) AS instance_name
        FROM jobs JOIN modules ON modules.id = jobs.module_id WHERE jobs.id = :id""",
        id=job.id,
    )
    assert row is not None
    found = {step.name: step for step in await store.steps(tx, job.id, job.attempt)}
    holder = await tx.one(
        "SELECT id AS job_id, number, attempt FROM jobs WHERE module_id = :module_id AND status IN ('CLAIMED', 'PROCESSING')",
        module_id=job.module_id,
    )
    return JobView(
        **msgspec.structs.asdict(job),
        steps=[found.get(step, StepRow(step, "PENDING")) for step in STEPS_OF.get(job.type, ())],
        attempts=await store.attempts(tx, job.id),
        notes=await store.notes(tx, job.id),
        lock=None if holder is None else row_to(Lock, holder),
        reason=await reasons.why(tx, job),
        **row,
    )
