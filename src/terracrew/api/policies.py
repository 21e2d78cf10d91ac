"""Policies: Rego that looks at plans before they are applied, its versions, and what it has said about the plan of a job."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.fields import Field

Enforcement = Literal["advisory", "mandatory", "approvers"]
"""`advisory`: what it says is only shown. `mandatory`: what it denies is not applied. `approvers`: what it denies is applied only after
enough people with a role have approved it."""
PolicyState = Literal["draft", "active", "retired"]
"""`draft`: no version was activated yet. `active`: one version looks at every plan. `retired`: none does any more."""
PolicyVerdict = Literal["passed", "warned", "denied", "failed"]
"""`failed`: it could not be evaluated. That counts as denied."""
ApproverRole = Literal["approver", "owner"]
MAX_NAME_CHARACTERS = 100
MAX_REGO_CHARACTERS = 64 << 10
MAX_APPROVALS = 10
MAX_TESTED_PLANS = 200
Rego = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REGO_CHARACTERS)]


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What people choose about a policy."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARACTERS), Field(metavar="NAME")]
    """What people call it. Each name exists once at a place."""
    description: Annotated[str, msgspec.Meta(max_length=1_000), Field(metavar="TEXT")] = ""
    """What it is for."""
    enforcement: Annotated[Enforcement, Field(option="--enforcement", label="What follows")] = "mandatory"
    """What follows if it denies a plan: `advisory` only shows it, `mandatory` stops it, `approvers` lets people with a role decide."""
    approvals: Annotated[int, msgspec.Meta(ge=1, le=MAX_APPROVALS), Field(metavar="N")] = 1
    """With `approvers`: how many people with the role have to approve a plan that it denies."""
    role: Annotated[ApproverRole, Field(option="--role", label="Role")] = "owner"
    """With `approvers`: the role that they must have at the module, or a greater one."""
    time_zone: Annotated[str, msgspec.Meta(min_length=1, max_length=100), Field(metavar="ZONE")] = "UTC"
    """The time zone of `input.time`, such as `Europe/Berlin`."""


class NewPlanPolicy(PolicySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy to make. It is a draft until a version of it is activated."""

    place: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    """The path of the group or module whose plans it looks at, with all that is below; empty for the organization."""
    rego: Rego
    """Its first version: package `terracrew` with `deny contains message if …` and `warn contains message if …`."""


@fields.change
class PolicyChange(PolicySettings, frozen=True, kw_only=True):
    """What to change; what is left out stays. The versions stay as they are."""


class NewPolicyVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another version of a policy. It looks at no plan before it is activated."""

    rego: Rego


class PolicyActivation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Which version looks at plans from now on; null for the newest one."""


class PolicyView(PolicySettings, frozen=True, kw_only=True):
    """A policy as people see it."""

    id: str
    organization_id: str
    group_id: str | None
    """The group that it belongs to; null if that is a module."""
    module_id: str | None
    place: str
    """The path of its group or module; empty for the organization."""
    path: str
    """The path of its place and its name."""
    is_of_module: bool
    """Whether its place is a module."""
    state: PolicyState
    active_version: int | None
    newest_version: int
    created_by: str
    created_by_name: str
    created_at: datetime
    changed_at: datetime


class PolicyVersionView(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a policy. It never changes."""

    number: int
    rego: str
    sha256: str
    """The hash of its Rego."""
    created_by: str
    created_by_name: str
    created_at: datetime


class PolicyDetails(PolicyView, frozen=True, kw_only=True):
    """A policy with its versions, the newest first."""

    versions: list[PolicyVersionView]


class PolicyMessage(msgspec.Struct, frozen=True):
    kind: Literal["deny", "warn", "error"]
    """`error`: why it could not be evaluated."""
    text: str


class PolicyCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy has said about the plan of a job."""

    policy_id: str
    name: str
    """Its path when it looked."""
    version: int
    enforcement: Enforcement
    approvals: int
    role: str
    verdict: PolicyVerdict
    messages: list[PolicyMessage]
    attempt: int
    """The attempt of the job that it looked for."""
    plan_sha256: str
    """The hash of the plan that it looked at."""
    input_sha256: str
    """The hash of everything that it was given, except for the time."""
    checked_at: datetime


class PolicyTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question what Rego would have said about earlier plans. Nothing is stored."""

    place: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    """The path of the group or module whose plans are meant, with all that is below; empty for the organization."""
    rego: Rego
    last: Annotated[int, msgspec.Meta(ge=1, le=MAX_TESTED_PLANS)] = MAX_TESTED_PLANS
    """How many plans it is tried on at most, the newest ones."""
    time_zone: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "UTC"


class PolicyVersionTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question what a version of a policy would have said about earlier plans of its place."""

    version: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Null for the newest one."""
    last: Annotated[int, msgspec.Meta(ge=1, le=MAX_TESTED_PLANS)] = MAX_TESTED_PLANS


class TriedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier plan that a policy would have said something about."""

    job_id: str
    number: int
    module_path: str
    type: str
    made_at: datetime
    verdict: PolicyVerdict
    messages: list[PolicyMessage]


class PolicyTrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy would have said about earlier plans."""

    tried: int
    """How many plans it has looked at."""
    denied: int
    """How many of them it would have stopped."""
    warned: int
    failed: int
    """How many of them it could not be evaluated for: a mandatory policy stops those, too."""
    is_complete: bool
    """Whether it has looked at all that were asked for; otherwise the time was over."""
    plans: list[TriedPlan]
    """Those that it would have said something about, the newest first."""
