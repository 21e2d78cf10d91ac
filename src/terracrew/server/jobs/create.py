"""New jobs: requests that come at the same time share a transaction and its statements."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from terracrew import ids
from terracrew.api import fields
from terracrew.api.jobs import Job, JobOrigin, JobStatus, NewJob
from terracrew.api.lost_resources import ImportLost
from terracrew.api.modules import Module
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.protocol.spec import ArchiveSource, ImportedResource, JobLimits, JobType, Source
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import job_inputs, plan_options, priorities, service, store
from terracrew.server.jobs.lost_resources.imports import Imports
from terracrew.server.objects import Objects
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups import store as groups
from terracrew.server.tree.groups.inheritance import effective
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.inputs import checks as input_checks
from terracrew.server.tree.inputs.effective import JobContent
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules import service as modules
from terracrew.server.tree.modules.policy import JobSettings


def again(like: Job) -> NewJob:
    """Return the request for a job like this one. The source is the module's, unless the job had its own."""
    return NewJob(
        like.type,
        like.priority,
        source=like.source if like.has_own_source else None,
        needs_approval=like.needs_approval,
        is_destroy_plan=like.is_destroy_plan,
        is_fresh=like.is_fresh,
        **msgspec.structs.asdict(plan_options.options_of(like)),
    )


class JobRequest(msgspec.Struct, frozen=True):
    """A request to create a job, by a principal, at most once for each idempotency key."""

    principal: Principal
    module: str
    """Its id or its path."""
    asked: NewJob
    idempotency_key: str | None = None
    repeats: str = ""
    """The id of the earlier job whose request this is. Its inputs and limits are taken over, and its priority is lowered to what
    the principal may choose."""
    cause: Job | None = None
    """The job of another module that changed an output. The new job counts as created by the same person, so that nobody
    approves what follows from their own change where that is not allowed."""
    group_run_id: str | None = None
    """The run of a whole group that the job is a part of."""
    origin: JobOrigin | None = None
    """What made the server ask for the job."""
    created_for: str = ""
    """The id of the person who counts as its creator, for a job that the server creates because of what they did elsewhere."""
    imports: list[ImportedResource] = []
    """What was found for `asked.import_lost`."""
    plan_of: Job | None = None
    """The PLAN job whose plan the new job applies."""
    allows_merge: bool = False
    """Whether the principal needs no right to change the module for that plan's source, because it is a pull request's."""
    needs_plan_json: bool = False
    """Whether a command line shows the plan later."""


class Created(msgspec.Struct, frozen=True):
    job: Job
    is_new: bool


Create = Callable[[JobRequest], Awaitable[Created]]


async def run_again(db: Database, create: Create, who: Principal, name: str) -> Job:
    """Queue a new job with the same request as this one, on behalf of the caller.

    It gets the inputs and limits that apply to the module when it starts, and those that this job was given for itself.
    """
    like = await db.read(lambda tx: service.find(tx, who, name, Verb.JOB_READ))
    return (await create(JobRequest(who, like.module_id, again(like), repeats=like.id))).job


class _Checked(msgspec.Struct, frozen=True):
    """A request that has passed every check, with its module, its source and the earlier job with the same key."""

    wanted: JobRequest
    module: Module
    source: Source
    priority: int
    content: JobContent
    """What the job is given for itself."""
    known: Job | None


class NotClaimedAhead(Exception):
    """A job could not be claimed in the transaction that creates it, which is repeated without that."""


class ClaimAhead(Protocol):
    """Claims new jobs in the transaction that creates them."""

    async def claim(self, tx: Tx, jobs: Sequence[tuple[Job, Module]]) -> dict[str, Job]:
        """Claim jobs, and hand the others to the scheduler. Returns those that have changed, by id.

        Raises NotClaimedAhead if the transaction has to be repeated without this.
        """
        ...


