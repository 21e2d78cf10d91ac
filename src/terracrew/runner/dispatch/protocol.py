"""The interface of a dispatcher: how the runner starts, finds, follows and stops executors."""

from pathlib import Path
from typing import Protocol, TypeVar

from terracrew.errors import TerracrewError
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart


class NotStarted(TerracrewError):
    """No process of this attempt existed, and none will, so the attempt may be handed back."""

    code = "not_started"


H = TypeVar("H")


class Dispatcher(Protocol[H]):
    """`H` is the dispatcher's own handle on what it started or adopted."""

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
