"""One runner instance with the dispatcher `docker`, a hub, and attempts."""

import uuid
from pathlib import Path
from typing import Any

import msgspec

from terracrew.runner.dispatch.docker import containers
from terracrew.runner.dispatch.docker.daemon import Daemon
from terracrew.runner.dispatch.docker.dispatcher import Docker
from terracrew.runner.dispatch.docker.settings import DockerSettings
from tests.machine.platforms import executor_image
from tests.machine.platforms.containers import Containers
from tests.runner.dispatch.held_attempts import HeldAttempts


class Bench(HeldAttempts):
    def __init__(self, address: str, folder: Path) -> None:
        super().__init__(folder)
        self.address = address
        self.settings = DockerSettings(
            executor_image.image(address),
            host=address,
            is_local_image=True,
            network="host",
            memory_bytes=1 << 30,
            has_spare=False,
        )
        # A sweep removes what a predecessor of the same runner has delivered, and tests that run beside this one share the daemon.
        self._runner = f"rnr_{uuid.uuid4().hex}"
        self.containers = Containers(address, containers.ContainerOwner.for_key(str(folder), self._runner, "one"))
        self._opened: list[Docker] = []

    async def __aexit__(self, *_: object) -> None:
        for dispatcher in self._opened:
            await dispatcher.close()
        self.containers.remove_all()
        await super().__aexit__()

    def open(self, key: str = "", **changes: Any) -> Docker:
        chosen = msgspec.structs.replace(self.settings, **changes)
        dispatcher = Docker(
            chosen, Daemon(chosen.host, {}), {}, containers.ContainerOwner.for_key("", self._runner, "one")
        )
        dispatcher.use_instance(key or str(self.folder))
        self._opened.append(dispatcher)
        return dispatcher
