"""Runners: the records that processes connect as, their instances, their configuration, and the places that may use them."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.fields import Field
from terracrew.api.place_settings import Description, PlaceKind
from terracrew.api.tags import Tags
from terracrew.protocol.dispatcher_choice import OfferedDispatcher
from terracrew.protocol.limits import MAX_LOG_BATCH_EVENTS, MAX_LOG_PERIOD_SECONDS
from terracrew.protocol.messages import Installation

HEARTBEAT_SECONDS = 10.0
MAX_CATEGORIES = 50
TOKEN_WARNING = timedelta(days=5)
"""How long before the end of a worker token people are warned. It is less than `MIN_WORKER_TOKEN_DAYS` by more than a day."""

# An instance is offline after a silent minute, so it sends at least two heartbeats in that time, and at most one a second.
Seconds = Annotated[float, msgspec.Meta(ge=1, le=30)]
Category = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.]{1,100}$(?!\n)")]
Level = Literal["Trace", "Debug", "Information", "Warning", "Error", "Critical", "None"]
BatchSize = Annotated[int, msgspec.Meta(ge=1, le=MAX_LOG_BATCH_EVENTS)]
Period = Annotated[float, msgspec.Meta(gt=0, le=MAX_LOG_PERIOD_SECONDS)]
RunnerType = Literal["self-hosted", "cloud-hosted"]
MaxJobs = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that operators change while a runner's processes run. The runner's own settings apply to what is not set here."""

    heartbeat_seconds: Annotated[Seconds | None, Field(label="Seconds between heartbeats", metavar="N")] = None
    """The seconds between two heartbeats of its processes; null means 10."""
    log_level: Annotated[dict[Category, Level], Field(metavar="CATEGORY=LEVEL", is_merged=True)] = {}
    """A map from category to level, which overrides the runner's own. `Default` applies if no longer name matches."""
    batch_size_limit: Annotated[
        BatchSize | None, Field(label="Log events in a batch", option="--log-batch-size", metavar="N")
    ] = None
    """Events of a job's log that are shipped together, while nobody watches."""
    period_seconds: Annotated[
        Period | None, Field(label="Seconds before a batch is sent", option="--log-period", metavar="N")
    ] = None
    """How long an event of a job's log waits for its batch to fill, while nobody watches."""

    @property
    def heartbeat(self) -> float:
        return self.heartbeat_seconds or HEARTBEAT_SECONDS

    @property
    def levels(self) -> dict[str, str]:
        return {**self.log_level}


UNCONFIGURED = Configuration()


@fields.change
class ConfigurationChange(Configuration, frozen=True, kw_only=True):
    """The settings to change. Settings that are left out stay, as do categories of the log level; null restores the runner's own
    setting."""


class RunnerOptions(msgspec.Struct, frozen=True, kw_only=True):
    description: Annotated[Description, Field(is_long=True, is_searched=True)] = ""
    """What it is for, shown beside its name."""
    max_jobs: Annotated[MaxJobs, Field(label="Jobs at once", metavar="N")] = 100
    """How many jobs each of its instances may run at once. An instance runs fewer if its own settings say so."""
    allow_multiple_instances: Annotated[bool, Field(label="Several instances", option="--multiple/--single")] = False
    """Whether several processes may be connected as it at once."""
    tags: Annotated[Tags, Field(option="--tag", metavar="TAG")] = []
    """It gets the jobs of a module only if it has all of the module's tags."""


class RunnerStatus(StrEnum):
    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"
    DRAINING = "DRAINING"
    ASLEEP = "ASLEEP"
    """A cloud-hosted runner without an instance: a job wakes it."""
    WAKING = "WAKING"
    """A cloud-hosted runner whose first instance is being started."""


