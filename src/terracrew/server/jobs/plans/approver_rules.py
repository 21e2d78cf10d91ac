"""Decides whether somebody with the right role may approve the plan of a job: a pure function."""

from terracrew.server.jobs.model import Job, Plan
from terracrew.server.modules.policy import ModulePolicy
from terracrew.server.principals.model import Principal


def refusal(job: Job, who: Principal, policy: ModulePolicy, plan: Plan | None = None) -> str | None:
    """Return why this person or service account may not approve the job's plan; None if they may."""
    if who.kind == "service_account" and not policy.service_account_approval:
        return (
            "service accounts do not approve plans here: a person has to, or the group allows it with "
            "`service_account_approval`"
        )
    if who.id in (job.created_by, job.imports_chosen_by) and not policy.self_approval:
        did = "queued" if who.id == job.created_by else "chose what is imported by"
        return (
            f"you {did} job {job.number}, and the group does not let people approve their own jobs: "
            "another approver has to look at this plan"
        )
    if plan is not None and any(each.by_id == who.id for each in plan.approvals):
        missing = policy.min_approvals - len(plan.approvals)
        if missing > 0:
            return (
                f"you have approved this plan; {missing} more {'person' if missing == 1 else 'people'} must approve it"
            )
    return None