def creator(
    db: Database,
    objects: Objects,
    keys: Keyring,
    roots: Sequence[Path],
    ahead: ClaimAhead | None = None,
    quotas: Quotas | None = None,
) -> Create:
    """Return the function that creates jobs."""

    async def claim_ahead(tx: Tx, items: list[JobRequest]) -> list[Created | TerracrewError]:
        return await create_all(tx, items, keys=keys, roots=roots, ahead=ahead, quotas=quotas)

    queued = db.grouped(partial(create_all, keys=keys, roots=roots, quotas=quotas))
    claimed = db.grouped(claim_ahead) if ahead is not None else queued
    imports = Imports(db, objects, keys)

    async def grouped(wanted: JobRequest) -> Created:
        try:
            return await claimed(wanted)
        except NotClaimedAhead:
            return await queued(wanted)

    async def create(wanted: JobRequest) -> Created:
        if wanted.asked.import_lost is not None:
            wanted = await _with_imports(db, imports, wanted, wanted.asked.import_lost)
        try:
            return await grouped(wanted)
        except Conflict as error:
            if error.details.get("constraint") != "jobs_idempotency":
                raise
            return await grouped(wanted)  # another server has just used the key: now its job is found

    return create


async def create_all(
    tx: Tx,
    items: list[JobRequest],
    *,
    keys: Keyring,
    roots: Sequence[Path],
    ahead: ClaimAhead | None = None,
    quotas: Quotas | None = None,
) -> list[Created | TerracrewError]:
    """Create jobs within a transaction. A request that is refused has an error in its place, and does not affect the others."""
    found = await modules.hold_many(tx, [(item.principal, item.module) for item in items])
    allowed = await _allowed(tx, [item.principal for item in items])
    checked: list[_Checked | TerracrewError] = []
    for item in items:
        who = item.principal
        module, may = found.get(modules.asked_for(who, item.module)), allowed[who.id, who.organization_id]
        try:  # a request that is refused here has written nothing yet, so the other requests of the group are not affected
            if module is None or not may[Verb.JOB_RUN].covers(modules.place(module)):
                module = await modules.find(tx, who, item.module, Verb.JOB_RUN)  # raises the right error
            await _check_secrets(tx, may[Verb.SECRET_USE], who, module)
            checked.append(await _check(tx, keys, item, module, roots))
        except TerracrewError as error:
            checked.append(error)
    if quotas is not None:
        checked = await _within_quotas(tx, quotas, checked)
    new = [one for one in checked if isinstance(one, _Checked) and one.known is None]
    if len({(one.wanted.principal.id, one.wanted.idempotency_key) for one in new if one.wanted.idempotency_key}) < sum(
        one.wanted.idempotency_key is not None for one in new
    ):
        raise Conflict("two jobs of a group have the same idempotency key")  # the second then finds the first
    made = dict(zip(map(id, new), await _insert(tx, keys, new, ahead), strict=True)) if new else {}
    return [
        one if isinstance(one, TerracrewError) else Created(one.known or made[id(one)], is_new=one.known is None)
        for one in checked
    ]


async def _within_quotas(
    tx: Tx, quotas: Quotas, checked: Sequence[_Checked | TerracrewError]
) -> list[_Checked | TerracrewError]:
    """Refuse the new jobs that exceed a quota of their organization, the last ones first."""
    new = Counter(one.module.organization_id for one in checked if isinstance(one, _Checked) and one.known is None)
    admitted = await quotas.admit_jobs(tx, new)
    found: list[_Checked | TerracrewError] = []
    taken: Counter[str] = Counter()
    for one in checked:
        if isinstance(one, _Checked) and one.known is None:
            organization_id = one.module.organization_id
            taken[organization_id] += 1
            admission = admitted[organization_id]
            if taken[organization_id] > admission.count and admission.refusal is not None:
                found.append(admission.refusal)
                continue
        found.append(one)
    return found


async def _with_imports(db: Database, imports: Imports, wanted: JobRequest, lost: ImportLost) -> JobRequest:
    """Find what the job imports. The caller needs the same permission as for the job itself."""
    if wanted.asked.type is JobType.DESTROY or wanted.asked.is_destroy_plan:
        raise Invalid.in_field(
            "import_lost", "an engine imports nothing when it destroys; apply with import_lost first"
        )
    module = await db.read(lambda tx: modules.find(tx, wanted.principal, wanted.module, Verb.JOB_RUN))
    found = await imports.choose(wanted.principal, module, lost)
    return msgspec.structs.replace(wanted, imports=found)


