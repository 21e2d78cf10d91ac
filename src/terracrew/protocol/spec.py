"""The job specification: everything an executor needs to run one attempt, as it travels in a grant."""

import hashlib
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from terracrew.protocol.cloud import CloudIdentities, Phase
from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice
from terracrew.protocol.field import Field

When = Literal["before", "after"]


class JobType(StrEnum):
    PLAN = "PLAN"
    APPLY = "APPLY"
    DESTROY = "DESTROY"


class Step(StrEnum):
    """The steps that a job can have. An engine declares which of them it runs; `STEPS_OF` says which a type of job has.

    The number of a step is part of the protocol and of stored logs: it never changes and is never used for another step. The
    numbers are ten apart, so that a later step can be sorted between two others.
    """

    number: int
    phase: Phase
    is_mutating: bool
    """Whether the step changes real resources. It then needs the permission of the server, and only it may write a state."""
    is_hookable: bool
    """Whether hooks can run before and after the step: it is a command of the engine."""

    FETCH = "fetch", 10, "plan", False, False
    INPUTS = "inputs", 20, "plan", False, False
    INIT = "init", 30, "plan"
    VALIDATE = "validate", 40, "plan"
    PLAN = "plan", 50, "plan"
    APPLY = "apply", 60, "apply", True
    DESTROY = "destroy", 70, "apply", True
    OUTPUT = "output", 80, "apply"

    def __new__(
        cls, name: str, number: int, phase: Phase, is_mutating: bool = False, is_hookable: bool = True
    ) -> "Step":
        step = str.__new__(cls, name)
        step._value_ = name
        step.number, step.phase, step.is_mutating, step.is_hookable = number, phase, is_mutating, is_hookable
        return step


STEP_OF_NUMBER: dict[int, Step] = {step.number: step for step in Step}

_PREPARE = (Step.FETCH, Step.INPUTS, Step.INIT, Step.VALIDATE, Step.PLAN)
STEPS_OF: dict[JobType, tuple[Step, ...]] = {
    JobType.PLAN: _PREPARE,
    JobType.APPLY: (*_PREPARE, Step.APPLY, Step.OUTPUT),
    JobType.DESTROY: (*_PREPARE, Step.DESTROY, Step.OUTPUT),
}
MUTATING = frozenset(step for step in Step if step.is_mutating)


class LocalSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="local", tag_field="kind"):
    """A folder on the runner's machine, under one of the roots that its settings allow."""

    path: str
    subdirectory: str = ""

    @property
    def upload(self) -> "ArchiveSource | None":
        """The archive on the server that holds the source; None for a kind of source that the server does not store."""
        return None


class ArchiveSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="archive", tag_field="kind"):
    """An archive (tar.gz) that was uploaded to the server."""

    archive_id: str
    subdirectory: str = ""
    sha256: str = ""
    size: int = 0

    @property
    def upload(self) -> "ArchiveSource | None":
        return self


class PluginSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="plugin", tag_field="kind"):
    """A source that a package on the runners fetches. The server stores its settings and does not understand them."""

    plugin: str
    """The name under which the package registers its fetcher."""
    settings: dict[str, Any] = {}
    """What the fetcher needs to know. Everybody who can read the module sees it, so a secret does not belong here."""
    subdirectory: str = ""

    @property
    def upload(self) -> "ArchiveSource | None":
        return None


class MergeResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of merging a commit into another one, which the server has made: a commit without parents, and a pack of what it adds.

    The pack is stored like an uploaded archive. The last field stands at the very end of a job's source, where the database finds it.
    """

    base: str
    """The commit that was merged into. A runner fetches it with its own credentials."""
    head: str
    """The commit that was merged."""
    base_ref: str
    """A ref that leads to the base, such as `refs/heads/main`, for servers that do not give out a commit by its id."""
    sha256: str
    size: int
    archive_id: str

    @property
    def words(self) -> str:
        """What it is, for people."""
        return f"pull request merge of {self.head[:12]} into {self.base_ref.removeprefix('refs/heads/')} at {self.base[:12]}"


class GitSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="git", tag_field="kind"):
    """A repository that runners fetch with git, at one revision. Without a revision, its default branch is used."""

    url: str
    """`https://host/path`, `ssh://user@host/path` or `user@host:path`. It has no password in it: everybody who can read the
    module sees it."""
    branch: str = ""
    tag: str = ""
    commit: str = ""
    """The whole id of a commit."""
    version: str = ""
    """A range of semantic versions, such as `~> 1.2`: the highest tag in it is used, with or without a `v` before it."""
    subdirectory: str = ""
    submodules: bool = True
    """Whether its submodules are fetched, too."""
    credential: str = ""
    """The name of an environment variable of the module, best a secret, with what git authenticates with: a token for https, or
    a private key for ssh. The engine does not get it. Without one, git uses what the runner's user has."""
    known_hosts: str = ""
    """The host keys to expect, as lines of a `known_hosts` file. A private key is used with these only."""
    merge: MergeResult | msgspec.UnsetType = msgspec.UNSET
    """Set if `commit` is the result of a merge that the server has made. Only the server itself makes such sources."""

    @property
    def upload(self) -> "ArchiveSource | None":
        if not self.merge:
            return None
        return ArchiveSource(self.merge.archive_id, self.subdirectory, self.merge.sha256, self.merge.size)


FOLDER_MARK = "//"
"""Separates the digest of what was downloaded from a registry from the folder of the module in it."""


class RegistrySource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="registry", tag_field="kind"):
    """A module of a registry, such as `registry.opentofu.org/acme/network/aws`."""

    address: str
    """`host/namespace/name/provider`. Without a host, the registry of the engine is meant, and the server adds it."""
    version: str = ""
    """A range of versions, such as `~> 5.0`: the highest version in it is used. Without one, the highest of all."""
    subdirectory: str = ""

    @property
    def upload(self) -> "ArchiveSource | None":
        return None


Source = LocalSource | ArchiveSource | PluginSource | GitSource | RegistrySource


def source_kind(source: Source) -> str:
    """Return the name by which executors find the code that fetches a source."""
    return source.plugin if isinstance(source, PluginSource) else str(source.__struct_config__.tag)


class StateSeed(msgspec.Struct, frozen=True):
    """The state that the attempt starts from. `content` is None if it is too large for a frame; the executor then fetches it."""

    version: int
    sha256: str = ""
    size: int = 0
    content: bytes | None = None


class Resume(msgspec.Struct, frozen=True):
    """An approved plan with its workspace to continue with; it is fetched with `GET …/plan`."""

    attempt: int
    """The number by which the job knows the plan: that of the attempt that made it, or 0."""
    state_version: int
    sha256: str
    size: int
    path: str
    key: bytes
    plan_sha256: str
    """The hash of the plan itself, which was approved."""
    made_job_id: str
    """The job that made it: this one, or a PLAN job whose plan this one applies. In the second case, `attempt` is 0."""
    made_attempt: int
    """The attempt of that job. The workspace has its name, and the stored plan is encrypted for it."""

    def __repr__(self) -> str:
        return f"Resume({self.attempt})"


class KnownRevision(msgspec.Struct, frozen=True):
    """What the revision of a source meant to an earlier job of the same module."""

    revision: str
    commit: str
    number: int
    """The number of the job."""


class ExtraFile(msgspec.Struct, frozen=True):
    """A file that is written beside the source before the engine starts."""

    path: str
    """Relative to the folder of the module."""
    content: str
    is_overwriting: bool = False
    """Whether it may replace a file of the source."""

    def __repr__(self) -> str:
        return f"ExtraFile({self.path!r})"


class ImportedResource(msgspec.Struct, frozen=True):
    """A resource that an earlier attempt created and that no state records. The engine imports it instead of creating another."""

    address: str
    """Checked: it can be part of a configuration."""
    id: str
    destroyed_id: str = ""
    """The id of what the state still has at this address although the earlier attempt destroyed it."""


