"""The requests to stop that this attempt has received: it was canceled, has reached a limit, or was superseded or refused."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

import msgspec

from terracrew.protocol.events import FailureKind
from terracrew.protocol.messages import CancelMode

StopMode = Literal["interrupt", "kill"]


class ReachedLimit(msgspec.Struct, frozen=True):
    """A limit of the job that was reached, so that the job stops and fails."""

    failure_kind: FailureKind
    text: str
    """What was reached, and what was used: `plan reached its time limit of 10 min`."""
    mode: StopMode = "interrupt"
    """The engine is interrupted, so that it can save its state. It is killed if it goes on to use more."""


_STRENGTH: dict[CancelMode, int] = {"after_step": 0, "interrupt": 1, "kill": 2}


class Control:
    """Holds requests to stop. The code that runs steps checks it, and is called when a new request arrives."""

    def __init__(self) -> None:
        self.cancel: CancelMode | None = None
        self.ended_by: str | None = None
        """What asked this process to end, if it was not the server. The job was then not canceled by a request."""
        self.limit: ReachedLimit | None = None
        self.superseded: str | None = None
        self.refused: str | None = None
        self.is_refused_for_now = False
        """Whether this version of the executor cannot deliver the attempt, although a newer one may."""
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_stopping(self) -> bool:
        """Whether nothing new may be started."""
        return any(each is not None for each in (self.cancel, self.ended_by, self.limit, self.superseded, self.refused))

    def stop_mode(self, *, is_mutating: bool) -> StopMode | None:
        """Return how a running engine must be stopped, or None if it may continue.

        The engine of a superseded attempt may finish a mutating step, because stopping it would leave a change half made.
        """
        modes = {self.cancel, self.limit.mode if self.limit else None}
        if "kill" in modes:
            return "kill"
        if "interrupt" in modes:
            return "interrupt"
        if self.ended_by is not None:
            return "interrupt"
        if not is_mutating and (self.superseded is not None or self.refused is not None):
            return "interrupt"
        return None

    def request_cancel(self, mode: CancelMode) -> None:
        if self.cancel is None or _STRENGTH[mode] > _STRENGTH[self.cancel]:
            self.cancel = mode
            self._tell()

    def end(self, reason: str) -> None:
        """Record that something other than the server asked this process to end."""
        if self.ended_by is None:
            self.ended_by = reason
            self._tell()

    def reach(self, limit: ReachedLimit) -> None:
        """Record that a limit was reached. A later one can only change an interrupt to a kill."""
        if self.limit is None or (limit.mode == "kill" and self.limit.mode != "kill"):
            self.limit = limit
            self._tell()

    def supersede(self, reason: str) -> None:
        if self.superseded is None:
            self.superseded = reason
            self._tell()

    def refuse(self, reason: str, *, is_for_now: bool = False) -> None:
        """Record that the server will never accept anything from this attempt again, or not from this version of the executor."""
        if self.refused is None:
            self.refused, self.is_refused_for_now = reason, is_for_now
            self._tell()

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Generator[None]:
        """Call the listener now and whenever a new request arrives."""
        self._listeners.append(listener)
        try:
            listener()
            yield
        finally:
            self._listeners.remove(listener)

    async def stopping(self) -> None:
        """Return when nothing new may be started."""
        asked = asyncio.Event()
        with self.listening(lambda: asked.set() if self.is_stopping else None):
            await asked.wait()

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