async def _allowed(
    tx: Tx, principals: Sequence[Principal]
) -> dict[tuple[str, str | None], dict[Verb, authorize.Visible]]:
    """Return where each of these principals may run jobs, and where they may use secrets."""
    found: dict[tuple[str, str | None], dict[Verb, authorize.Visible]] = {}
    for who in principals:
        if (actor := (who.id, who.organization_id)) not in found:
            found[actor] = await authorize.visible_by_verb(tx, who, Verb.JOB_RUN, Verb.SECRET_USE)
    return found


async def _check_secrets(tx: Tx, may_use: authorize.Visible, who: Principal, module: Module) -> None:
    """Refuse a job whose engine would be given secrets that the principal may not use."""
    place = modules.place(module)
    if not may_use.covers(place) and await job_inputs.has_secrets(tx, module.id):
        await authorize.require(tx, who, Verb.SECRET_USE, place)


async def _check(tx: Tx, keys: Keyring, wanted: JobRequest, module: Module, roots: Sequence[Path]) -> _Checked:
    asked = wanted.asked
    if asked.is_destroy_plan and asked.type is not JobType.PLAN:
        raise Invalid(
            f"is_destroy_plan is allowed only with the type PLAN, not {asked.type}; to destroy everything, use the type DESTROY"
        )
    await plan_options.check(tx, asked, module)
    priority = await _priority(tx, wanted, module)
    source = module.source
    if asked.source is not None:
        # Running other code with the same runner's credentials has the effect of changing the module, so it needs that permission.
        # The settings of the module can let everybody who may run it apply what the server has merged and planned.
        is_planned = wanted.plan_of is not None and asked.source == wanted.plan_of.source
        if not (wanted.allows_merge and is_planned):
            await authorize.require(tx, wanted.principal, Verb.TREE_WRITE, modules.place(module))
        source = await modules.checked_source(
            tx,
            wanted.principal,
            module.organization_id,
            asked.source,
            roots,
            module.engine,
            is_planned=is_planned,
        )
    if isinstance(source, ArchiveSource) and not source.archive_id:
        raise Conflict(
            f"nothing was uploaded for `{module.path}` yet: set its source"
            + (", or run `tofu plan` or `terraform plan` in its directory" if module.command_line == "runners" else "")
        )
    content = JobContent(asked.inputs, asked.environment, wanted.imports, _own_limits(asked))
    if wanted.repeats:
        content = (await job_inputs.own(tx, keys, [wanted.repeats])).get(wanted.repeats, content)
    if content.inputs or content.environment:
        # An input can decide what is changed or destroyed, and an environment variable can make the engine run other code.
        await authorize.require(tx, wanted.principal, Verb.TREE_WRITE, modules.place(module))
        input_checks.check_inputs(content.inputs)
        input_checks.check_environment(content.environment)
    known = None if wanted.idempotency_key is None else await _repeated(tx, wanted, module, source)
    if known is not None:
        earlier = (await job_inputs.own(tx, keys, [known.id])).get(known.id, JobContent())
        is_importing = bool(content.imports)  # what it imports was chosen when the key was used first
        if (content.inputs, content.environment, is_importing) != (
            earlier.inputs,
            earlier.environment,
            bool(earlier.imports),
        ):
            raise _other_job(known)
    return _Checked(wanted, module, source, priority, content, known)


async def _priority(tx: Tx, wanted: JobRequest, module: Module) -> int:
    """Return the priority of a new job, if the principal may choose it."""
    asked = wanted.asked.priority
    if asked is None:
        return module.priority
    if not wanted.repeats:
        await priorities.require(tx, wanted.principal, module, asked)
        return asked
    highest = await priorities.max_priority(tx, wanted.principal, module)
    return asked if highest is None else min(asked, highest)


async def _repeated(tx: Tx, wanted: JobRequest, module: Module, source: Source) -> Job | None:
    key = wanted.idempotency_key or ""
    job = await store.find_created(tx, module.organization_id, wanted.principal.id, key)
    if job is None:
        return None
    asked = wanted.asked
    is_other_source = asked.source is not None and job.source != source
    is_unasked = (asked.needs_approval and not job.needs_approval) or (asked.is_fresh and not job.is_fresh)
    priority = job.priority if asked.priority is None else asked.priority
    wanted_job = (module.id, asked.type, priority, asked.is_destroy_plan, plan_options.options_of(asked))
    job_options = plan_options.options_of(job)
    is_other = (job.module_id, job.type, job.priority, job.is_destroy_plan, job_options) != wanted_job
    is_stricter = effective(JobLimits, [_own_limits(asked), job.limits]) != job.limits
    if is_other or is_other_source or is_unasked or is_stricter:
        raise _other_job(job)
    return job


