"""What every way of starting executors offers to the runner."""

from pathlib import Path
from typing import Protocol, TypeVar

from terracrew.errors import TerracrewError
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart


class NotStarted(TerracrewError):
    """No process of this attempt ever existed, and none will: it may be handed back."""

    code = "not_started"


H = TypeVar("H")


class Dispatcher(Protocol[H]):
    """`H` is the dispatcher's own handle on what it started or adopted."""

    async def start(self, start: ExecutorStart) -> H:
        """Start an executor, or raise NotStarted. It signs its directory itself, before it does anything else."""
        ...

    def adopt(self, directory: Path) -> H:
        """Take over what was started before, dead or alive, or raise NotStarted."""
        ...

    async def watch(self, handle: H) -> int | None:
        """Return when everything of it is gone: the exit code, where it is known."""
        ...

    async def stop(self, handle: H, mode: CancelMode) -> None:
        """Ask it to end in this way; `watch` tells when it has."""
        ...

    async def close(self) -> None:
        """Disconnect. Executors that were started continue."""
        ...
