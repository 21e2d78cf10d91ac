"""Ends a runner that had nothing to do for a while, if the server agrees, and one that is old or was retired, after its last job.

A runner that ended by itself while a job is on its way to it would lose the job's time. So it asks, and stays until the server has
answered on the same connection that it gives it no job any more.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Protocol

from terracrew.runner import departure as departures
from terracrew.runner.attempts.slots import Slots
from terracrew.runner.attempts.supervisor import AttemptSupervisor
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Stop
from terracrew.wording.durations import duration

_MIN_LOOK_SECONDS, _MAX_LOOK_SECONDS = 0.05, 2.0
_LOOKS_PER_IDLE_TIME_COUNT = 20
_RETIRED_SECONDS = 1.0
"""How often a runner that was retired asks to leave when it has no job."""
log = logging.getLogger(__name__)


class LeaveConnection(Protocol):
    """The connection to the server, as far as leaving needs it."""

    on_leave_answer: Callable[[bool, str], None]
    on_retire: Callable[[str], None]

    @property
    def is_welcome(self) -> bool: ...
    @property
    def is_on_trial(self) -> bool: ...
    def ask_to_leave(self, idle_seconds: float) -> None: ...


class Lifetime:
    def __init__(
        self,
        config: RunnerConfig,
        stop: Stop,
        connection: LeaveConnection,
        slots: Slots,
        is_idle: Callable[[], bool],
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`is_idle` says whether the runner has no attempt, also none that still delivers."""
        self._config, self._stop, self._connection = config, stop, connection
        self._slots, self._is_idle = slots, is_idle
        self._clock = clock or asyncio.get_running_loop().time
        self._started_at = self._used_at = self._asked_at = self._clock()
        self._taken = slots.taken
        self._was_welcome = False
        self._retired = asyncio.Event()
        connection.on_leave_answer = self._answered
        connection.on_retire = self._retire

    async def run(self) -> None:
        if not (self._config.idle_seconds or self._config.max_lifetime_seconds):
            await self._retired.wait()
        while not self._stop.drain.is_set():
            self.step()
            pause = min(self._config.idle_seconds or _MAX_LOOK_SECONDS, self._config.max_lifetime_seconds or 1e9)
            await asyncio.sleep(min(max(pause / _LOOKS_PER_IDLE_TIME_COUNT, _MIN_LOOK_SECONDS), _MAX_LOOK_SECONDS))

    def step(self) -> None:
        """Ask to leave if there was nothing to do for the idle time, and take no more jobs at the end of the lifetime."""
        now, config = self._clock(), self._config
        if config.max_lifetime_seconds and now - self._started_at >= config.max_lifetime_seconds:
            log.info("taking no more jobs: this runner is %s old", duration(now - self._started_at))
            self._stop.end_when_idle("the end of its lifetime")
            return
        is_used = not self._is_idle() or self._slots.taken != self._taken
        is_used = is_used or self._connection.is_on_trial
        self._taken = self._slots.taken
        is_new = self._connection.is_welcome and not self._was_welcome
        self._was_welcome = self._connection.is_welcome
        if is_used or is_new:  # after an interruption, jobs that waited for it may come
            self._used_at = self._asked_at = now
        elif self._idle_seconds and self._was_welcome and now - self._asked_at >= self._idle_seconds:
            self._asked_at = now  # if it is refused, or not answered, it asks again after another idle time
            self._connection.ask_to_leave(now - self._used_at)

    @property
    def _idle_seconds(self) -> float:
        """After how long without a job it asks to leave; 0: it does not."""
        idle = self._config.idle_seconds
        return min(idle, _RETIRED_SECONDS) if self._retired.is_set() else idle

    def _retire(self, reason: str) -> None:
        """End after the last job. A runner that may ask to leave does so, because a job may be on its way to it."""
        if self._retired.is_set():
            return
        log.info("taking no more jobs: %s", reason)
        self._retired.set()
        self._asked_at = float("-inf")
        if not self._config.idle_seconds:
            self._stop.end_when_idle(reason)

    def _answered(self, is_granted: bool, reason: str) -> None:
        if not is_granted:
            log.debug("this runner stays: %s", reason)
            return
        idle = duration(self._clock() - self._used_at)
        log.info("leaving: there was no job for %s, and the server gives it none", idle)
        self._stop.end_when_idle()


_POLL_SECONDS = 0.25
"""How often the time is looked at while an end is announced. A timer would not notice that the clock was set."""


class Interruption:
    def __init__(self, stop: Stop, supervisor: AttemptSupervisor, stop_seconds: float | None) -> None:
        self._stop, self._supervisor, self._stop_seconds = stop, supervisor, stop_seconds

    async def run(self) -> None:
        announced = self._stop.departures
        while True:
            has_end = announced.current is not None and announced.current.ends_at is not None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS if has_end else None):
                    await announced.changed.wait()
            announced.changed.clear()
            self.step(time.time())

    def step(self, now: float) -> None:
        """Interrupt attempts if it is time for that. One that has no process yet is interrupted as soon as it has one."""
        departure = self._stop.departures.current
        if departure is None:
            return
        at = departures.interrupt_at(departure, self._stop_seconds)
        if self._stop.is_hurried or (at is not None and at <= now):
            self._supervisor.interrupt_all(departure)