class Runner(RunnerOptions, frozen=True, kw_only=True):
    id: str
    organization_id: str | None = None
    group_id: str | None = None
    name: str
    path: str
    type: RunnerType = "self-hosted"
    region: str | None = None
    service_account_id: str | None = None
    is_disabled: bool = False
    is_draining: bool = False
    configuration: Configuration = msgspec.field(default_factory=Configuration)
    removing_since: datetime | None = None
    """Since when it is being removed; null if it is not. It drains, and its record disappears after its last job."""
    is_declared: bool = False
    """Whether the server's configuration declares it, so that its fields are changed there and not here."""
    declared_in: str | None = None
    """The server's settings file that declares it, or that declared it until it was retired; null: none."""
    created_at: datetime

    @property
    def is_shared(self) -> bool:
        return self.organization_id is None

    @property
    def group(self) -> str | None:
        """The path of the group that the runner is in, or None for a shared runner."""
        return None if self.is_shared else self.path.rpartition("/")[0]

    @property
    def is_configured(self) -> bool:
        return self.configuration != UNCONFIGURED


class Instance(msgspec.Struct, frozen=True):
    """One process that is, or was, connected as a runner."""

    id: str
    runner_id: str
    name: str
    version: str
    capacity: int
    """How many jobs its own settings let it run at once. The runner's `max_jobs` can only lower this number."""
    engines: dict[str, str]
    """Each engine with the version that a job uses if its module accepts any."""
    is_connected: bool
    is_draining: bool
    connected_at: datetime
    disconnected_at: datetime | None
    heard_at: datetime
    is_disk_full: bool = False
    """Whether it drains because its disk is full."""
    drain_reason: str = ""
    """What announced the end of it or its machine, such as `SIGTERM` or `spot notice`; empty if nothing did."""
    ends_at: datetime | None = None
    """When it and its jobs end at the latest; null if that is not known. Jobs that do not end in time are interrupted before."""
    isolation: str = ""
    """What keeps the modules that it runs from its own files: `landlock`, or nothing because it is set to `none` or because its
    kernel has none (`unavailable`)."""
    engine_versions: dict[str, list[str]] = {}
    """Each engine with all of its versions."""
    installable_engines: list[str] = []
    """The engines of which it installs a version that a job needs and that it does not have."""
    dispatchers: list[OfferedDispatcher] = []
    """The dispatchers that jobs may ask for, the default one first."""
    installation: Installation = Installation()
    """How it was installed, as far as it says, from which follows how it is updated."""
    is_self_updating: bool = False
    """Whether it updates itself when a person asks for that here."""
    is_on_trial: bool = False
    """Whether it has to prove with a no-op job that it can run jobs, before it gets some."""
    retire_reason: str = ""
    """Why it was asked to end after its last job, for example because a newer version was deployed; empty if it was not."""
    jobs: int = 0
    """How many it has now."""
    status: RunnerStatus = RunnerStatus.OFFLINE


class RunnerView(Runner, frozen=True, kw_only=True):
    """A runner as people see it."""

    group: str | None  # pyright: ignore[reportIncompatibleMethodOverride] - sent with the others
    """Path of its group, empty for the whole organization; null for a shared runner."""
    has_worker_token: bool
    worker_token_expires_at: datetime | None
    """When its worker token ends unless the runner replaces it, as it does every day, or keeps using it; null: it has none, or
    it is a shared runner, whose token is in the server's settings."""
    is_assigned_to_all_modules: bool
    status: RunnerStatus
    version: str | None
    """The lowest version of its connected instances that take jobs. Without one: the version that was deployed for a cloud-hosted
    runner, or that of the instance with the latest contact."""
    latest_version: str | None
    """The latest release that suits this server; null if there is none."""
    is_outdated: bool
    """Whether its version is lower than the latest release. A version that is not a semantic one is unknown, not outdated."""
    last_seen_at: datetime | None
    jobs: int
    """How many it has now, all instances together."""
    capacity: int
    """How many jobs its connected instances can run at once: of each instance its `capacity` or `max_jobs`, whichever is lower."""
    alerts: int
    """How many signs there are that somebody else may use its credentials, and that nobody has acknowledged."""
    instances: list[Instance]
    """The connected instances and the last ones that disconnected; for a large fleet, only some of them."""

    @property
    def lacks_isolation(self) -> bool:
        """Whether a connected instance runs modules without isolation."""
        return any(each.is_connected and each.isolation in ("none", "unavailable") for each in self.instances)

    @property
    def is_disk_full(self) -> bool:
        """Whether it takes no jobs only because the disks of its connected instances are full."""
        here = [instance for instance in self.instances if instance.is_connected]
        return bool(here) and not self.is_draining and all(instance.is_disk_full for instance in here)

    def is_token_ending(self, now: datetime) -> bool:
        """Return whether its token ends soon, or has ended. The token of a runner that is in use is replaced or extended long before."""
        ends_at = self.worker_token_expires_at
        return ends_at is not None and ends_at - now < TOKEN_WARNING


