"""What rows and pages say about cloud-hosted runners: asleep, waking, being deployed, or refused by their cloud."""

from collections.abc import Sequence

import msgspec

from terracrew.api.deployments import CloudInstance, CloudInstanceStatus
from terracrew.api.fleet_jobs import FleetJob
from terracrew.api.runners import RunnerStatus, RunnerView
from terracrew.server.dashboard import badges
from terracrew.server.dashboard.badges import Badge
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads
from terracrew.server.deployments.model import CloudDeployment
from terracrew.server.fleet_jobs import reads as fleet_reads
from terracrew.wording.durations import duration

_NOT_DEPLOYED = {
    "new": Badge("idle", "clock", "Not deployed"),
    "failed": Badge("bad", "cross", "Not deployed"),
    "removing": Badge("warn", "half", "Removing"),
}
_CLOUD_INSTANCES: dict[CloudInstanceStatus, Badge] = {
    "wanted": Badge("busy", "arc", "Asked for"),
    "starting": Badge("busy", "arc", "Starting"),
    "running": Badge("ok", "circle", "Running"),
    "leaving": Badge("idle", "moon", "Leaving"),
    "ended": Badge("idle", "slash", "Ended"),
}


class CloudState(msgspec.Struct, frozen=True):
    """A cloud-hosted runner beside its record."""

    deployment: CloudDeployment
    live: list[CloudInstance]
    """The instances that have not ended, the oldest first."""
    job: FleetJob | None = None
    """The last fleet job of a runner that is not deployed, or not any more."""

    @property
    def is_working(self) -> bool:
        """Return whether a fleet job is open for it."""
        return self.job is not None and not self.job.is_terminal

    def badge(self, status: RunnerStatus) -> Badge:
        """Return the badge of the runner: what happens to its deployment comes first, unless an instance is connected."""
        if status in (RunnerStatus.ONLINE, RunnerStatus.DRAINING):
            return badges.runner_badge(status)
        if self.job is not None and self.job.is_active:
            return badges.fleet_job_badge(self.job)
        return _NOT_DEPLOYED.get(self.deployment.status, badges.runner_badge(status))

    @property
    def waking(self) -> CloudInstance | None:
        """Return the instance that was asked for first and has not said hello, if there is one."""
        return next((each for each in self.live if each.status in ("wanted", "starting")), None)

    @property
    def refusal(self) -> str:
        """Return what the cloud said when it refused to start an instance; empty since one has started."""
        return self.deployment.refusal_words

    @property
    def start_words(self) -> str:
        return f"about {duration(self.deployment.typical_start_seconds)}"

    def text(self, status: RunnerStatus) -> str:
        """Return the line below the badge of a runner, without times that go on."""
        if self.deployment.status != "deployed":
            return ""
        if status is RunnerStatus.ASLEEP:
            return "cannot wake now" if self.refusal else f"wakes for a job in {self.start_words}"
        return ""


async def states(tx: Tx, runners: Sequence[RunnerView]) -> dict[str, CloudState]:
    """Return what is known of the cloud-hosted ones among these runners, by their ids."""
    ids = [each.id for each in runners if each.type == "cloud-hosted"]
    if not ids:
        return {}
    deployments, live = await reads.many(tx, ids), await reads.live_of(tx, ids)
    jobs = {
        each.runner_id: await fleet_reads.newest(tx, each.runner_id)
        for each in deployments.values()
        if each.status != "deployed"
    }
    return {
        runner_id: CloudState(each, live.get(runner_id, []), jobs.get(runner_id))
        for runner_id, each in deployments.items()
    }


class DeploymentStep(msgspec.Struct, frozen=True):
    """What a deployment does, before there is one."""

    words: str
    detail: str
    takes: str


DEPLOYMENT_STEPS = (
    DeploymentStep("Makes roles, log group, security group and task definition", "Each step says what it made", "20 s"),
    DeploymentStep("Starts one instance as proof", "It pulls the image and connects to this server", "about 1 min"),
    DeploymentStep("Online", "It sleeps when it has no job, and wakes for one", ""),
)


def instance_badge(instance: CloudInstance) -> Badge:
    """Return the badge of an instance that a cloud was asked to start."""
    return _CLOUD_INSTANCES[instance.status]
