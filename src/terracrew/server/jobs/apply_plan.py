"""Applies the plan that a PLAN job has kept, by a new job that continues with it (ADR 0073)."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from terracrew.api.jobs import ApplyPlan, GivenApproval, Job, Plan
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.protocol.spec import JobType
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import approvals, create, decide, service, store
from terracrew.server.jobs.attempts import claim_store, claims, lost_attempts, received_states
from terracrew.server.jobs.create import JobRequest
from terracrew.server.jobs.plans import approver_rules, approvers, decide_plan
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules import service as modules

_CHANGED = (
    "an input, a hook, a flag or another setting of the module has changed since the plan of job {number} was made: "
    "plan again, and look at the new plan"
)


Apply = Callable[[Principal, str, ApplyPlan], Awaitable[create.Created]]


def applier(
    db: Database, registry: Registry, keys: Keyring, roots: Sequence[Path], quotas: Quotas | None = None
) -> Apply:
    """Return the function that applies plans of PLAN jobs."""

    async def apply(who: Principal, name: str, asked: ApplyPlan) -> create.Created:
        async def work(tx: Tx) -> create.Created:
            return await apply_plan(tx, registry, who, name, asked, keys=keys, roots=roots, quotas=quotas)

        return await db.write(work)

    return apply


async def apply_plan(
    tx: Tx,
    registry: Registry,
    who: Principal,
    name: str,
    asked: ApplyPlan,
    *,
    keys: Keyring,
    roots: Sequence[Path],
    quotas: Quotas | None = None,
    group_run_id: str | None = None,
    created_for: str = "",
    allows_merge: bool = False,
) -> create.Created:
    """Create the job that applies the plan of a PLAN job, or return it if the same person has asked for it before.

    `created_for`: the id of the person who counts as its creator, where the server itself asks. `allows_merge`: the settings of the
    module let whoever may run it apply the plan of a pull request.

    It continues with the plan at once if nobody has to look at it, or if nobody else has to. Otherwise it waits for approval.
    """
    found = await service.find(tx, who, name, Verb.JOB_READ)
    doubts = await lost_attempts.doubts(
        tx, registry, found.module_id
    )  # attempts are held before jobs, as the ingest does
    planned = await store.hold_job(tx, found.id)
    kept = None if planned.plan_attempt is None else await plan_store.get(tx, planned.id, planned.plan_attempt)
    if kept is not None and kept.taken_by:
        return await _taken(tx, who, kept)
    module = await modules.find(tx, who, planned.module_id, Verb.JOB_RUN)
    facts = await received_states.module_facts(tx, module.id, doubts)
    now = tx.moment
    if why := decide_plan.refusal_to_apply(
        planned, kept, state_version=facts.state_version, source=module.source, now=now
    ):
        raise Conflict(why)
    assert kept is not None
    if asked.is_destroy != planned.is_destroy_plan:
        raise Invalid(_other_kind(planned))
    if await claims.inputs_sha256_now(tx, keys, planned.id) != kept.inputs_sha256:
        raise Conflict(_CHANGED.format(number=planned.number))

    new = msgspec.structs.replace(
        create.again(planned), type=JobType.DESTROY if asked.is_destroy else JobType.APPLY, is_destroy_plan=False
    )
    request = JobRequest(
        who,
        module.id,
        new,
        repeats=planned.id,
        plan_of=planned,
        group_run_id=group_run_id,
        origin=planned.origin,
        created_for=created_for,
        allows_merge=allows_merge,
    )
    [created] = await create.create_all(tx, [request], keys=keys, roots=roots, quotas=quotas)
    if isinstance(created, TerracrewError):
        raise created
    job = created.job
    rules = await policy.of_module(tx, module.id)
    facts = await received_states.module_facts(tx, module.id, doubts, rules)
    reasons = decide.reasons_to_ask(msgspec.structs.replace(job, plan=planned.plan), facts, has_waited=False)
    waiting, plan = decide_plan.choose(job, planned, kept, "; ".join(reasons))
    if not reasons:
        after, plan = decide_plan.accept(waiting, plan, who.name, now)
    else:
        after, plan = await _approved(tx, who, waiting, plan, facts, rules)
    await plan_store.take(tx, kept, job.id, who.name)
    await plan_store.save(tx, plan)
    after = msgspec.structs.replace(after, attempt=max(1, after.attempt))
    await store.save_transition(tx, job, after)
    if planned.pinned_engine_version:
        pinned = planned.pinned_engine_version
        await claim_store.set_engine_versions(tx, [(job.id, pinned, pinned)])
    return create.Created(after, is_new=True)


async def _approved(
    tx: Tx, who: Principal, job: Job, plan: Plan, module: decide.ModuleFacts, rules: policy.ModulePolicy
) -> tuple[Job, Plan]:
    """Count the request as an approval, if its sender may approve the plan. Nobody has been shown a doubt about the module yet."""
    place = await service.place_of(tx, job)
    known = await approvers.hold(tx, job, plan, rules, place, who.id)
    may_approve = who.kind != SYSTEM.kind and (await authorize.decide(tx, who, Verb.JOB_APPROVE, place)).is_allowed
    if not may_approve or module.doubts or approver_rules.refusal(job, who, rules, known.facts):
        return job, plan
    given = GivenApproval(who.id, who.name, tx.moment)
    after, decided = decide_plan.approve(job, plan, msgspec.structs.replace(module, approvers=known.facts), given)
    counted, needed = len(approver_rules.distinct(decided.approvals, known.facts)), max(1, rules.min_approvals)
    await approvals.record_approval(tx, who, job, decided, given, counted, needed)
    return after, decided


async def _taken(tx: Tx, who: Principal, plan: Plan) -> create.Created:
    """Return the job that has taken a plan to the person who asked for it, whose request may have been repeated."""
    job = await store.get(tx, plan.taken_by)
    if job.created_by != who.id:
        raise Conflict(f"job {job.number} has taken this plan already", job=job.number, status=job.status)
    return create.Created(job, is_new=False)


def _other_kind(planned: Job) -> str:
    if planned.is_destroy_plan:
        return f"is_destroy: the plan of job {planned.number} destroys everything in the module, and the request does not say so"
    return f"is_destroy: the plan of job {planned.number} is not one that destroys everything"