@fields.new
class NewRunner(RunnerOptions, frozen=True, kw_only=True):
    name: str
    group: str | None = ""
    """Path or id of the group that it belongs to; empty: the whole organization. Null is refused, because it would be a shared
    runner, and only the server's settings file declares those."""
    service_account: str | None = None
    """Id or path (`group/name`) of the service account with which its processes authenticate."""
    assign: bool = True
    """Whether all modules of its group may use it at once."""


@fields.new
class Registration(NewRunner, frozen=True, kw_only=True):
    replace: bool = False
    """Give a runner that exists a new token; its old one ends at once."""


class Registered(msgspec.Struct, frozen=True):
    """What a runner needs to start. The token is shown this once."""

    id: str
    path: str
    worker_id: str
    worker_token: str
    environment: dict[str, str]
    command: str
    runner: RunnerView

    def __repr__(self) -> str:
        return f"Registered({self.path!r})"


@fields.change
class RunnerChange(RunnerOptions, frozen=True, kw_only=True):
    """What to change; what is left out stays. The name, the group and the type of a runner never change."""

    group: Annotated[str | None, Field(option=None)] = None
    """Always refused: a runner stays in its group, and only the server's settings file declares shared runners."""
    is_assigned_to_all_modules: Annotated[bool, Field(label="All modules of its group may use it", option=None)] = False
    """Whether all modules of its group may use it. Assignments to places below the group stay as they are."""
    is_disabled: Annotated[bool, Field(option=None)] = False
    """A disabled runner stays connected and reports; it gets no new jobs."""
    is_draining: Annotated[bool, Field(option=None)] = False
    """A draining runner finishes its jobs and gets no new ones. False also stops its removal."""
    service_account: Annotated[str | None, Field(metavar="ACCOUNT")] = None
    """Id or path (`group/name`) of a service account of its group or of a group above it. Null unbinds it."""
    configuration: Annotated[Configuration | None, Field(option=None)] = None
    """Reaches its processes at once. Null: all of it by the runner's own settings."""


class Assignment(msgspec.Struct, frozen=True):
    """A place of the tree whose modules may use the runner."""

    runner_id: str
    place_id: str
    kind: PlaceKind
    path: str
    created_at: datetime


class DrainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on: bool = True


class AssignTo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    place: str
    """Path or id of a group or a module; empty: the whole organization."""
    kind: PlaceKind | None = None


class RemainingJob(msgspec.Struct, frozen=True):
    """A job that a runner has now."""

    id: str
    number: int
    module_path: str
    status: str
    instance_name: str | None
    claimed_at: datetime | None


