"""Decisions about plans that wait for a person: a plan is approved, declined, or expires."""

import contextlib
from collections.abc import Collection, Mapping

import msgspec

from terracrew.api.jobs import ApprovedJob, GivenApproval, Job, Plan, plain
from terracrew.api.lost_resources import ImportLost
from terracrew.api.modules import Module
from terracrew.errors import Forbidden, Invalid, NotFound, Superseded
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import ImportedResource, JobType
from terracrew.server.audit import service as audit
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import job_inputs, plan_options, service, store
from terracrew.server.jobs.attempts import lost_attempts, received_states
from terracrew.server.jobs.lost_resources.imports import Imports
from terracrew.server.jobs.plans import approver_rules, approvers, decide_plan
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.supervise import FailedRows
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules import service as modules

MAX_OVERDUE = 100
"""The most overdue plans that are handled in one step."""


class ImportedBy(msgspec.Struct, frozen=True):
    """What a new plan imports, and the key that it is stored under."""

    keys: Keyring
    resources: list[ImportedResource]


async def approve(
    db: Database,
    registry: Registry,
    who: Principal,
    name: str,
    attempt: int,
    seen: Collection[AttemptRef] = (),
    comment: str = "",
) -> ApprovedJob:
    """Approve the plan of this attempt and the doubts that the approval names; with enough approvals the job continues with it."""

    async def work(tx: Tx) -> ApprovedJob:
        found = await service.find(tx, who, name, Verb.JOB_APPROVE)
        doubts = await lost_attempts.doubts(
            tx, registry, found.module_id
        )  # attempts are held before jobs, as the ingest does
        job, plan = await _held(tx, found.id, attempt)
        rules = await policy.of_module(tx, job.module_id)
        place = await service.place_of(tx, job)
        known = await approvers.hold(tx, job, plan, rules, place, who.id)
        await authorize.require(
            tx, who, Verb.JOB_APPROVE, place
        )  # the role may have ended while this waited for the job
        if refusal := approver_rules.refusal(job, who, rules, known.facts):
            raise Forbidden(refusal)
        module = await received_states.module_facts(tx, job.module_id, doubts, rules, known.facts)
        looked_at = [doubt.ref for doubt in doubts if doubt.ref in seen]
        denied_by = [need.key for need in known.facts.needs]
        given = GivenApproval(who.id, who.name, tx.moment, looked_at, plain(comment.strip()), denied_by)
        after, decided = decide_plan.approve(job, plan, module, given)
        await plan_store.save(tx, decided)
        await store.save_transition(tx, job, after)
        counted = len(approver_rules.distinct(decided.approvals, known.facts))
        needed = counted + approver_rules.missing(decided.approvals, max(1, rules.min_approvals), known.facts)
        await record_approval(tx, who, job, decided, given, counted, needed)
        return ApprovedJob(**msgspec.structs.asdict(after), approvals_needed=needed, approvals_counted=counted)

    return await db.write(work)


async def record_approval(
    tx: Tx, who: Principal, job: Job, plan: Plan, given: GivenApproval, counted: int, needed: int
) -> None:
    """Record an approval, with how many of those that are needed the plan has now."""
    named = [{"job_id": ref.job_id, "attempt": ref.attempt} for ref in given.doubts]
    details = {"job": job.number, "plan": plan.attempt, "doubts": named, "approvals": counted, "needed": needed}
    details |= {"comment": given.comment} if given.comment else {}
    await _record(tx, who, job, "job.approve", details)


async def decline(db: Database, who: Principal, name: str, attempt: int, reason: str) -> Job:
    """Decline the plan: the job ends without applying it."""

    async def work(tx: Tx) -> Job:
        job, plan = await _held(tx, (await service.find(tx, who, name, Verb.JOB_APPROVE)).id, attempt)
        after, decided = decide_plan.decline(job, plan, who.name, reason, tx.moment)
        await plan_store.save(tx, decided)
        await store.save_transition(tx, job, after)
        await _record(tx, who, job, "job.decline", {"job": job.number, "plan": attempt, "reason": decided.reason})
        return after

    return await db.write(work)


