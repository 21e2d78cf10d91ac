"""A module: a leaf of the tree, with its engine, its source, its inputs and its settings."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.protocol.cloud import CloudIdentities
from terracrew.protocol.limits import MAX_INSTANCE_NAME_CHARACTERS
from terracrew.protocol.spec import JobLimits, Source
from terracrew.server.tags import Tags
from terracrew.server.tree.groups.clouds import CloudChange
from terracrew.server.tree.groups.dispatchers import DispatcherChange, PlaceChoice
from terracrew.server.tree.groups.limits import LimitsChange
from terracrew.server.tree.groups.model import Description, Interrupted, MaxDestroy, MaxDestroyPercent, MinApprovals
from terracrew.source_rules.version_ranges import MAX_RANGE_CHARACTERS

EngineName = Annotated[str, msgspec.Meta(min_length=1, max_length=32)]
"""An engine of Terracrew, or one that another package provides on runners: `service.check_engine` checks it."""
EngineVersion = Annotated[str, msgspec.Meta(max_length=MAX_RANGE_CHARACTERS)]
Backend = Literal["terracrew", "own"]
ApprovalSeconds = Annotated[int, msgspec.Meta(ge=60, le=31_536_000)]
InstanceName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_INSTANCE_NAME_CHARACTERS)]
Triggers = Literal["auto", "manual"]
"""Whether a module is applied by itself (`auto`) when an apply of another module has changed an output that it uses."""
Priority = Annotated[int, msgspec.Meta(ge=-100, le=100)]
"""Among the jobs that wait for the same runners, those with a higher priority run first."""


class DestroyLimits(msgspec.Struct, frozen=True):
    """How much an APPLY may destroy without an approval. None sets no limit; destroying everything always needs one."""

    max_destroy: int | None = None
    max_destroy_percent: int | None = None


class Module(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    group_id: str
    name: str
    path: str
    description: str
    engine: str
    source: Source
    backend: Backend
    oidc_audiences: list[str]
    """The audiences for which its jobs get tokens, one for each cloud."""
    runner_id: str | None
    runner_instance_name: str | None
    state_version: int
    created_at: datetime
    needs_approval: bool = False
    """Whether a person must look at each plan before it is applied."""
    approval_seconds: int = 604_800
    """How long a plan waits for that."""
    interrupted: Interrupted | None = None
    """What follows a change that was cut short. `retry` has no effect if a group above says `ask`; none means as its groups say."""
    min_approvals: MinApprovals | None = None
    """How many people must approve each plan of an APPLY or DESTROY; if a group above requires more, that number applies."""
    max_destroy: MaxDestroy | None = None
    """How many resources an APPLY may destroy (or replace) without an approval; if a group above allows fewer, that number applies."""
    max_destroy_percent: MaxDestroyPercent | None = None
    """The same, as a share of the resources that exist."""
    tags: list[str] = []
    """Only a runner that has all of these tags gets its jobs."""
    priority: int = 0
    """The priority of its jobs that are not given another one."""
    engine_version: str = ""
    """The versions of the engine that its jobs may run with, such as `1.12.6` or `~> 1.12`; empty for any."""
    is_fresh: bool = False
    """Whether each of its jobs runs `init`, even if nothing that `init` reads has changed since an earlier job."""
    triggers: Triggers = "manual"
    """Whether it is applied by itself when an output of another module that it uses has changed."""
    limits: JobLimits = msgspec.field(default_factory=JobLimits)
    """How long its jobs may run, and what they may use. If a group above has a smaller limit, that one applies."""
    cloud: CloudIdentities = msgspec.field(default_factory=CloudIdentities)
    """As whom its jobs log in to clouds. Where it has no identity of its own, that of the nearest group above applies."""
    dispatcher: PlaceChoice = msgspec.field(default_factory=PlaceChoice)
    """What its jobs ask of the dispatcher of their runner. What it does not say itself, the nearest group above that does decides."""
    inputs: dict[str, Any] | UnsetType = UNSET
    """Left out in lists. What looks like a secret is `***`; sent back, that keeps the value that is stored."""
    environment: dict[str, str] | UnsetType = UNSET
    """Left out in lists. What looks like a secret is `***`; sent back, that keeps the value that is stored."""


class NewModule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    source: Source
    engine: EngineName = "tofu"
    """`tofu`, `terraform`, `pulumi`, or an engine of another package that a runner has announced. Its jobs wait for a runner that has
    it."""
    engine_version: EngineVersion = ""
    """The versions of the engine that its jobs may run with: one (`1.12.6`) or a range (`~> 1.12`, `>= 1.5, < 2`); empty for any.
    Each job gets one version when it is claimed."""
    inputs: dict[str, Any] = {}
    environment: dict[str, str] = {}
    backend: Backend = "terracrew"
    oidc_audiences: list[str] = []
    """Its jobs get a short-lived token for each of these audiences, to show to a cloud."""
    runner: str | None = None
    """Id or path of the one runner that may have its jobs; none means automatic selection."""
    runner_instance_name: InstanceName | None = None
    """The name of the one instance that may have its jobs. Without `runner`, it may be an instance of any runner of the module."""
    description: Description = ""
    needs_approval: bool = False
    """Whether a person must look at each plan before it is applied."""
    approval_seconds: ApprovalSeconds = 604_800
    """How long a plan waits for that; then its job is declined."""
    interrupted: Interrupted | None = None
    """After a change that was cut short: `ask` a person before anything is changed again, or `retry`, unless a group above
    says `ask`. None: as its groups say."""
    min_approvals: MinApprovals | None = None
    """How many people must approve each plan of an APPLY or DESTROY. If a group above requires more, that number applies."""
    max_destroy: MaxDestroy | None = None
    """How many resources an APPLY may destroy (or replace) without an approval. If a group above allows fewer, that number applies."""
    max_destroy_percent: MaxDestroyPercent | None = None
    """The same, as a share of the resources that exist."""
    tags: Tags = []
    """Only a runner that has all of these tags gets its jobs. At most 50 of up to 63 letters, digits, `.`, `_`, `:` and `-`."""
    priority: Priority = 0
    """The priority of its jobs that are not given another one: a job with a higher priority runs first."""
    is_fresh: bool = False
    """Whether each of its jobs runs `init`, even if nothing that `init` reads has changed since an earlier job."""
    triggers: Triggers = "manual"
    """`auto`: an apply of another module that changes an output which this one uses queues an APPLY of this one, after those of
    all modules that it needs. It needs approvals like any other job."""
    limits: LimitsChange | None = None
    """How long its jobs may run, and what they may use. If a group above has a smaller limit, that one applies."""
    cloud: CloudChange | None = None
    """As whom its jobs log in to clouds. Where it has no identity of its own, that of the nearest group above applies."""
    dispatcher: DispatcherChange | None = None
    """What its jobs ask of the dispatcher of their runner. What it does not say itself, the nearest group above that does decides."""


class ModuleMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    """Its new path, in a group of the same organization that exists."""


class ModuleChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; what is left out stays. Inputs, environment, audiences and tags are replaced as a whole.

    A value of an input or of a variable that is sent back as it was shown (`***`) stays what it is.
    """

    source: Source | UnsetType = UNSET
    engine: EngineName | UnsetType = UNSET
    engine_version: EngineVersion | UnsetType = UNSET
    inputs: dict[str, Any] | UnsetType = UNSET
    environment: dict[str, str] | UnsetType = UNSET
    backend: Backend | UnsetType = UNSET
    oidc_audiences: list[str] | UnsetType = UNSET
    runner: str | UnsetType | None = UNSET
    runner_instance_name: InstanceName | UnsetType | None = UNSET
    description: Description | UnsetType = UNSET
    needs_approval: bool | UnsetType = UNSET
    approval_seconds: ApprovalSeconds | UnsetType = UNSET
    interrupted: Interrupted | UnsetType | None = UNSET
    min_approvals: MinApprovals | UnsetType | None = UNSET
    max_destroy: MaxDestroy | UnsetType | None = UNSET
    max_destroy_percent: MaxDestroyPercent | UnsetType | None = UNSET
    tags: Tags | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    is_fresh: bool | UnsetType = UNSET
    triggers: Triggers | UnsetType = UNSET
    limits: LimitsChange | UnsetType = UNSET
    cloud: CloudChange | UnsetType = UNSET
    dispatcher: DispatcherChange | UnsetType = UNSET


class Archive(msgspec.Struct, frozen=True):
    """A source that was uploaded; its content is the object `archives/<id>`."""

    id: str
    organization_id: str
    sha256: str
    size: int
    created_by: str
    created_at: datetime
    configurations: list[str] | None = None
    """Some of its configuration files, enough to tell which folders have one; None where that is not known."""

    @property
    def object(self) -> str:
        return f"archives/{self.id}"
