"""The dispatchers of a runner: which of them starts a job's executor, and which one has started an earlier attempt.

A job asks for a dispatcher by its name or type, and may ask for an image, memory, processors and a service account. The
allow-list of the dispatcher is checked here as well, because the runner does not trust the server with it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from terracrew import plugins
from terracrew.attempt import delivered, files
from terracrew.errors import Invalid
from terracrew.protocol import dispatcher_choice
from terracrew.protocol.dispatcher_choice import DEFAULT, AllowedChoices, DispatcherChoice, OfferedDispatcher
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Ending
from terracrew.runner.dispatch.protocol import (
    AttemptEnd,
    Dispatcher,
    DispatcherPlugin,
    EndsWithRunner,
    ExplainsStarts,
    NotStarted,
    of_another,
)
from terracrew.system import durable

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 300.0


class OpenedDispatcher(msgspec.Struct, frozen=True):
    name: str
    type: str
    dispatcher: Dispatcher[Any]
    allows: AllowedChoices = AllowedChoices()
    executor_server_url: str = ""
    """The server's address as its executors see it; empty if it is the same."""

    @property
    def offer(self) -> OfferedDispatcher:
        return OfferedDispatcher(self.name, self.type, self.allows)

    @property
    def mark(self) -> bytes:
        """What the file `dispatcher` of an attempt holds that it has started."""
        return f"{self.name} {self.type}".encode()


class RoutedHandle(msgspec.Struct):
    dispatcher: Dispatcher[Any]
    handle: Any


class Dispatchers:
    """All dispatchers of a runner behind the interface of one. The first of them is the default one."""

    def __init__(self, opened: Sequence[OpenedDispatcher]) -> None:
        self._opened = list(opened)
        self.place = _Places(self)

    @classmethod
    def only(cls, dispatcher: Dispatcher[Any], name_of_type: str = "local") -> "Dispatchers":
        """Return those of a runner that has just one."""
        return cls([OpenedDispatcher(DEFAULT, name_of_type, dispatcher)])

    @property
    def opened(self) -> Sequence[OpenedDispatcher]:
        return self._opened

    def use_instance(self, key: str) -> None:
        for each in self._opened:
            # Two dispatchers of one type, say on one daemon, must not take what the other has started for leftovers.
            each.dispatcher.use_instance(key if each.name == DEFAULT else f"{key}.{each.name}")

    def chosen(self, choice: DispatcherChoice) -> OpenedDispatcher:
        """Return the dispatcher that a job gets. Raises NotStarted if the job may not have what it asks for."""
        offers = [each.offer for each in self._opened]
        if (found := dispatcher_choice.find(choice, offers)) is not None:
            return next(each for each in self._opened if each.name == found.name)
        named = dispatcher_choice.named(choice.name, offers)
        if not named:
            raise NotStarted(
                f"this runner has no dispatcher {choice.name}; it has {', '.join(each.name for each in offers)}"
            )
        words = "; ".join(dispatcher_choice.objections(choice, named[0].allows))
        raise NotStarted(f"the dispatcher {named[0].name} of this runner does not allow {words}")

    async def start(self, start: ExecutorStart) -> RoutedHandle:
        directory = Path(start.directory)
        if start.is_salvage:
            dispatcher = self.of(directory)
        else:
            opened = self.chosen(start.choice)
            dispatcher = opened.dispatcher
            if opened.name != DEFAULT:
                # From here on a process may exist, and only this dispatcher can find it.
                durable.write(directory / files.DISPATCHER, opened.mark)
        return RoutedHandle(dispatcher, await dispatcher.start(start))

    def adopt(self, directory: Path) -> RoutedHandle:
        dispatcher = self.of(directory)
        return RoutedHandle(dispatcher, dispatcher.adopt(directory))

    async def watch(self, handle: RoutedHandle) -> AttemptEnd:
        return await handle.dispatcher.watch(handle.handle)

    def waits_for(self, handle: RoutedHandle) -> str:
        return handle.dispatcher.waits_for(handle.handle) if isinstance(handle.dispatcher, ExplainsStarts) else ""

    def survives(self, ending: Ending, handle: RoutedHandle | None = None) -> bool:
        """Return whether an executor outlives the end of the runner's container or machine. Without a handle, one of the default
        dispatcher is meant."""
        dispatcher = handle.dispatcher if handle else self._opened[0].dispatcher
        ends_with = dispatcher.ends_with if isinstance(dispatcher, EndsWithRunner) else None
        return ends_with is None or (ends_with == "machine" and ending == "runner")

    async def stop(self, handle: RoutedHandle, mode: CancelMode) -> None:
        await handle.dispatcher.stop(handle.handle, mode)

    async def close(self) -> None:
        for each in self._opened:
            await each.dispatcher.close()

    def of(self, directory: Path) -> Dispatcher[Any]:
        """Return the dispatcher that started an attempt. Raises Conflict if the runner does not have it any more."""
        default = self._opened[0].dispatcher
        try:
            mark = (directory / files.DISPATCHER).read_bytes()
        except FileNotFoundError:
            return default
        if (found := next((each for each in self._opened if each.mark == mark), None)) is not None:
            return found.dispatcher
        if delivered.is_done(directory):  # nothing of it is needed any more, so any dispatcher may clear up
            return default
        raise of_another(directory)


class _Places:
    """Where the directories of attempts are: for each of them, the place of the dispatcher that started it."""

    def __init__(self, dispatchers: Dispatchers) -> None:
        self._dispatchers = dispatchers

    async def retrieve(self, directory: Path, /) -> None:
        await self._dispatchers.of(directory).place.retrieve(directory)

    async def remove(self, directory: Path, /) -> None:
        await self._dispatchers.of(directory).place.remove(directory)

    async def sweep(self, kept: Callable[[], Collection[Path]], /) -> None:
        for each in self._dispatchers.opened:
            try:
                async with asyncio.timeout(_SWEEP_SECONDS):
                    await each.dispatcher.place.sweep(kept)
            except Exception as error:  # one that does not answer must not keep the others from being swept
                log.warning("leftovers of the dispatcher %s are removed later: %s", each.name, error or "no answer")


def open_dispatcher(config: RunnerConfig, environment: Mapping[str, str]) -> Dispatcher[Any]:
    """Open the default dispatcher. Raises Invalid if no package provides the dispatcher, or if it cannot use its settings."""
    plugin = cast("DispatcherPlugin", plugins.load(plugins.DISPATCHERS, config.dispatcher))
    return plugin.open(config, environment)


async def open_all(config: RunnerConfig, environment: Mapping[str, str]) -> Dispatchers:
    """Open the default dispatcher, and those that jobs may ask for by their names."""
    opened = [
        OpenedDispatcher(DEFAULT, config.dispatcher, open_dispatcher(config, environment), config.dispatcher_allows)
    ]
    try:
        for each in config.named_dispatchers:
            own = msgspec.structs.replace(
                config,
                # Two dispatchers of one instance would take what the other one started for that of an earlier process.
                instance=f"{config.instance}.{each.name}",
                dispatcher=each.type,
                dispatcher_data=each.data,
                executor_server_url=each.executor_server_url or config.executor_server_url,
            )
            try:
                dispatcher = open_dispatcher(own, environment)
            except Invalid as error:
                raise Invalid(f"job_dispatchers.{each.name}: {error.message}") from error
            opened.append(OpenedDispatcher(each.name, each.type, dispatcher, each.allows, own.executor_server_url))
    except BaseException:
        await Dispatchers(opened).close()
        raise
    return Dispatchers(opened)