async def replan(db: Database, who: Principal, name: str, attempt: int, importing: ImportedBy | None = None) -> Job:
    """Let the job replace the plan that it waits with by a new one, which waits for approval again and may import resources."""

    async def work(tx: Tx) -> Job:
        job, plan = await _held(tx, (await service.find(tx, who, name, Verb.JOB_RUN)).id, attempt)
        chosen_by = "" if importing is None else who.id
        after = decide_plan.replan(job, plan, who.id, tx.moment, chosen_by)
        await store.save_transition(tx, job, after)
        details: dict[str, object] = {"job": job.number, "plan": attempt}
        if importing is not None:
            await job_inputs.save_imports(tx, importing.keys, job.id, importing.resources)
            details["imports"] = len(importing.resources)
        await _record(tx, who, job, "job.replan", details)
        return after

    return await db.write(work)


async def replan_with_imports(
    db: Database, imports: Imports, who: Principal, name: str, attempt: int, asked: ImportLost
) -> Job:
    """Let the job plan again, and import what the attempts that put its module in doubt, or another job, have lost."""

    async def find(tx: Tx) -> Module:
        job = await service.find(tx, who, name, Verb.JOB_RUN)
        if job.type is not JobType.APPLY:
            raise Invalid.in_field(
                "import_lost", f"job {job.number} is {job.type}, and only an APPLY imports resources"
            )
        if job.is_partial:
            raise Invalid.in_field("import_lost", plan_options.NOTHING_IMPORTED)
        return await modules.find(tx, who, job.module_id, Verb.JOB_RUN)

    found = await imports.choose(who, await db.read(find), asked)
    return await replan(db, who, name, attempt, ImportedBy(imports.keys, found))


async def _record(tx: Tx, who: Principal, job: Job, action: str, details: Mapping[str, object]) -> None:
    """Record a decision in the organization of the job: an administrator may act in another one."""
    await audit.record(tx, who, action, "job", job.id, details, organization_id=job.organization_id)


async def _held(tx: Tx, job_id: str, attempt: int) -> tuple[Job, Plan]:
    job = await store.hold_job(tx, job_id)
    plan = await plan_store.get(tx, job.id, attempt)
    if plan is None:
        raise NotFound(f"attempt {attempt} of job {job.number} has no saved plan to decide about")
    return job, plan


async def expire(db: Database, failed: FailedRows | None = None) -> list[Job]:
    """End the jobs whose plan was not decided about in time, and close overdue plans that no job waits with any more.

    `failed` knows the plans of earlier calls that could not be handled.
    """
    failed = failed or FailedRows("plans")
    rows = await db.read(lambda tx: plan_store.overdue(tx, MAX_OVERDUE + len(failed)))
    left = sorted((row["job_id"], row["attempt"]) for row in rows if not row["is_awaited"])
    if left:
        await db.write(lambda tx: plan_store.close(tx, left))
    ended: list[Job] = []
    awaited = {
        f"{row['job_id']}.{row['attempt']}": (row["job_id"], row["attempt"]) for row in rows if row["is_awaited"]
    }
    for key in sorted(failed.due(awaited)):
        job_id, attempt = awaited[key]

        async def work(tx: Tx, job_id: str = job_id, attempt: int = attempt) -> Job | None:
            job, plan = await store.hold_job(tx, job_id), await plan_store.get(tx, job_id, attempt)
            after = None if plan is None else decide_plan.expire(job, plan, tx.moment)
            if after is not None:
                await store.save_transition(tx, job, after)
            return after

        # A person may decide at this moment, which supersedes this.
        with failed.handling(key), contextlib.suppress(Superseded):
            if (after := await db.write(work)) is not None:
                ended.append(after)
    return ended
