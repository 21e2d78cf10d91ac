"""What a plan destroys, and when a person must look at it first: pure functions over the facts of a plan."""

from terracrew.protocol.events import PlanSummary
from terracrew.server.tree.modules.policy import DestroyLimits


def destroyed(plan: PlanSummary) -> int:
    """Return how many resources a plan destroys. One that is replaced is destroyed, too."""
    return plan.destroy + plan.replace


def removes_everything(plan: PlanSummary) -> bool:
    """Return whether none of the resources that exist is left afterwards, whatever the plan creates beside that."""
    if not plan.destroy:
        return False
    if plan.existing is not None:
        return plan.destroy + plan.forgets >= plan.existing
    return not (plan.change or plan.replace or plan.unchanged)  # it is not known what exists


def reason_to_ask(plan: PlanSummary | None, limits: DestroyLimits) -> str | None:
    """Return why a person must look at this plan of an APPLY first; None if it does not destroy too much."""
    if plan is None or not (count := destroyed(plan)):
        return None
    if plan.existing is None:
        return _reason_if_unknown(plan, count, limits)
    if removes_everything(plan):
        what = "the only resource that exists" if plan.destroy == 1 else f"all {plan.destroy} resources that exist"
        return f"the plan destroys {what}"
    total = f" of {plan.existing}" if plan.existing else ""
    words = f"the plan destroys {count}{total} resource{'' if count == 1 and not total else 's'}"
    if limits.max_destroy is not None and count > limits.max_destroy:
        return f"{words}; more than {limits.max_destroy} need an approval"
    share = limits.max_destroy_percent
    if share is not None and plan.existing and count * 100 > share * plan.existing:
        return f"{words}; more than {share} % of them need an approval"
    return None


def _reason_if_unknown(plan: PlanSummary, count: int, limits: DestroyLimits) -> str | None:
    """Return why a person must look at a plan of which it is not known how many resources exist: it may destroy any share of them."""
    words = f"the plan destroys {count} resource{'' if count == 1 else 's'}, and how many exist is not known"
    if removes_everything(plan):
        return f"{words}: it may be all of them"
    if limits.max_destroy is not None and count > limits.max_destroy:
        return f"{words}; more than {limits.max_destroy} need an approval"
    if limits.max_destroy_percent is not None and limits.max_destroy_percent < 100:
        return f"{words}; more than {limits.max_destroy_percent} % of them need an approval"
    return None
