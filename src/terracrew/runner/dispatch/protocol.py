"""The interface of a dispatcher: how the runner starts, finds, follows and stops executors.

A `DispatcherPlugin` is registered under its name (see `terracrew.plugins`), and the setting `job_dispatcher.type` chooses one.
`terracrew.testing.dispatcher_contract` tests a dispatcher.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from terracrew.errors import Conflict, TerracrewError
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Ending


class AttemptPlace(Protocol):
    async def retrieve(self, directory: Path, /) -> None:
        """Copy everything that an ended attempt left into its directory on the runner's disk, for a person to look at."""
        ...

    async def remove(self, directory: Path, /) -> None:
        """Remove what is kept elsewhere for an ended attempt. The runner removes its own directory afterwards."""
        ...

    async def sweep(self, kept: Callable[[], Collection[Path]], /) -> None:
        """Remove what earlier processes of this instance left for attempts whose directory is not among these."""
        ...


class RunnerDisk:
    """The place of executors that use the runner's own directories, which the runner removes itself."""

    async def retrieve(self, _directory: Path, /) -> None:
        return

    async def remove(self, _directory: Path, /) -> None:
        return

    async def sweep(self, _kept: Callable[[], Collection[Path]], /) -> None:
        return


class NotStarted(TerracrewError):
    """No process of this attempt existed, and none will, so the attempt may be handed back."""

    code = "not_started"


def of_another(directory: Path) -> Conflict:
    """Return the error of an attempt that cannot be followed here. The runner keeps its directory, and tries again."""
    return Conflict(
        f"{directory} is of an attempt that another dispatcher started: keep that one in the settings until it has ended"
    )


class AttemptEnd(msgspec.Struct, frozen=True):
    """How an attempt ended that has no process any more."""

    code: int | None
    """The executor's exit code; a negative number is the signal that ended it, and None means that the code is unknown.
    `NOTHING_LEFT` means that what the executor left cannot be reached and will not be."""
    reason: str = ""
    """What people are told of the end, if the dispatcher knows more than the code."""


H = TypeVar("H")


class Dispatcher(Protocol[H]):
    """`H` is the dispatcher's own handle on what it started or adopted."""

    @property
    def place(self) -> AttemptPlace:
        """Where the directories of attempts are."""
        ...

    def use_instance(self, key: str) -> None:
        """Set the key of the instance whose only process this is. The runner calls this once, before every other method.

        Several runners can share a machine or a cluster: a dispatcher marks what it starts with the key, and finds only that.
        """
        ...

    async def engines(self) -> Mapping[str, list[str]] | None:
        """Return the engines that executors have, each with its versions, the default one first.

        Returns None if they are those of this machine. The runner announces them to the server whenever it connects.
        """
        ...

    async def start(self, start: ExecutorStart) -> H:
        """Start an executor, or raise NotStarted. The executor locks and signs its directory itself.

        `start.choice` has what the job asks for besides the dispatcher: `image`, `memory_mb`, `cpu` and `service_account`. The
        runner has checked it against the allow-list of its settings, and the dispatcher applies it instead of its own settings.

        It may return before there is a process, so that `stop` can be called while an image is pulled; `watch` raises
        NotStarted if there will be none.
        """
        ...

    def adopt(self, directory: Path) -> H:
        """Find what an earlier process started on this directory, dead or alive, or raise NotStarted.

        A dispatcher that has to ask for it returns a handle, and `watch` raises NotStarted. What another dispatcher started may
        still run: that is a Conflict (`of_another`).
        """
        ...

    async def watch(self, handle: H) -> AttemptEnd:
        """Return when every process of the attempt has ended, or raise NotStarted if there never was one.

        By then the attempt's directory on the runner's disk has the files `pid`, `done` and `refused` of the executor, wherever
        the executor wrote them. A dispatcher that gets no answer waits: unknown is not gone.
        """
        ...

    async def stop(self, handle: H, mode: CancelMode) -> None:
        """Request the end of the attempt. `watch` returns when it has ended."""
        ...

    async def close(self) -> None:
        """Disconnect. Executors that were started continue."""
        ...


@runtime_checkable
class ExplainsStarts(Protocol):
    """A dispatcher whose starts can take long, because an image is pulled or nothing has room for them."""

    def waits_for(self, handle: Any) -> str:
        """Return what the start of an attempt waits for, in words that people read; '' if it waits for nothing."""
        ...


@runtime_checkable
class EndsWithRunner(Protocol):
    """A dispatcher whose executors do not survive the end of the runner's container (`runner`) or machine (`machine`)."""

    @property
    def ends_with(self) -> Ending | None:
        """Return what its executors end with; None if they survive both after all."""
        ...


class DispatcherPlugin(Protocol):
    def open(self, config: RunnerConfig, environment: Mapping[str, str]) -> Dispatcher[Any]:
        """Open a dispatcher for a runner with these settings. Raises Invalid if `config.dispatcher_data` is wrong.

        `environment` is the runner's, without secrets of Terracrew. The runner has opened no file and no connection yet, so a
        process that is started here inherits none. There is a running event loop.
        """
        ...