Definition = Literal[
    "organization_id",
    "group_path",
    "module_path",
    "module_name",
    "module_id",
    "job_number",
    "job_type",
    "source_commit",
    "source_revision",
]
"""What an input can say about the job that it is given to. The last two are empty if the source is not a repository."""


class DefinedInput(msgspec.Struct, frozen=True):
    """An input whose value says something about the job. Only the executor knows all of these values."""

    target: Literal["variable", "environment"]
    name: str
    definition: Definition


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script, which begins with an interpreter line such as `#!/bin/sh`, or a command as a list of arguments."""

    script: str = ""
    command: list[str] = []

    @property
    def text(self) -> str:
        """What a runner compares with the hooks that its operator has approved: the script, or the arguments as JSON."""
        if self.script:
            return self.script.replace("\r\n", "\n").replace("\r", "\n")
        return msgspec.json.encode(self.command).decode()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class ApprovedHooks(msgspec.Struct, frozen=True):
    """The only hooks that may run on a runner."""

    directory: str
    """Where the operator of the runner keeps them; empty if no directory is set, so that no hook may run."""
    sha256: list[str] = []


class StepHook(msgspec.Struct, frozen=True):
    """A hook of a job."""

    step: Step
    when: When
    hook: Hook
    place: str
    """The path of the module or group that has it; empty for the organization."""

    def __str__(self) -> str:
        return f"the hook {self.when} {self.step} of {f'`{self.place}`' if self.place else 'the organization'}"


class PlaceEnvironment(msgspec.Struct, frozen=True):
    """The environment variables that a group gives to its hooks: those that are set there or above it. What is set below it is left out,
    because it could make the hooks of the group do something else."""

    place: str
    """The path of the group; empty for the organization."""
    variables: dict[str, str] = {}
    definitions: list[DefinedInput] = []
    """Further variables, whose values say something about the job."""

    def __repr__(self) -> str:
        return f"PlaceEnvironment({self.place!r})"


MAX_LIMIT_SECONDS = 365 * 86_400
LimitSeconds = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT_SECONDS)]
LimitMegabytes = Annotated[int, msgspec.Meta(ge=64, le=16_777_216)]
LimitProcesses = Annotated[int, msgspec.Meta(ge=10, le=1_000_000)]
PlanRetries = Annotated[int, msgspec.Meta(ge=0, le=10)]


class JobLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job may use. A field that is None sets no limit."""

    job_seconds: Annotated[
        LimitSeconds | None,
        Field(label="Time limit of a job", option="--time-limit", metavar="30m", unit="seconds", merge="smallest"),
    ] = None
    """How long one attempt of a job may run. Waiting in the queue and for an approval is not counted."""
    step_seconds: Annotated[
        dict[Step, LimitSeconds],
        Field(
            label="Time limits of steps",
            option="--step-time-limit",
            metavar="plan=10m",
            unit="seconds",
            merge="smallest",
            is_merged=True,
        ),
    ] = {}
    """How long each step may run, with its hooks."""
    memory_mb: Annotated[
        LimitMegabytes | None,
        Field(label="Memory", option="--memory-limit", metavar="2GB", unit="megabytes", merge="smallest"),
    ] = None
    """How much memory the processes of an attempt may use together, in units of 1,048,576 bytes."""
    processes: Annotated[
        LimitProcesses | None, Field(label="Processes", option="--process-limit", metavar="N", merge="smallest")
    ] = None
    """How many processes and threads an attempt may have at once. Without a limit of its own, it may have 5,000."""
    plan_retries: Annotated[PlanRetries | None, Field(label="Plan retries", metavar="N")] = None
    """How often a step before the change is repeated after an error that may go away by itself, such as a registry that does not
    answer. Null means never. A change is never repeated."""


