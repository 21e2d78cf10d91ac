"""Policies in words, the same on pages and in a terminal."""

from collections.abc import Mapping, Sequence
from typing import Protocol

STATES: Mapping[str, str] = {"draft": "Draft", "active": "Active", "retired": "Retired"}
VERDICTS: Mapping[str, str] = {
    "passed": "Passed",
    "warned": "Passed with warnings",
    "denied": "Denied",
    "failed": "Not evaluated",
}


class ShownPolicy(Protocol):
    """A policy as people see it: `terracrew.api.policies.PolicyView`."""

    @property
    def enforcement(self) -> str: ...
    @property
    def approvals(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def active_version(self) -> int | None: ...
    @property
    def newest_version(self) -> int: ...


def enforcement(policy: ShownPolicy) -> str:
    """Say what follows if it denies a plan: `needs 2 approvals by owners`."""
    if policy.enforcement == "advisory":
        return "is only shown"
    if policy.enforcement == "mandatory":
        return "is not applied"
    return f"needs {policy.approvals} approval{'' if policy.approvals == 1 else 's'} by the role {policy.role}"


def enforcement_word(policy: ShownPolicy) -> str:
    """Return how it is enforced, in few words."""
    if policy.enforcement == "approvers":
        return f"needs {policy.approvals} × {policy.role}"
    return policy.enforcement


def version(policy: ShownPolicy) -> str:
    """Return which version looks at plans: `2 of 3`."""
    if policy.active_version is None:
        return f"none of {policy.newest_version}"
    return f"{policy.active_version} of {policy.newest_version}"


def of_version(policy: ShownPolicy, number: int) -> str:
    return "Active" if number == policy.active_version else ""


class ShownCheck(Protocol):
    """What a policy has said about a plan: `terracrew.api.policies.PolicyCheck`."""

    @property
    def verdict(self) -> str: ...
    @property
    def enforcement(self) -> str: ...
    @property
    def approvals(self) -> int: ...
    @property
    def role(self) -> str: ...


def consequence(check: ShownCheck) -> str:
    """Say what follows for an apply of the plan: `stops an apply`; empty if nothing does."""
    if check.verdict not in ("denied", "failed"):
        return ""
    if check.enforcement == "mandatory":
        return "stops an apply"
    if check.enforcement == "advisory":
        return "advisory: stops nothing"
    count = "an approval" if check.approvals == 1 else f"{check.approvals} approvals"
    return f"an apply needs {count} by the role {check.role}"


class ShownMessage(Protocol):
    @property
    def text(self) -> str: ...


class ShownTrial(Protocol):
    """What a policy would have said about earlier plans: `terracrew.api.policies.PolicyTrialResult`."""

    @property
    def tried(self) -> int: ...
    @property
    def denied(self) -> int: ...
    @property
    def warned(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def is_complete(self) -> bool: ...


def messages(found: Sequence[ShownMessage]) -> str:
    return "; ".join(each.text for each in found)


def trial(found: ShownTrial) -> str:
    """Say what it would have done: `It would have stopped 3 of the last 200 plans, and warned about 1.`"""
    if not found.tried:
        return "No plan is kept here yet: the JSON of plans is kept from the first policy of an organization on."
    text = f"It would have stopped {found.denied + found.failed:,} of the last {found.tried:,} plans"
    if found.failed:
        text += f", {found.failed:,} of them because it could not be evaluated"
    text += f", and warned about {found.warned:,}." if found.warned else "."
    return text if found.is_complete else f"{text} The time was over before it had looked at all."
