"""Modules: the leaves of the tree, with an engine, a source, inputs and settings."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.api import fields
from terracrew.api.fields import Field
from terracrew.api.place_settings import PlaceSettings
from terracrew.api.tags import Tags
from terracrew.protocol.limits import MAX_INSTANCE_NAME_CHARACTERS
from terracrew.protocol.spec import Source
from terracrew.source_rules.version_ranges import MAX_RANGE_CHARACTERS

TeamName = Annotated[str, msgspec.Meta(max_length=100)]
EngineName = Annotated[str, msgspec.Meta(min_length=1, max_length=32)]
EngineVersion = Annotated[str, msgspec.Meta(max_length=MAX_RANGE_CHARACTERS)]
Backend = Literal["terracrew", "own"]
ApprovalSeconds = Annotated[int, msgspec.Meta(ge=60, le=31_536_000)]
InstanceName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_INSTANCE_NAME_CHARACTERS)]
Triggers = Literal["auto", "manual"]
CommandLine = Literal["runners", "terminal"]
MAX_LABELS = 50
MAX_LABEL_CHARACTERS = 255
MAX_WATCH_PATTERNS = 100
MAX_WATCH_CHARACTERS = 500
Label = Annotated[
    str, msgspec.Meta(min_length=1, max_length=MAX_LABEL_CHARACTERS, pattern=r"^[A-Za-z0-9][A-Za-z0-9 _./:=+@-]*$")
]
Priority = Annotated[int, msgspec.Meta(ge=-100, le=100)]
WatchPattern = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_WATCH_CHARACTERS)]


class ModuleSettings(PlaceSettings, frozen=True, kw_only=True):
    source: Annotated[Source, Field(section="source")]
    """Where the configuration comes from: an archive that was uploaded, a git repository, a registry, or a folder on the runners."""
    team: Annotated[TeamName, Field(metavar="NAME", section="general", is_searched=True)] = ""
    """The team that is responsible for it, for people who look for somebody to ask. It gives nobody a right."""
    engine: Annotated[EngineName, Field(metavar="NAME", section="engine")] = "tofu"
    """The engine that runs it: `tofu`, `terraform`, `pulumi`, or an engine of another package that a runner has announced. Its jobs
    wait for a runner that has it."""
    engine_version: Annotated[EngineVersion, Field(metavar="RANGE", section="engine")] = ""
    """The versions of the engine that its jobs may run with: one (`1.12.6`) or a range (`~> 1.12`, `>= 1.5, < 2`); empty for any.
    Each job gets one version when it is claimed."""
    backend: Annotated[Backend, Field(label="Backend of the state", option=None)] = "terracrew"
    """Where its state is: in Terracrew, or in the backend that its source configures (`own`)."""
    is_fresh: Annotated[bool, Field(label="Run init in every job", option="--fresh", section="engine")] = False
    """Whether each of its jobs runs `init`, even if nothing that `init` reads has changed since an earlier job."""
    oidc_audiences: Annotated[
        list[str], Field(label="OIDC audiences", option="--oidc-audience", metavar="AUDIENCE", section="cloud")
    ] = msgspec.field(default_factory=list[str])
    """The audiences for which its jobs get tokens to show to clouds, one for each cloud."""
    needs_approval: Annotated[bool, Field(label="Each plan needs an approval", section="approval")] = False
    """Whether a person must approve each plan before it is applied."""
    approval_seconds: Annotated[
        ApprovalSeconds,
        Field(
            label="Time for an approval", option="--approval-timeout", metavar="24h", unit="seconds", section="approval"
        ),
    ] = 604_800
    """How long a plan waits for an approval before its job is declined."""
    triggers: Annotated[Triggers, Field(label="When an output that it uses changes", section="triggers")] = "manual"
    """Whether it is applied by itself (`auto`) when an apply of another module has changed an output that it uses: once, after all
    modules that it needs. The job needs approvals like any other one."""
    runner_instance_name: Annotated[
        InstanceName | None, Field(label="Instance", option="--instance", metavar="NAME", section="placement")
    ] = None
    """The name of the one instance that may have its jobs. Without `runner`, it may be an instance of any runner of the module."""
    tags: Annotated[Tags, Field(option="--tag", metavar="TAG", section="placement")] = msgspec.field(
        default_factory=list[str]
    )
    """Only a runner that has all of these tags gets its jobs. At most 50 of up to 63 letters, digits, `.`, `_`, `:` and `-`."""
    priority: Annotated[Priority, Field(label="Priority of its jobs", metavar="N", section="placement")] = 0
    """The priority of its jobs that are not given another one. Among the jobs that wait for the same runners, those with a higher
    priority run first."""
    watch: Annotated[
        list[WatchPattern],
        msgspec.Meta(max_length=MAX_WATCH_PATTERNS),
        Field(label="Files that count", metavar="PATTERN", section="pull_requests"),
    ] = msgspec.field(default_factory=list[WatchPattern])
    """Which files of its repository a pull request must change to touch it, as patterns like those of a `.gitignore`:
    `/network/**`, `!*.md`. Without any, those of its folder and of the local modules that it uses count."""
    labels: Annotated[
        list[Label], msgspec.Meta(max_length=MAX_LABELS), Field(option="--label", metavar="LABEL", section="general")
    ] = msgspec.field(default_factory=list[Label])
    """What people sort modules by: `app`, or `team=payments`. The `tags` of a `cloud` block are these labels. They decide nothing about
    which runner gets its jobs."""
    command_line: Annotated[CommandLine, Field(label="Where `tofu plan` and `tofu apply` run", section="engine")] = (
        "runners"
    )
    """Where the engine's own command line runs a plan or an apply of the module that is started at a prompt: on its runners, or on the
    machine of that person (`terminal`), with the state and the lock here."""
    inputs: Annotated[dict[str, Any] | UnsetType, Field(option=None)] = UNSET
    """The variables of its configuration. Left out in lists. What looks like a secret is `***`; sent back, that keeps the value that is
    stored."""
    environment: Annotated[dict[str, str] | UnsetType, Field(option=None)] = UNSET
    """Environment variables of its jobs. Left out in lists. What looks like a secret is `***`; sent back, that keeps the value that is
    stored."""


class Module(ModuleSettings, frozen=True, kw_only=True):
    id: str
    organization_id: str
    group_id: str
    name: str
    path: str
    runner_id: str | None
    state_version: int
    created_at: datetime
    source_gone: str = ""
    """The commit of its branch since which its folder is gone, as a discovery rule has found; empty if it is not known to be gone.
    Nothing is planned or destroyed because of that."""


class ModuleRequest(ModuleSettings, frozen=True, kw_only=True):
    """What people say of a module: its settings, and its runner by id or path."""

    runner: Annotated[str | None, Field(metavar="PATH", section="placement")] = None
    """Id or path of the one runner that may have its jobs; null means automatic selection."""


@fields.new
class NewModule(ModuleRequest, frozen=True, kw_only=True):
    path: str
    """Its path: the group that it is in, which exists, and its name."""


@fields.change
class ModuleChange(ModuleRequest, frozen=True, kw_only=True):
    """What to change; what is left out stays. Inputs, environment, audiences and tags are replaced as a whole.

    A value of an input or of a variable that is sent back as it was shown (`***`) stays what it is.
    """

    source: Source = fields.UNCHANGED


class ModuleMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    """Its new path, in a group of the same organization that exists."""


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
