"""The words and badges of what runs in clouds, the same on all pages that show it."""

import msgspec

from terracrew.server.dashboard.words import Badge
from terracrew.server.deployments.model import CloudInstance, CloudInstanceStatus

_CLOUD_INSTANCES: dict[CloudInstanceStatus, Badge] = {
    "wanted": Badge("busy", "arc", "Asked for"),
    "starting": Badge("busy", "arc", "Starting"),
    "running": Badge("ok", "circle", "Running"),
    "leaving": Badge("idle", "moon", "Leaving"),
    "ended": Badge("idle", "slash", "Ended"),
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
