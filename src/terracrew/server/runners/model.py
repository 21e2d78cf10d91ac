"""A runner: the record that processes connect as. What it is doing is computed from its instances."""

from terracrew.api.runners import Instance, RunnerStatus

SILENCE_SECONDS = 60.0
"""An instance without a heartbeat for this long counts as offline."""


def instance_status(instance: Instance) -> RunnerStatus:
    """Return the status of an instance. It counts as connected until `hub/presence` finds that it is silent."""
    if not instance.is_connected:
        return RunnerStatus.OFFLINE
    return RunnerStatus.DRAINING if instance.is_draining else RunnerStatus.ONLINE
