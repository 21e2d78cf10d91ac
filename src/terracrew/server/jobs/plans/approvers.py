"""Reads what the rules about approvers ask: who may still approve, and who may have acted as a service account."""

from collections.abc import Collection

import msgspec

from terracrew.api.access import PrincipalKind
from terracrew.api.jobs import Job, Plan
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import lasting_rights, role_reads, store
from terracrew.server.jobs.decision_types import ApproverFacts
from terracrew.server.jobs.plans import approver_rules
from terracrew.server.policies import model as policy_model
from terracrew.server.policies import reads as policy_reads
from terracrew.server.policies import store as policy_store
from terracrew.server.policies.model import PolicyNeed
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.modules.policy import ModulePolicy

MAX_POSSIBLE = 50
"""How many people and service accounts with a role are looked at to say who could approve a plan."""


class Approvers(msgspec.Struct, frozen=True):
    """What is known of those who have approved a plan, and in words why an approval has lapsed."""

    facts: ApproverFacts = ApproverFacts()
    reasons: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """For each id of `facts.lapsed`: the rest of a sentence that starts with the name of the approver."""


async def hold(
    tx: Tx, job: Job, plan: Plan | None, policy: ModulePolicy, place: Place, asking: str | None = None
) -> Approvers:
    """Read what is known of the approvers, and let no right of theirs or of `asking` end before this transaction does."""
    ids = {each.by_id for each in plan.approvals} if plan is not None else set[str]()
    for each in sorted(ids | ({asking} if asking else set[str]())):  # in the order of ids, to stay clear of deadlocks
        await lasting_rights.hold(tx, each, job.organization_id)
    return await read(tx, job, plan, policy, place, asking)


async def read(
    tx: Tx, job: Job, plan: Plan | None, policy: ModulePolicy, place: Place, asking: str | None = None
) -> Approvers:
    """Read what is known of the approvers of a plan, of those who queued its job, and of somebody who wants to approve it."""
    ids = sorted({each.by_id for each in plan.approvals}) if plan is not None else []
    known = {*ids, *job.queued_by, job.imports_chosen_by, *job.replanned_by, *((asking,) if asking else ())}
    # Only a service account has holders; a person is one person.
    found = {each: await store.identities(tx, each) for each in sorted(known) if each.startswith("sac_")}
    asks = await needs(tx, job, place, {*ids, *((asking,) if asking else ())})
    facts = ApproverFacts(identities=found, needs=asks)
    reasons: dict[str, str] = {}
    for each in ids:
        has_right = await lasting_rights.has(tx, each, Verb.JOB_APPROVE, place)
        if why := approver_rules.lapse(job, each, policy, facts, has_right=has_right):
            reasons[each] = why
    return Approvers(ApproverFacts(frozenset(reasons), found, asks), reasons)


async def needs(tx: Tx, job: Job, place: Place, people: Collection[str]) -> tuple[PolicyNeed, ...]:
    """Return what policies that look at the module's plans now ask for, because they have denied the plan of this job.

    `people` are those whose roles are looked at. A policy that has not looked at the plan yet does so before it is applied.
    """
    known = {(each.policy_id, each.version): each for each in await policy_store.results(tx, job.id)}
    if not known:
        return ()
    active = await policy_reads.active(tx, job.module_id)
    looked = [each for each in active if (each.id, each.active_version) in known]
    gate = policy_model.gate(looked, list(known.values()))
    found: list[PolicyNeed] = []
    for need in () if gate is None else gate.needs:
        verb = policy_model.VERB_OF_ROLE[need.role]
        eligible = [each for each in sorted(people) if await lasting_rights.has(tx, each, verb, place)]
        found.append(msgspec.structs.replace(need, eligible=frozenset(eligible)))
    return tuple(found)


async def possible(
    tx: Tx, job: Job, plan: Plan, policy: ModulePolicy, facts: ApproverFacts, doubts: Collection[AttemptRef]
) -> list[str]:
    """Return the names of those with a role whose approval would count now. `facts` is what `read` has found."""
    rows = await role_reads.holders(tx, job.module_id, authorize.roles_with(Verb.JOB_APPROVE), MAX_POSSIBLE)
    found: list[str] = []
    for row in rows:
        kind: PrincipalKind = "service_account" if row["id"].startswith("sac_") else "user"
        if kind == "service_account" and not policy.service_account_approval:
            continue
        known = facts
        if kind == "service_account":
            identities = facts.identities | {row["id"]: await store.identities(tx, row["id"])}
            known = msgspec.structs.replace(facts, identities=identities)
        who = Principal(kind, row["id"], row["name"], job.organization_id)
        if approver_rules.refusal(job, who, policy, known, plan, doubts) is None:
            found.append(row["name"])
    return found