class JobSpec(msgspec.Struct, frozen=True):
    job_id: str
    attempt: int
    number: int
    type: JobType
    organization_id: str
    module_id: str
    module_path: str
    group_path: str
    engine: str
    source: Source
    inputs: dict[str, Any]
    environment: dict[str, str]
    backend: Literal["terracrew", "own"]
    state: StateSeed
    source_digest: str = ""
    """The digest of the source that an earlier attempt of this job used. Every later attempt must get the same source."""
    source_commit: str = ""
    source_revision: str = ""
    """The commit and the revision that an earlier attempt of this job found, see `SourceResolved`."""
    known_revisions: list[KnownRevision] = []
    """The commits that earlier jobs of the module used, so that a tag that has moved since is noticed."""
    archive: bytes | None = None
    """The content of the uploaded archive, if it is small enough for the grant."""
    oidc_audiences: list[str] = []
    """The clouds that the engine gets tokens for."""
    resume: Resume | None = None
    """The saved plan to continue with, or None to make a plan."""
    engine_version: str = ""
    """The version of the engine that the server has chosen for this job; empty if the module accepts any version."""
    is_destroy_plan: bool = False
    """Whether a PLAN shows what a DESTROY would destroy."""
    is_refresh_only: bool = False
    """Whether the flags of the plan make it one that only shows what was changed outside. It is described even if it changes nothing.
    Executors of 0.1.0 ignore this field and obey the flag, so that they make the same plan and do not describe it."""
    secrets: list[str] = []
    """The values of the secrets among inputs and environment. They are masked whatever their names are."""
    files: list[ExtraFile] = []
    """The extra files, which are written beside the source."""
    definitions: list[DefinedInput] = []
    """Further inputs, whose values say something about the job."""
    inherited: list[str] = []
    """The names of the inputs that are set at a group above the module. A source need not declare them."""
    hooks: list[StepHook] = []
    """In the order in which those of one step run: the hooks of a group run around those of what is below it."""
    hook_environments: list[PlaceEnvironment] = []
    """The variables of the hooks of groups, one for each group that has hooks. The module's own hooks get `environment`."""
    flags: dict[Step, list[str]] = {}
    """Arguments that the module and its groups add to the engine's command of a step."""
    imports: list[ImportedResource] = []
    """What the plan imports. The import blocks are in one of `files`."""
    limits: JobLimits = JobLimits()
    """What the attempt may use."""
    cloud: CloudIdentities = CloudIdentities()
    """As whom the engine logs in to clouds."""
    choice: DispatcherChoice = NO_CHOICE
    """What the job asks of the dispatcher of its runner."""
    merge: MergeResult | None = None
    """The merge result of a git source, whose own field is not sent: an executor of 0.1.0 would refuse the whole message."""
    is_fresh: bool = False
    """Whether `init` runs even if nothing that it reads has changed since an earlier job of the module."""
    has_own_source: bool = False
    """Whether the request for the job named its source, instead of the module."""
    needs_plan_json: bool = False
    """Whether the plan is also sent as JSON without sensitive values (`PlanShown`), because a command line that has saved it shows it.
    Executors of 0.1.0 ignore this field."""
    has_policies: bool = False
    """Whether the server checks plans by policies: then the plan is also sent as JSON, without schemas unless `needs_plan_json` is
    set. Executors of 0.1.0 ignore this field."""

    def __repr__(self) -> str:
        return f"JobSpec({self.job_id!r}, {self.attempt})"

    @property
    def is_destroying(self) -> bool:
        """Whether its plan destroys everything."""
        return self.type == JobType.DESTROY or self.is_destroy_plan


def audience_slug(audience: str) -> str:
    """Return the spelling of an audience in the name of a variable or a file."""
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in audience).upper()


class Credentials(msgspec.Struct, frozen=True):
    """The attempt's own credentials: the executor uses `hub`, the engine may see `api`, and `state_key` encrypts states on disk."""

    hub: str
    api: str
    state_key: bytes
    module_key: bytes = b""
    """The module's own key, for an engine that encrypts the secrets in its state itself; empty for others."""
    receipt: str = ""
    """A sealed copy of what the claim wrote. A server whose database was set back takes the attempt again by it."""

    def __repr__(self) -> str:
        return "Credentials(…)"