def _other_job(job: Job) -> Conflict:
    return Conflict("this idempotency key was used for another job", job_id=job.id)


async def _insert(tx: Tx, keys: Keyring, checked: Sequence[_Checked], ahead: ClaimAhead | None) -> list[Job]:
    settings = await policy.effective_settings(tx, [one.module for one in checked])
    numbers = await _numbers(tx, Counter(one.module.organization_id for one in checked))
    now = tx.moment
    jobs = [_job(one, next(numbers[one.module.organization_id]), settings[one.module.id], now) for one in checked]
    changes = [
        audit.Change(one.wanted.principal, "job.run", "job", job.id, _details(job, one), job.organization_id)
        for job, one in zip(jobs, checked, strict=True)
    ]
    await store.insert(tx, [(job, one.wanted.idempotency_key) for job, one in zip(jobs, checked, strict=True)])
    await audit.record_all(tx, changes)
    await job_inputs.save_own(tx, keys, {job.id: one.content for job, one in zip(jobs, checked, strict=True)})
    new = [(job, one.module) for job, one in zip(jobs, checked, strict=True)]
    if ahead is None:
        store.wake_queue(tx, [job.id for job in jobs])
        return jobs
    changed = await ahead.claim(tx, new)
    return [changed.get(job.id, job) for job in jobs]


def _details(job: Job, one: _Checked) -> dict[str, Any]:
    """Return the details of a new job for the audit log."""
    details: dict[str, Any] = {"type": job.type, "module": one.module.path, "job": job.number}
    if one.wanted.cause is not None:
        details["cause"] = one.wanted.cause.number
    if one.wanted.origin is not None:
        details["origin"] = f"{one.wanted.origin.kind} {one.wanted.origin.name}"
    if one.content.imports:
        details["imports"] = len(one.content.imports)
    if one.wanted.plan_of is not None:
        details["plan_of"] = one.wanted.plan_of.number
    details |= plan_options.details(job)
    return details | {"is_destroy_plan": True} if job.is_destroy_plan else details


async def _numbers(tx: Tx, wanted: Counter[str]) -> dict[str, Iterator[int]]:
    """Return the next job numbers of each organization, as many as it needs."""
    found: dict[str, Iterator[int]] = {}
    for organization_id, count in sorted(wanted.items()):
        found[organization_id] = iter(await groups.take_job_numbers(tx, organization_id, count))
    return found


def _creator(wanted: JobRequest) -> str:
    if wanted.cause is not None:
        return wanted.cause.created_by
    return wanted.created_for or wanted.principal.id


def _own_limits(asked: NewJob) -> JobLimits:
    return JobLimits() if asked.limits is None else fields.changed(JobLimits(), asked.limits)


def _job(one: _Checked, number: int, settings: JobSettings, now: datetime) -> Job:
    asked = one.wanted.asked
    return Job(
        id=ids.new("job"),
        organization_id=one.module.organization_id,
        module_id=one.module.id,
        number=number,
        type=asked.type,
        status=JobStatus.QUEUED,
        attempt=1,
        priority=one.priority,
        source=one.source,
        created_by=_creator(one.wanted),
        created_at=now,
        queued_at=now,
        needs_approval=one.module.needs_approval or asked.needs_approval,
        approval_seconds=one.module.approval_seconds,
        interrupted=settings.interrupted,
        is_destroy_plan=asked.is_destroy_plan,
        is_fresh=one.module.is_fresh or asked.is_fresh,
        has_own_source=asked.source is not None,
        needs_plan_json=one.wanted.needs_plan_json,
        group_run_id=one.wanted.group_run_id,
        origin=one.wanted.origin,
        plan_job_id=None if one.wanted.plan_of is None else one.wanted.plan_of.id,
        plan_queued_by="" if one.wanted.plan_of is None else one.wanted.plan_of.created_by,
        cause_job_id=None if one.wanted.cause is None else one.wanted.cause.id,
        limits=effective(JobLimits, [one.content.limits, settings.limits]),
        cloud=settings.cloud,
        dispatcher=settings.dispatcher,
        **msgspec.structs.asdict(plan_options.options_of(asked)),
    )
