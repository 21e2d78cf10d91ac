"""What people and executors ask of jobs: run, cancel, look, and leave to mutate."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from terracrew import ids
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, TerracrewError
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef, CancelMode
from terracrew.protocol.spec import STEPS_OF, JobType, Source
from terracrew.server.audit import service as audit
from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity import authorize
from terracrew.server.identity.authorize import Verb
from terracrew.server.identity.model import Principal
from terracrew.server.jobs import decide, reasons, store
from terracrew.server.jobs.decide import Next
from terracrew.server.jobs.model import Attempt, Job, JobView, Lock, StepRow
from terracrew.server.modules import service as modules
from terracrew.server.modules.model import Module
from terracrew.server.state import service as states


class NewJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person asks for."""

    type: JobType
    priority: int = 0
    source: Source | None = None
    """Instead of the module's own, for this job; whoever may change the module may do that."""


class Wanted(msgspec.Struct, frozen=True):
    """A job to be made, by whom, once for each key."""

    principal: Principal
    module: str
    """Its id or its path."""
    asked: NewJob
    idempotency_key: str | None = None


class Created(msgspec.Struct, frozen=True):
    job: Job
    is_new: bool


Create = Callable[[Wanted], Awaitable[Created]]
_REFUSALS = {
    "state_moved": "the state has changed since the plan was made",
    "quarantine": "the module has a state in quarantine that a person must adopt or discard first",
    "superseded": "this attempt is no longer the current one",
    "canceled": "the job was canceled",
}


class _Plan(msgspec.Struct, frozen=True):
    """A job that has passed every check: of which module, from what, and the one that was made for this key before."""

    module: Module
    source: Source
    known: Job | None


def creator(db: Database, roots: Sequence[Path]) -> Create:
    """The way to make jobs: requests that come at the same time share a transaction."""

    async def work(tx: Tx, items: list[Wanted]) -> list[Created | Exception]:
        results: list[Created | Exception] = []
        for item in items:
            try:
                plan = await _check(tx, item, roots)
            except TerracrewError as error:  # refused before anything was written for it: the others are unharmed
                results.append(error)
            else:
                results.append(Created(plan.known or await _insert(tx, item, plan), is_new=plan.known is None))
        return results

    return db.grouped(work)


async def _check(tx: Tx, wanted: Wanted, roots: Sequence[Path]) -> _Plan:
    asked = wanted.asked
    module = await modules.find(tx, wanted.principal, wanted.module, Verb.JOB_RUN)
    if asked.type not in STEPS_OF:
        raise Invalid(f"{asked.type} is not a job for a module: use PLAN, APPLY or DESTROY")
    if not -100 <= asked.priority <= 100:
        raise Invalid("a priority lies between -100 and 100")
    source = module.source
    if asked.source is not None:
        # Other code with the same runner's credentials is a change of the module in all but name.
        await authorize.require(tx, wanted.principal, Verb.TREE_WRITE, modules.place(module))
        source = await modules.checked_source(tx, module.organization_id, asked.source, roots)
    return _Plan(module, source, await _repeated(tx, wanted, module, source))


async def _repeated(tx: Tx, wanted: Wanted, module: Module, source: Source) -> Job | None:
    if wanted.idempotency_key is None:
        return None
    row = await tx.one(
        "SELECT " + store.JOB + """ FROM jobs
        WHERE organization_id = :organization_id AND created_by = :created_by AND idempotency_key = :key""",
        organization_id=module.organization_id, created_by=wanted.principal.id, key=wanted.idempotency_key,
    )  # fmt: skip
    if row is None:
        return None
    job = row_to(Job, row)
    asked = wanted.asked
    is_other_source = asked.source is not None and job.source != source
    if (job.module_id, job.type, job.priority) != (module.id, asked.type, asked.priority) or is_other_source:
        raise Conflict("this idempotency key was used for another job", job_id=job.id)
    return job


