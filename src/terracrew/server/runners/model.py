"""A runner: the record that processes connect as. What it is doing is computed from its instances."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.protocol.dispatcher_choice import OfferedDispatcher
from terracrew.protocol.messages import Installation
from terracrew.server.assignments.model import PlaceKind
from terracrew.server.connections.configuration import UNCONFIGURED, Configuration, ConfigurationChange
from terracrew.server.tags import Tags
from terracrew.server.tree.groups.model import Description

SILENCE_SECONDS = 60.0
"""An instance without a heartbeat for this long counts as offline."""

TOKEN_WARNING = timedelta(days=5)
"""How long before the end of a worker token people are warned. It is less than `MIN_WORKER_TOKEN_DAYS` by more than a day."""

RunnerType = Literal["self-hosted", "cloud-hosted"]
MaxJobs = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class RunnerStatus(StrEnum):
    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"
    DRAINING = "DRAINING"
    ASLEEP = "ASLEEP"
    """A cloud-hosted runner without an instance: a job wakes it."""
    WAKING = "WAKING"
    """A cloud-hosted runner whose first instance is being started."""


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    organization_id: str | None = None
    group_id: str | None = None
    name: str
    path: str
    description: str = ""
    type: RunnerType = "self-hosted"
    region: str | None = None
    service_account_id: str | None = None
    is_disabled: bool = False
    is_draining: bool = False
    allow_multiple_instances: bool = False
    max_jobs: int = 100
    """How many jobs each of its instances may run at once."""
    tags: list[str] = []
    configuration: Configuration = UNCONFIGURED
    removing_since: datetime | None = None
    """Since when it is being removed; it drains meanwhile."""
    is_declared: bool = False
    declared_in: str | None = None
    """The settings file that declares a shared runner, or that declared it until it was retired."""
    created_at: datetime

    @property
    def is_shared(self) -> bool:
        return self.organization_id is None

    @property
    def group(self) -> str | None:
        """The path of the group that the runner is in, or None for a shared runner."""
        return None if self.is_shared else self.path.rpartition("/")[0]


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
    """Each engine with all of its versions; empty if the instance runs an older version of Terracrew."""
    installable_engines: list[str] = []
    """The engines of which it installs a version that a job needs and that it does not have."""
    dispatchers: list[OfferedDispatcher] = []
    """The dispatchers that jobs may ask for, the default one first; empty if the instance runs an older version of Terracrew."""
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


class RunnerView(msgspec.Struct, frozen=True, kw_only=True):
    """A runner as people see it."""

    id: str
    organization_id: str | None
    group_id: str | None
    group: str | None
    """Path of its group, empty for the whole organization; null for a shared runner."""
    name: str
    path: str
    description: str
    type: RunnerType
    region: str | None
    service_account_id: str | None
    has_worker_token: bool
    worker_token_expires_at: datetime | None
    """When its worker token ends unless the runner replaces it, as it does every day, or keeps using it; null: it has none, or
    it is a shared runner, whose token is in the server's settings."""
    is_assigned_to_all_modules: bool
    is_disabled: bool
    is_draining: bool
    allow_multiple_instances: bool
    max_jobs: int
    """How many jobs each of its instances may run at once. An instance runs fewer if its own settings say so."""
    tags: list[str]
    configuration: Configuration
    removing_since: datetime | None
    """Since when it is being removed; null if it is not. It drains, and its record disappears after its last job."""
    is_declared: bool
    """Whether the server's configuration declares it, so that its fields are changed there and not here."""
    declared_in: str | None
    """The server's settings file that declares it, or that declared it until it was retired; null: none."""
    created_at: datetime
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

    @property
    def is_configured(self) -> bool:
        return self.configuration != UNCONFIGURED


class NewRunner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    group: str | None = ""
    """Path or id of the group that it belongs to; empty: the whole organization. Null is refused, because it would be a shared
    runner, and only the server's settings file declares those."""
    description: Description = ""
    max_jobs: MaxJobs = 100
    """How many jobs each of its instances may run at once."""
    allow_multiple_instances: bool = False
    tags: Tags = []
    service_account: str | None = None
    """Id or path (`group/name`) of the service account with which its processes authenticate."""
    assign: bool = True
    """Whether all modules of its group may use it at once."""


class Registration(NewRunner, frozen=True):
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


class RunnerChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; what is left out stays. The name, the group and the type of a runner never change."""

    group: str | UnsetType | None = UNSET
    """Always refused: a runner stays in its group, and only the server's settings file declares shared runners."""
    description: Description | UnsetType = UNSET
    max_jobs: MaxJobs | UnsetType = UNSET
    """How many jobs each of its instances may run at once."""
    allow_multiple_instances: bool | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    is_assigned_to_all_modules: bool | UnsetType = UNSET
    """Whether all modules of its group may use it. Assignments to places below the group stay as they are."""
    is_disabled: bool | UnsetType = UNSET
    """A disabled runner stays connected and reports; it gets no new jobs."""
    is_draining: bool | UnsetType = UNSET
    """A draining runner finishes its jobs and gets no new ones. False also stops its removal."""
    service_account: str | UnsetType | None = UNSET
    """Id or path (`group/name`) of a service account of its group or of a group above it. Null unbinds it."""
    configuration: ConfigurationChange | UnsetType | None = UNSET
    """Reaches its processes at once. Null: all of it by the runner's own settings."""


class DrainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on: bool = True


class AssignTo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    place: str
    """Path or id of a group or a module; empty: the whole organization."""
    kind: PlaceKind | None = None


def instance_status(instance: Instance) -> RunnerStatus:
    """Return the status of an instance. It counts as connected until `hub/presence` finds that it is silent."""
    if not instance.is_connected:
        return RunnerStatus.OFFLINE
    return RunnerStatus.DRAINING if instance.is_draining else RunnerStatus.ONLINE
