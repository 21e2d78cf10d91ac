"""New jobs: requests that come at the same time share a transaction and its statements."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from terracrew import ids
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.protocol.spec import STEPS_OF, JobType, Source
from terracrew.server.audit import service as audit
from terracrew.server.db.mapping import row_to, to_params
from terracrew.server.db.seam import Columns, Database, Tx
from terracrew.server.groups.model import Interrupted
from terracrew.server.identity import authorize
from terracrew.server.identity.authorize import Verb
from terracrew.server.identity.model import Principal
from terracrew.server.jobs import store
from terracrew.server.jobs.model import Job, JobStatus
from terracrew.server.modules import service as modules
from terracrew.server.modules.model import Module


class NewJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person asks for."""

    type: JobType
    priority: int = 0
    source: Source | None = None
    """Instead of the module's own, for this job; whoever may change the module may do that."""
    needs_approval: bool = False
    """Let a person look at its plan, also where the module does not ask for that."""


def again(like: Job) -> NewJob:
    """A new job like this one."""
    return NewJob(like.type, like.priority, needs_approval=like.needs_approval)


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


class _Checked(msgspec.Struct, frozen=True):
    """What has passed every check: of which module, from what, and the job that was made for this key before."""

    wanted: Wanted
    module: Module
    source: Source
    known: Job | None


_FIELDS = (
    "id", "organization_id", "module_id", "number", "type", "status", "priority", "source", "created_by", "needs_approval",
    "approval_seconds", "interrupted",
)  # fmt: skip
_COLUMNS: Columns = {
    "id": "text", "organization_id": "text", "module_id": "text", "number": "bigint", "type": "text", "status": "text",
    "priority": "bigint", "source": "text", "created_by": "text", "needs_approval": "boolean", "approval_seconds": "bigint",
    "interrupted": "text", "idempotency_key": "text", "now": "double precision",
}  # fmt: skip
_INSERT = """
INSERT INTO jobs (id, organization_id, module_id, number, type, status, priority, source, created_by, needs_approval,
    approval_seconds, interrupted, idempotency_key, created_at, queued_at)
SELECT id, organization_id, module_id, number, type, status, priority, source, created_by, needs_approval,
    approval_seconds, interrupted, idempotency_key, now, now
FROM batch"""


def creator(db: Database, roots: Sequence[Path]) -> Create:
    """The way to make jobs."""

    async def work(tx: Tx, items: list[Wanted]) -> list[Created | Exception]:
        found = await modules.find_many(tx, [(item.principal, item.module) for item in items], Verb.JOB_RUN)
        checked: list[_Checked | TerracrewError] = []
        for item in items:
            module = found[item.principal.id, item.module]
            try:  # what is refused here has written nothing yet, so the others of the group are unharmed
                checked.append(module if isinstance(module, TerracrewError) else await _check(tx, item, module, roots))
            except TerracrewError as error:
                checked.append(error)
        new = [one for one in checked if isinstance(one, _Checked) and one.known is None]
        if len(
            {(one.wanted.principal.id, one.wanted.idempotency_key) for one in new if one.wanted.idempotency_key}
        ) < sum(one.wanted.idempotency_key is not None for one in new):
            raise Conflict("one key twice in a group")  # each runs alone then, and the second finds the first
        made = dict(zip(map(id, new), await _insert(tx, new), strict=True)) if new else {}
        return [
            one if isinstance(one, TerracrewError) else Created(one.known or made[id(one)], is_new=one.known is None)
            for one in checked
        ]

    grouped = db.grouped(work)

    async def create(wanted: Wanted) -> Created:
        try:
            return await grouped(wanted)
        except Conflict as error:
            if error.details.get("constraint") != "jobs_idempotency":
                raise
            return await grouped(wanted)  # another server has just used the key: now its job is found

    return create


async def _check(tx: Tx, wanted: Wanted, module: Module, roots: Sequence[Path]) -> _Checked:
    asked = wanted.asked
    if asked.type not in STEPS_OF:
        raise Invalid(f"{asked.type} is not a job for a module: use PLAN, APPLY or DESTROY")
    if not -100 <= asked.priority <= 100:
        raise Invalid("a priority lies between -100 and 100")
    source = module.source
    if asked.source is not None:
        # Other code with the same runner's credentials is a change of the module in all but name.
        await authorize.require(tx, wanted.principal, Verb.TREE_WRITE, modules.place(module))
        source = await modules.checked_source(tx, module.organization_id, asked.source, roots)
    known = None if wanted.idempotency_key is None else await _repeated(tx, wanted, module, source)
    return _Checked(wanted, module, source, known)


async def _repeated(tx: Tx, wanted: Wanted, module: Module, source: Source) -> Job | None:
    row = await tx.one(
        "SELECT " + store.JOB + """ FROM jobs
        WHERE organization_id = :organization_id AND created_by = :created_by AND idempotency_key = :key""",
        organization_id=module.organization_id, created_by=wanted.principal.id, key=wanted.idempotency_key,
    )  # fmt: skip
    if row is None:
        return None
    job, asked = row_to(Job, row), wanted.asked
    is_other_source = asked.source is not None and job.source != source
    is_unasked = asked.needs_approval and not job.needs_approval
    is_other = (job.module_id, job.type, job.priority) != (module.id, asked.type, asked.priority)
    if is_other or is_other_source or is_unasked:
        raise Conflict("this idempotency key was used for another job", job_id=job.id)
    return job


async def _insert(tx: Tx, checked: Sequence[_Checked]) -> list[Job]:
    numbers = await _numbers(tx, Counter(one.module.organization_id for one in checked))
    now = store.moment(tx)
    interrupted = await modules.interrupted(tx, [one.module for one in checked])
    jobs = [_job(one, next(numbers[one.module.organization_id]), interrupted[one.module.id], now) for one in checked]
    rows = [
        (*to_params(job, *_FIELDS).values(), one.wanted.idempotency_key, tx.now)
        for job, one in zip(jobs, checked, strict=True)
    ]
    await tx.each(_INSERT, _COLUMNS, rows)
    await audit.record_all(
        tx,
        [
            audit.Change(
                one.wanted.principal, "job.run", "job", job.id, {"type": job.type, "module": one.module.path},
                job.organization_id,
            )
            for job, one in zip(jobs, checked, strict=True)
        ],
    )  # fmt: skip
    for job in jobs:
        tx.wake("queue", job.id)
        tx.wake("jobs", job.id)
    return jobs


async def _numbers(tx: Tx, wanted: Counter[str]) -> dict[str, Iterator[int]]:
    """The next job numbers of each organization, as many as it needs."""
    found: dict[str, Iterator[int]] = {}
    for organization_id, count in sorted(wanted.items()):
        row = await tx.one(
            "UPDATE organizations SET next_job_number = next_job_number + :count WHERE id = :id RETURNING next_job_number",
            count=count, id=organization_id,
        )  # fmt: skip
        assert row is not None
        found[organization_id] = iter(range(row["next_job_number"] - count, row["next_job_number"]))
    return found


def _job(one: _Checked, number: int, interrupted: Interrupted, now: datetime) -> Job:
    asked = one.wanted.asked
    return Job(
        id=ids.new("job"), organization_id=one.module.organization_id, module_id=one.module.id, number=number,
        type=asked.type, status=JobStatus.QUEUED, attempt=1, priority=asked.priority, source=one.source,
        created_by=one.wanted.principal.id, created_at=now, queued_at=now,
        needs_approval=one.module.needs_approval or asked.needs_approval, approval_seconds=one.module.approval_seconds,
        interrupted=interrupted,
    )  # fmt: skip