async def _insert(tx: Tx, wanted: Wanted, plan: _Plan) -> Job:
    module = plan.module
    counted = await tx.one(
        "UPDATE organizations SET next_job_number = next_job_number + 1 WHERE id = :id RETURNING next_job_number - 1 AS number",
        id=module.organization_id,
    )
    assert counted is not None
    row = await tx.one(
        "INSERT INTO jobs (id, organization_id, module_id, number, type, status, priority, source, created_by, idempotency_key,"
        " created_at, queued_at) VALUES (:id, :organization_id, :module_id, :number, :type, 'QUEUED', :priority, :source,"
        " :created_by, :key, :now, :now) RETURNING " + store.JOB,
        id=ids.new("job"), organization_id=module.organization_id, module_id=module.id, number=counted["number"],
        type=wanted.asked.type.value, priority=wanted.asked.priority, source=msgspec.json.encode(plan.source).decode(),
        created_by=wanted.principal.id, key=wanted.idempotency_key, now=tx.now,
    )  # fmt: skip
    assert row is not None
    job = row_to(Job, row)
    await audit.record(tx, wanted.principal, "job.run", "job", job.id, {"type": job.type, "module": module.path})
    tx.wake("queue", job.id)
    tx.wake("jobs", job.id)
    return job


class Owned(msgspec.Struct, frozen=True):
    """An attempt, its job, and the key of its states as it is stored."""

    job: Job
    attempt: Attempt
    sealed_key: bytes


async def owned(tx: Tx, ref: AttemptRef) -> Owned:
    """What belongs to an attempt's credential."""
    job, attempt = await get(tx, ref.job_id), await store.get_attempt(tx, ref.job_id, ref.attempt)
    if attempt is None:
        raise Forbidden("this credential is for another attempt")
    return Owned(job, attempt, await store.sealed_key(tx, ref.job_id, ref.attempt))


async def get(tx: Tx, job_id: str) -> Job:
    return await store.get(tx, job_id)


async def place_of(tx: Tx, job: Job) -> authorize.Place:
    row = await tx.one("SELECT path FROM modules WHERE id = :id", id=job.module_id)
    assert row is not None
    return authorize.module(job.organization_id, row["path"], job.id, job.attempt)


async def find(tx: Tx, principal: Principal, name: str, verb: Verb) -> Job:
    """A job by its id or its number, if the principal may do this with it."""
    if name.isdigit():
        row = await tx.one(
            "SELECT id FROM jobs WHERE organization_id = :organization_id AND number = :number",
            organization_id=principal.organization_id, number=int(name),
        )  # fmt: skip
        if row is None:
            raise NotFound(f"there is no job number {name}")
        name = row["id"]
    job = await store.get(tx, ids.parse("job", name))
    await authorize.require(tx, principal, verb, await place_of(tx, job))
    return job


async def cancel(db: Database, principal: Principal, name: str, mode: CancelMode) -> Job:
    """End a job that nobody runs; ask the attempt that runs it to stop."""

    async def work(tx: Tx) -> Job:
        job = await find(tx, principal, name, Verb.JOB_CANCEL)
        if job.is_terminal:
            raise Conflict(f"job {job.number} has ended already: it is {job.status}", status=job.status)
        after = decide.cancel(job, store.moment(tx), principal.name) or msgspec.structs.replace(job, cancel_mode=mode)
        await store.save(tx, job, after)
        await audit.record(tx, principal, "job.cancel", "job", job.id, {"mode": mode})
        if after.is_active:
            tx.wake("cancel", job.id)
        return after

    return await db.write(work)


async def begin(db: Database, ref: AttemptRef, state_version: int) -> messages.Begun | messages.BeginRefused:
    """Leave to mutate, or why not (rule 4)."""

    async def work(tx: Tx) -> messages.Begun | messages.BeginRefused:
        job, attempt = await store.get(tx, ref.job_id), await store.get_attempt(tx, ref.job_id, ref.attempt)
        assert attempt is not None
        module = await states.standing(tx, job.module_id)
        decision = decide.begin(job, attempt, module, state_version, store.moment(tx))
        if isinstance(decision, str):
            return messages.BeginRefused(decision, _REFUSALS[decision])
        if decision is not None:
            await store.move(tx, job, attempt, decision)
            # The attempt's row was compared; the job's must not have moved beside it.
            await store.save(tx, job, decision.job)
        return messages.Begun(state_version)

    return await db.write(work)


async def settle(
    db: Database, ref: AttemptRef, decision_of: Callable[[Job, Attempt, datetime], Next | None]
) -> Next | None:
    """Load an attempt and its job, decide, and save both if anything changes."""

    async def work(tx: Tx) -> Next | None:
        job, attempt = await store.get(tx, ref.job_id), await store.get_attempt(tx, ref.job_id, ref.attempt)
        if attempt is None:
            return None
        decision = decision_of(job, attempt, store.moment(tx))
        if decision is not None:
            await store.move(tx, job, attempt, decision)
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
