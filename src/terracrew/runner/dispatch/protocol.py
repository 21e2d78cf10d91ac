"""The interface of a dispatcher: how the runner starts, finds, follows and stops executors.

A `DispatcherPlugin` is registered under its name (see `terracrew.plugins`), and the setting `job_dispatcher.type` chooses one.
`terracrew.testing.dispatcher_contract` tests a dispatcher.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from terracrew.errors import TerracrewError
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.config import RunnerConfig


class NotStarted(TerracrewError):
    """No process of this attempt existed, and none will, so the attempt may be handed back."""

    code = "not_started"


H = TypeVar("H")


class Dispatcher(Protocol[H]):
    """`H` is the dispatcher's own handle on what it started or adopted."""

    def use_instance(self, key: str) -> None:
        """Set the key of the instance whose only process this is. The runner calls this once, before every other method.

        Several runners can share a machine or a cluster: a dispatcher marks what it starts with the key, and finds only that.
        """
        ...

    async def start(self, start: ExecutorStart) -> H:
        """Start an executor, or raise NotStarted. The executor locks and signs its directory itself."""
        ...

    def adopt(self, directory: Path) -> H:
        """Find what an earlier process started on this directory, dead or alive, or raise NotStarted."""
        ...

    async def watch(self, handle: H) -> int | None:
        """Return when every process of the attempt has ended. Returns the executor's exit code, or None if it is unknown."""
        ...

    async def stop(self, handle: H, mode: CancelMode) -> None:
        """Request the end of the attempt. `watch` returns when it has ended."""
        ...

    async def close(self) -> None:
        """Disconnect. Executors that were started continue."""
        ...


class DispatcherPlugin(Protocol):
    def open(self, config: RunnerConfig, environment: Mapping[str, str]) -> Dispatcher[Any]:
        """Open a dispatcher for a runner with these settings. Raises Invalid if `config.dispatcher_data` is wrong.

        `environment` is the runner's, without secrets of Terracrew. The runner has opened no file and no connection yet, so a
        process that is started here inherits none. There is a running event loop.
        """
        ...
