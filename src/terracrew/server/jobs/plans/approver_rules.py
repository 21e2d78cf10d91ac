"""Decides who may approve the plan of a job, and how many different people have (ADR 0047): pure functions."""

from collections.abc import Collection, Sequence
from typing import Protocol

from terracrew.api.jobs import GivenApproval, Plan
from terracrew.protocol.messages import AttemptRef
from terracrew.server.jobs.decision_types import ApproverFacts
from terracrew.server.principals.model import Principal
from terracrew.server.tree.modules.policy import ModulePolicy
from terracrew.wording import approval_words


class Requested(Protocol):
    """A job, as far as it matters who wanted it."""

    @property
    def number(self) -> int: ...
    @property
    def created_by(self) -> str: ...
    @property
    def queued_by(self) -> frozenset[str]: ...
    @property
    def imports_chosen_by(self) -> str: ...
    @property
    def replanned_by(self) -> list[str]: ...


def refusal(
    job: Requested,
    who: Principal,
    policy: ModulePolicy,
    facts: ApproverFacts,
    plan: Plan | None = None,
    doubts: Collection[AttemptRef] = (),
) -> str | None:
    """Return why this person or service account may not approve the job's plan; None if they may.

    `facts` names everybody who may have acted as those who queued the job, as `who`, and as the approvers of `plan`; `doubts`
    are those that the module has now.
    """
    is_account = who.kind == "service_account"
    if is_account and not policy.service_account_approval:
        place = policy.place_of("service_account_approval")
        return f"service accounts do not approve plans here: {place} does not allow it (`service_account_approval`), so a person has to"
    if not policy.self_approval and (own := _own(job, who.id, facts)):
        place = policy.place_of("self_approval")
        return (
            f"{own}, and {place} does not let people approve their own jobs: another approver has to look at this plan"
        )
    if plan is not None:
        given = [each for each in informed(plan.approvals, doubts, facts) if each.by_id not in facts.lapsed]
        left = missing(given, policy.min_approvals, facts)
        more = approval_words.missing(left)
        if left > 0 and any(each.by_id == who.id for each in given):
            return f"you have approved this plan; {more}"
        if left > 0 and any(facts.of(each.by_id) & facts.of(who.id) for each in given):
            return f"{shared(GivenApproval(who.id, who.name, plan.made_at), given, facts)}: {more}"
    return None


def _own(job: Requested, actor_id: str, facts: ApproverFacts) -> str | None:
    """Say in which way this is somebody's own job; None if it is not."""
    people = facts.of(actor_id)
    queued_by = job.queued_by
    if actor_id in queued_by:
        what = f"job {job.number}" if actor_id == job.created_by else f"the plan that job {job.number} applies"
        return f"you queued {what}"
    if actor_id == job.imports_chosen_by:
        return f"you chose what is imported by job {job.number}"
    if actor_id in job.replanned_by:
        return f"you let job {job.number} plan again, or wrote or merged the pull request that it comes from"
    if any(people & facts.of(each) for each in queued_by):
        return f"job {job.number} was queued by a service account, or this is one, and the same person has made secrets of it"
    if any(people & facts.of(each) for each in (*job.replanned_by, job.imports_chosen_by) if each):
        return f"job {job.number} was planned again or merged through a service account whose secret the same person has made"
    return None


def lapse(job: Requested, by_id: str, policy: ModulePolicy, facts: ApproverFacts, *, has_right: bool) -> str | None:
    """Return why an approval that was given earlier does not count any more; None if it counts."""
    if not has_right:
        return "may not approve plans here any more"
    if by_id.startswith("sac_") and not policy.service_account_approval:
        return "is a service account, and these do not approve plans here any more"
    if not policy.self_approval and _own(job, by_id, facts):
        return "has queued the job, let it plan again or merged it, and may not approve their own jobs here any more"
    return None


def informed(
    approvals: Sequence[GivenApproval], doubts: Collection[AttemptRef], facts: ApproverFacts
) -> list[GivenApproval]:
    """Return the approvals whose givers have looked at every doubt that the module has now, and knew of every policy that denies the
    plan; the others do not count."""
    keys = {need.key for need in facts.needs}
    return [each for each in approvals if all(ref in each.doubts for ref in doubts) and keys.issubset(each.policies)]


def distinct(approvals: Sequence[GivenApproval], facts: ApproverFacts) -> list[GivenApproval]:
    """Return the approvals that count, each from another person. Approvals of people come before those of service accounts.

    An approval by a service account counts only if none of those who may have given it may have given another one that counts.
    """
    known: set[str] = set()
    found: list[GivenApproval] = []
    for each in sorted(approvals, key=lambda each: each.by_id in facts.identities):
        people = facts.of(each.by_id)
        if each.by_id not in facts.lapsed and not people & known:
            found.append(each)
            known |= people
    return found


def missing(approvals: Sequence[GivenApproval], min_approvals: int, facts: ApproverFacts) -> int:
    """Return how many approvals are missing beside these: for the rule of the module, and for each policy that denies the plan."""
    counted = distinct(approvals, facts)
    return max(0, min_approvals - len(counted), *(need.missing(counted) for need in facts.needs))


def shared(given: GivenApproval, others: Sequence[GivenApproval], facts: ApproverFacts) -> str:
    """Say which of the other approvals may come from the person who gives this one."""
    people = facts.of(given.by_id)
    other = next((each.by for each in others if people & facts.of(each.by_id)), "somebody else")
    return f"the approval of {given.by} does not count beside that of {other}, because one person may have given both"
