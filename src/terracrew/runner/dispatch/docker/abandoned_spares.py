"""Removes containers that were started ahead of a job by runners that were killed and never came back under the same name.

Such a container ends by itself, or was never started, and nobody else looks for it. A runner that is alive removes its own within
minutes. So a container is removed only if it is a day old, does not run, and never got a job: an attempt that did may have left
what only its own runner can deliver. Kubernetes keeps the Job of such a runner for as long.
"""

import logging
import time
from collections.abc import Sequence
from functools import partial

import aiodocker
from aiodocker.volumes import DockerVolume

from terracrew.runner.dispatch.docker import attempt_files
from terracrew.runner.dispatch.docker.containers import LABEL, SPARE_PREFIX
from terracrew.runner.dispatch.docker.daemon import Container, Daemon

log = logging.getLogger(__name__)

MIN_AGE_SECONDS = 24 * 3600.0
_NOT_RUNNING = ("created", "exited", "dead")


async def remove(daemon: Daemon, listed: Sequence[Container], own_key: str) -> None:
    """Remove them from the containers of all runners on this daemon, except those of the runner with this key."""
    for each in listed:
        labels = each["Labels"]
        is_spare = labels[f"{LABEL}.attempt"].startswith(SPARE_PREFIX) and labels.get(f"{LABEL}.key") != own_key
        is_old = time.time() - each["Created"] > MIN_AGE_SECONDS
        if is_spare and is_old and each["State"] in _NOT_RUNNING:
            try:
                await _remove_unless_used(daemon, each)
            except aiodocker.DockerError as error:
                log.info("a container that no job has used is removed later: %s", error.message)


async def _remove_unless_used(daemon: Daemon, container: Container) -> None:
    if await attempt_files.holds_attempt(daemon, container):
        return
    name = container["Names"][0].removeprefix("/")
    log.info("removing %s, which a runner that is gone had ready for a job", name)
    # Without `force`, so that the daemon refuses if it runs after all, or if something else uses its volume.
    await daemon.find(partial(container.delete))
    await daemon.find(DockerVolume(daemon.client, name).delete)