class Remaining(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner still has to finish."""

    id: str
    path: str
    is_draining: bool
    removing_since: datetime | None
    is_drained: bool
    """Whether it drains and has nothing left to finish."""
    job_count: int
    """How many jobs it has now, including those that you may not see."""
    jobs: list[RemainingJob]
    """Those of its first 100 jobs that you may see, by number."""
    delivering: int
    """How many lost attempts are in contact again and still deliver what they have recorded."""


class RunnerRemoval(msgspec.Struct, frozen=True):
    """What has become of the request to remove a runner."""

    path: str
    is_removed: bool
    """Whether its record is gone. If not, it drains now, and the record disappears when nothing remains."""
    remaining: Remaining | None
    """What it still has to finish; null if it is removed."""


class Dependents(msgspec.Struct, frozen=True, kw_only=True):
    """What would be left without a runner if this one took no more jobs."""

    module_count: int
    """How many modules no other enabled runner serves; at most 1001."""
    modules: list[str]
    """The paths of the first few of them that you may see."""
    pinned_count: int
    """How many modules name this runner as the only one that they may use."""
    pinned: list[str]
    """The paths of the first few of them that you may see."""
    waiting_plans: int
    """How many jobs wait with a plan that this runner made. After its removal, each makes a new plan on another runner."""


class AlertKind(StrEnum):
    MOVED = "moved"
    """An instance came back from another address or machine while nobody was connected as it, or the same process did."""
    TAKEN_OVER = "taken_over"
    """Another process took the place of a connected instance that did not answer."""
    REFUSED = "refused"
    """Another process wanted the place of a connected instance, which answered and kept it."""
    ENDED_TOKEN = "ended_token"  # noqa: S105 (a word, not a secret)
    """Somebody used a worker token that the runner had replaced by itself."""


URGENT = frozenset(AlertKind) - {AlertKind.MOVED}
"""The kinds that stay until a person acknowledges them. A move is ordinary on many networks, so it is shown for some days."""


class RunnerAlert(msgspec.Struct, frozen=True):
    id: str
    runner_id: str
    kind: AlertKind
    instance: str
    """The name that the process gave; empty if there are too many names, or none is known."""
    address: str | None
    """The address that the last occurrence came from. Behind a trusted proxy it is that of the proxy's client."""
    former_address: str | None
    """The address of the process that had the place before, or has kept it."""
    former_at: datetime | None
    """When that process was last in contact."""
    is_other_machine: bool
    """Whether both processes name the machine that they run on, and the names differ."""
    count: int
    first_at: datetime
    last_at: datetime
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None

    @property
    def is_urgent(self) -> bool:
        return self.kind in URGENT


class Acknowledgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    until: datetime | None = None
    """Acknowledge what happened up to this time, so that nothing is acknowledged unseen; null: up to now."""


OnceTokenStatus = Literal["waiting", "running", "used", "expired", "revoked"]
MIN_SECONDS, DEFAULT_SECONDS, MAX_SECONDS = 60, 3600, 24 * 3600
"""How long a token may wait for its job."""


class OnceToken(msgspec.Struct, frozen=True):
    """A credential of a runner that is valid for one job. The secret itself is shown only when it is made."""

    id: str
    runner_id: str
    created_by: str
    """The name of the person or service account that made it."""
    created_at: datetime
    expires_at: datetime
    """Until when it may claim a job. After that, it may only deliver what belongs to the job."""
    claimed_at: datetime | None = None
    job_id: str | None = None
    """The job that it has claimed, with the number of the attempt."""
    attempt: int | None = None
    instance_id: str | None = None
    """The instance that has claimed the job. No other one may use the token since."""
    revoked_at: datetime | None = None


class OnceTokenView(OnceToken, frozen=True, kw_only=True):
    """A once token as people see it."""

    status: OnceTokenStatus
    """`waiting` for a job, `running` until its attempt has ended, and then `used`; or `expired` without a job, or `revoked`."""
    job_number: int | None
    """The number of the job that it has claimed."""


class NewOnceToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seconds: Annotated[
        int,
        msgspec.Meta(ge=MIN_SECONDS, le=MAX_SECONDS),
        Field(option="--valid-for", metavar="DURATION", unit="seconds"),
    ] = DEFAULT_SECONDS
    """How long it may wait for its job. It ends sooner if the credential of this request does."""


class MadeOnceToken(msgspec.Struct, frozen=True):
    """What a machine needs to run one job. The token is shown this once."""

    id: str
    runner_path: str
    token: str
    expires_at: datetime
    environment: dict[str, str]
    command: str

    def __repr__(self) -> str:
        return f"MadeOnceToken({self.id!r})"
