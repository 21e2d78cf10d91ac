"""What somebody may approve: the plans that wait for them now, by their roles and by the rules about approvers, and what limits them."""

import msgspec

from terracrew.api.access import Explanation
from terracrew.api.jobs import GivenApproval, queued_by
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.identity.access import explain as access
from terracrew.server.identity.access import roles
from terracrew.server.identity.access import store as holder_store
from terracrew.server.jobs import service, store
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.jobs.decision_types import ApproverFacts, hold_ref
from terracrew.server.jobs.plans import approver_rules, approvers
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import module_view, reads
from terracrew.server.tree.groups import inheritance
from terracrew.server.tree.groups import reads as group_reads
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules import service as modules
from terracrew.server.tree.modules.policy import ModulePolicy


class AwaitingJob(msgspec.Struct, frozen=True):
    """A job whose plan waits, with those who wanted it and who have approved it."""

    id: str
    number: int
    module_id: str
    created_by: str
    imports_chosen_by: str
    replanned_by: list[str]
    plan_queued_by: str
    plan_attempt: int | None
    approvals: list[GivenApproval]

    @property
    def queued_by(self) -> frozenset[str]:
        return queued_by(self.created_by, self.plan_queued_by, self.plan_attempt)

    @property
    def requesters(self) -> set[str]:
        return {*self.queued_by, self.imports_chosen_by, *self.replanned_by}

    def concerns(self, who: Principal) -> bool:
        """Return whether `who`, or a service account that they may have acted as, has wanted or approved it."""
        ids = self.requesters | {each.by_id for each in self.approvals}
        return who.id in ids or any(each.startswith("sac_") for each in ids)


async def job_ids(tx: Tx, who: Principal, most: int) -> list[str]:
    """Return the jobs, oldest first and `most` of them at most, whose plan `who` may approve now.

    Only those that `who` had to do with are looked at more closely: there are few of them.
    """
    seen = await authorize.visible(tx, who, Verb.JOB_APPROVE)
    if seen.is_nothing:
        return []
    found = rows_to(AwaitingJob, await reads.awaiting_approval(tx, who.organization_id or "", seen, most))
    concerned = [job for job in found if job.concerns(who)]
    rules = await policy.of_modules(tx, {job.module_id for job in concerned})
    refused = {job.id for job in concerned if await _is_refused(tx, who, job, rules[job.module_id])}
    return [job.id for job in found if job.id not in refused]


async def _is_refused(tx: Tx, who: Principal, job: AwaitingJob, rules: ModulePolicy) -> bool:
    if job.approvals:
        return await _is_refused_beside_others(tx, who, job.id, rules)
    if rules.self_approval:
        return False
    accounts = sorted(each for each in job.requesters if each.startswith("sac_"))
    identities = {each: await holder_store.identities(tx, each) for each in accounts}
    return approver_rules.refusal(job, who, rules, ApproverFacts(identities=identities)) is not None


async def _is_refused_beside_others(tx: Tx, who: Principal, job_id: str, rules: ModulePolicy) -> bool:
    """Return whether somebody may not approve a plan that has approvals: perhaps they have approved it already."""
    job = await store.get(tx, job_id)
    plan = None if job.plan_attempt is None else await plan_store.get(tx, job.id, job.plan_attempt)
    known = await approvers.read(tx, job, plan, rules, await service.place_of(tx, job), who.id)
    doubts = [AttemptRef(row["job_id"], row["number"]) for row in await attempt_reads.in_doubt(tx, job.module_id)]
    doubts += [hold_ref(each.hold_id) for each in await module_view.holds(tx, job.module_id) if each.is_in_doubt]
    return approver_rules.refusal(job, who, rules, known.facts, plan, doubts) is not None


async def explain(tx: Tx, who: Principal, principal: str, verb: Verb, path: str) -> Explanation:
    """Explain what a principal may do at a place, with the limits that apply although a role allows it."""
    found = await access.explain(tx, who, principal, verb, path)
    if verb is not Verb.JOB_APPROVE or not found.is_allowed:
        return found
    rules = await _rules(tx, who, found)
    limits: list[str] = []
    if found.principal_kind == "service_account" and not rules.service_account_approval:
        place = rules.place_of("service_account_approval")
        limits.append(f"Service accounts do not approve plans here: {place} does not allow `service_account_approval`.")
    if found.principal_kind == "user" and not rules.self_approval:
        place = rules.place_of("self_approval")
        limits.append(f"Not for jobs that {found.principal_name} has started: {place} does not allow `self_approval`.")
    return msgspec.structs.replace(found, limits=limits)


async def _rules(tx: Tx, who: Principal, found: Explanation) -> ModulePolicy:
    """Return who may approve at the place. Modules below a group may have stricter rules."""
    if found.kind == "module":
        module = await modules.find(tx, who, found.path, Verb.TREE_READ)
        return await policy.of_module(tx, module.id)
    _, group_id, _ = await roles.find_place(tx, who.organization_id or "", found.path)
    lineage = await group_reads.lineage(tx, group_id)
    return ModulePolicy(
        self_approval=inheritance.effective_rule(lineage, "self_approval").value,
        service_account_approval=inheritance.effective_rule(lineage, "service_account_approval").value,
        rules=tuple(inheritance.view(lineage).approval_rules),
    )
