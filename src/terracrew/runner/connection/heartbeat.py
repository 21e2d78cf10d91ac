"""The heartbeat: tells the server every few seconds which attempts this runner has and whether it is draining."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import NamedTuple

from terracrew import __version__
from terracrew.protocol.messages import Heartbeat
from terracrew.runner.attempts.supervisor import AttemptSupervisor

log = logging.getLogger(__name__)


class DrainState(NamedTuple):
    """Whether this runner takes no new jobs, whether a full disk is the reason, and otherwise what is known of its end."""

    is_draining: bool
    is_disk_full: bool
    reason: str = ""
    ends_at: float | None = None


class HeartbeatLoop:
    def __init__(
        self,
        supervisor: AttemptSupervisor,
        drain_state: Callable[[], DrainState],
        send: Callable[[Heartbeat], None],
        interval_seconds: float,
    ) -> None:
        self._supervisor, self._drain_state, self._send = supervisor, drain_state, send
        self.interval_seconds = interval_seconds
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Send the next heartbeat now, because something changed that the server should know soon."""
        self._wake.set()

    def step(self) -> None:
        attempts = self._supervisor.refs
        drain = self._drain_state()
        starting = self._supervisor.starting
        self._send(
            Heartbeat(
                __version__, drain.is_draining, attempts, drain.is_disk_full, starting, drain.reason, drain.ends_at
            )
        )
        log.debug("a heartbeat that names %d attempts", len(attempts))

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.interval_seconds):
                    await self._wake.wait()
            self._wake.clear()
            self.step()
