"""The rows of this package, and what is decided from them: pure functions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from terracrew.api.jobs import GivenApproval
from terracrew.api.policies import (
    ApproverRole,
    Enforcement,
    PolicyMessage,
    PolicySettings,
    PolicyState,
    PolicyVerdict,
)
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.tree.groups import tree_path as paths

VERB_OF_ROLE: Mapping[ApproverRole, Verb] = {"approver": Verb.JOB_APPROVE, "owner": Verb.TREE_WRITE}
"""A right that a role has and no lesser one."""
MAX_SHOWN_MESSAGES = 5
"""How many messages of a policy the message of a job quotes."""


class Policy(PolicySettings, frozen=True, kw_only=True):
    """A policy. It belongs to a group or to a module, and looks at the plans of all modules in it and below."""

    id: str
    organization_id: str
    group_id: str | None = None
    module_id: str | None = None
    place: str = ""
    """The path of its group or module; empty for the organization."""
    state: PolicyState = "draft"
    active_version: int | None = None
    newest_version: int = 1
    created_by: str
    created_by_name: str
    created_at: datetime
    changed_at: datetime

    @property
    def path(self) -> str:
        return paths.join(self.place, self.name)

    @property
    def is_of_module(self) -> bool:
        return self.module_id is not None

    @property
    def at(self) -> authorize.Place:
        if self.is_of_module:
            return authorize.module(self.organization_id, self.place)
        return authorize.group(self.organization_id, self.place)


class PolicyVersion(msgspec.Struct, frozen=True, kw_only=True):
    policy_id: str
    number: int
    rego: str
    sha256: str
    created_by: str
    created_by_name: str
    created_at: datetime


class PolicyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a version of a policy has said about a plan."""

    job_id: str
    policy_id: str
    version: int
    name: str
    enforcement: Enforcement
    approvals: int
    role: ApproverRole
    verdict: PolicyVerdict
    messages: list[PolicyMessage]
    attempt: int
    plan_sha256: str
    json_sha256: str
    input_sha256: str
    checked_at: datetime

    @property
    def is_denied(self) -> bool:
        """What could not be evaluated counts as denied: a policy that is broken lets nothing pass."""
        return self.verdict in ("denied", "failed")

    @property
    def key(self) -> str:
        """What approvals name that were given in spite of it."""
        return f"{self.policy_id}@{self.version}"

    @property
    def words(self) -> str:
        """What it says, for people: `policy `platform/no-public` (version 3): bucket `logs` is public`."""
        what = {"failed": "could not be evaluated", "warned": "warns"}.get(self.verdict, "denies this plan")
        texts = [each.text for each in self.messages if each.kind != "warn" or self.verdict == "warned"]
        more = f"; and {len(texts) - MAX_SHOWN_MESSAGES} more" if len(texts) > MAX_SHOWN_MESSAGES else ""
        return (
            f"the policy `{self.name}` (version {self.version}) {what}: {'; '.join(texts[:MAX_SHOWN_MESSAGES])}{more}"
        )


class PolicyNeed(msgspec.Struct, frozen=True):
    """What a policy asks for before a plan that it denies may be applied."""

    policy: str
    count: int
    role: ApproverRole
    why: str
    key: str = ""
    """The version of the policy that denies the plan, as approvals name it."""
    eligible: frozenset[str] = frozenset()
    """The ids of those who have the role, of all who have approved the plan or want to."""

    @property
    def words(self) -> str:
        who = "a person" if self.count == 1 else f"{self.count} people"
        return f"{self.why}. It may be applied after {who} with the role `{self.role}` approved it"

    def missing(self, approvals: Collection[GivenApproval]) -> int:
        """Return how many approvals are missing; `approvals` are those that count, each of another person. One that was given before
        the policy denied the plan does not count for it."""
        return max(0, self.count - sum(each.by_id in self.eligible and self.key in each.policies for each in approvals))


class PolicyGate(msgspec.Struct, frozen=True):
    """What the policies of a module's place say about exactly one plan."""

    stops: tuple[str, ...] = ()
    """Why it may not be applied at all."""
    needs: tuple[PolicyNeed, ...] = ()


def remarkable(active: Iterable[Policy], results: Iterable[PolicyResult]) -> list[PolicyResult]:
    """Return what people have to read of the results before the plan is applied, with the enforcement that the policies have now. What
    a version has said that is not active any more is left out."""
    by_version = {(each.id, each.active_version): each for each in active}
    found: list[PolicyResult] = []
    for each in results:
        policy = by_version.get((each.policy_id, each.version))
        if policy is not None and each.verdict != "passed":
            rules = {"enforcement": policy.enforcement, "approvals": policy.approvals, "role": policy.role}
            found.append(replace(each, name=policy.path, **rules))
    return found


def gate(active: Iterable[Policy], results: Sequence[PolicyResult]) -> PolicyGate | None:
    """Return what follows from the results; None if one is missing.

    No apply begins unless each policy that is active at the module's place at that moment has looked at the hash of exactly that
    plan: `results` are those of that plan alone. The enforcement is the one that the policy has now.
    """
    known = {(each.policy_id, each.version): each for each in results}
    stops: list[str] = []
    needs: list[PolicyNeed] = []
    for policy in active:
        found = known.get((policy.id, policy.active_version or 0))
        if found is None:
            return None
        if not found.is_denied or policy.enforcement == "advisory":
            continue
        if policy.enforcement == "mandatory":
            stops.append(found.words)
        else:
            needs.append(PolicyNeed(policy.path, policy.approvals, policy.role, found.words, found.key))
    return PolicyGate(tuple(stops), tuple(needs))
