"""A deployment: what a cloud-hosted runner is started with, what the cloud said last, and the instances that it was asked for."""

import statistics
from collections.abc import Iterable
from datetime import datetime

import msgspec

from terracrew.api.deployments import CloudInstance, CloudInstanceStatus, DeploymentSettings, DeploymentStatus

FIRST_START_SECONDS = 45.0
"""How long a start is said to take before there was one."""
MAX_KEPT_STARTS = 9
MAX_NAME_CHARACTERS = 64


class CloudDeployment(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a cloud-hosted runner beside its record."""

    runner_id: str
    identity_id: str
    settings: DeploymentSettings
    facts: dict[str, str] = {}
    """What the last deployment made, by the name of its step."""
    version: str = ""
    """The version of Terracrew that the last deployment gave its instances; empty if it is not known."""
    status: DeploymentStatus = "new"
    epoch: int = 0
    """Counts the decisions to start instances."""
    refusal_code: str = ""
    refusal_words: str = ""
    """What the cloud said when it last refused to start an instance; empty since an instance has started."""
    refusals: int = 0
    """How many times in a row it refused."""
    refused_at: datetime | None = None
    retry_at: datetime | None = None
    """Nothing is started before this time; None: there is no reason to wait."""
    start_seconds: list[float] = []
    """How long the last starts took, from the decision to the hello, the newest last."""
    woken_ahead_at: datetime | None = None
    """When an instance was last started because somebody looked at a plan that waits for approval."""
    revision: int = 0
    """Counts the deployments that have succeeded. Instances of an earlier one are retired."""
    image: str = ""
    """The image that was deployed, if people chose none: that of a release, or that of the server's settings at that time."""

    @property
    def typical_start_seconds(self) -> float:
        """How long a start takes, by the median of the last ones."""
        return statistics.median(self.start_seconds) if self.start_seconds else FIRST_START_SECONDS

    def counts(self, instance: "CloudInstance") -> bool:
        """Return whether an instance is one of those that are to take jobs: it does not leave, and is not of an earlier revision."""
        return instance.status not in ("leaving", "ended") and instance.revision >= self.revision

    def can_wake(self, now: datetime) -> bool:
        """Return whether an instance may be started now."""
        return self.status == "deployed" and (self.retry_at is None or self.retry_at <= now)

    def started_in(self, seconds: float) -> "CloudDeployment":
        """Return the deployment after a start that took this long. What the cloud refused before is over."""
        kept = [*self.start_seconds, round(seconds, 1)][-MAX_KEPT_STARTS:]
        return msgspec.structs.replace(self.accepted(), start_seconds=kept)

    def accepted(self) -> "CloudDeployment":
        """Return the deployment without a refusal."""
        return msgspec.structs.replace(
            self, refusal_code="", refusal_words="", refusals=0, refused_at=None, retry_at=None
        )

    def refused(self, code: str, words: str, now: datetime, retry_at: datetime) -> "CloudDeployment":
        """Return the deployment after the cloud refused to start an instance."""
        return msgspec.structs.replace(
            self,
            refusal_code=code,
            refusal_words=words,
            refusals=self.refusals + 1,
            refused_at=now,
            retry_at=retry_at,
        )


def instance_name(runner_id: str, epoch: int, number: int, row_id: str) -> str:
    """Return the name of an instance: made of its runner, of the decision that it belongs to, and of its row.

    The row keeps it, so that each repetition of the request has the same. A database that was set back makes the same decisions again,
    in other rows: with the same names, the cloud would answer with instances that have ended long ago.
    """
    name = f"tc-{runner_id[-12:]}-{epoch}-{number}-{row_id[-4:]}"
    assert len(name) <= MAX_NAME_CHARACTERS, name
    return name


class ScaleLimits(msgspec.Struct, frozen=True):
    """What people chose."""

    min_instances: int
    max_instances: int
    capacity: int
    """How many jobs an instance runs at once."""


class Supplied(msgspec.Struct, frozen=True):
    """An instance that exists, or that the cloud was asked for."""

    status: CloudInstanceStatus
    free: int = 0
    """The free slots of one that is running; 0 if it takes no jobs. What is coming has all of its slots free."""


def free_slots(instances: Iterable[Supplied], capacity: int) -> int:
    """Return how many further jobs these instances can take, now or as soon as they have started."""
    return sum(
        capacity if each.status in ("wanted", "starting") else each.free
        for each in instances
        if each.status not in ("leaving", "ended")
    )


def instances_to_start(
    queued: int, instances: Iterable[Supplied], limits: ScaleLimits, retry_at: datetime | None, now: datetime
) -> int:
    """Return how many instances to start now.

    `queued` counts the jobs that wait for this runner. The jobs that it has are counted by the slots that they take. An
    instance that leaves is no supply, but counts as one of the allowed ones until it has ended. Nothing is started while the
    cloud's last refusal holds.
    """
    if retry_at is not None and now < retry_at:
        return 0
    live = [each for each in instances if each.status != "ended"]
    missing_slots = queued - free_slots(live, limits.capacity)
    for_jobs = -(-missing_slots // limits.capacity)
    staying = sum(each.status != "leaving" for each in live)
    wanted = max(for_jobs, limits.min_instances - staying)
    return max(0, min(wanted, limits.max_instances - len(live)))
