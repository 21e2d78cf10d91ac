"""An executor that is ready before its job (ADR 0064): the zygote forks it while the runner has nothing to start.

It waits in a cgroup of its own, and has its own copy of the memory that it was forked with. It knows of no job and has no directory,
so one that is not needed simply ends. Nothing depends on it: while there is none, an executor is forked when its job comes.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import NamedTuple

from terracrew.attempt.process_record import ProcessRecord
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.zygote_client import Channel, Forked, ZygoteClient
from terracrew.runner.processes import members

log = logging.getLogger(__name__)

_AFTER_END_SECONDS = 0.05
"""How long to wait after the end of an attempt. If jobs are queued, the next one starts before that, and needs the processor."""
_AFTER_START_SECONDS = 1.0
"""How long to wait after the start of an attempt, which may be a short one."""
KEPT_SECONDS = 300.0
"""How long a process waits after the last start or end before it ends, so that a runner without jobs needs no memory for it."""
_END_SECONDS = 5.0
"""How long a process that is not needed has to end. It only has to notice that its channel is closed."""


class _Waiting(NamedTuple):
    channel: Channel
    forked: Forked
    taken: asyncio.Future[None]
    """Done when it runs an attempt."""


class SpareExecutor:
    """At most one process that waits for a job."""

    def __init__(
        self,
        zygote: ZygoteClient,
        make_cgroup: Callable[[], str],
        remove_cgroup: Callable[[str], None],
        *,
        kept_seconds: float = KEPT_SECONDS,
    ) -> None:
        """With 0 for `kept_seconds`, there is none."""
        self._zygote, self._make_cgroup, self._remove_cgroup = zygote, make_cgroup, remove_cgroup
        self._kept_seconds = kept_seconds
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._changed = asyncio.Event()
        self._spare: _Waiting | None = None
        self._forking = asyncio.Lock()
        self._task = self._loop.create_task(self._run())

    def started(self) -> None:
        """Prepare one for the next job when the one that has just begun does not need the processor any more."""
        self._put_off(_AFTER_START_SECONDS)

    def ended(self) -> None:
        self._put_off(_AFTER_END_SECONDS)

    @property
    def process(self) -> ProcessRecord | None:
        """The process that waits, if there is one."""
        return None if self._spare is None else self._spare.forked.process

    def begin(self, start: ExecutorStart) -> Forked | None:
        """Let the process that waits run this attempt. Returns None if there is none: then nothing was started."""
        if (spare := self._spare) is None or spare.forked.exit_code.done():
            return None
        try:
            spare.channel.begin(start)
        except OSError:
            return None  # it has just ended, as `_run` will learn
        self._spare = None
        spare.taken.set_result(None)
        return spare.forked

    def discard(self) -> None:
        """Let the process that waits end."""
        if self._spare is not None:
            self._spare.channel.close()
            self._spare = None

    async def close(self) -> None:
        async with self._forking:  # the process that is being forked has to end, too
            self._task.cancel()
        await asyncio.wait([self._task])

    def _put_off(self, seconds: float) -> None:
        if not self._kept_seconds:
            return
        self._due = self._loop.time() + seconds
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            while self._changed.is_set():
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(self._due):
                        await self._changed.wait()
            try:
                await self._offer()
            except Exception as error:  # an executor is forked when its job comes
                log.warning("no executor could be prepared: %s", error)

    async def _offer(self) -> None:
        """Prepare a process, and return when it was taken, was not needed for a while, or has ended."""
        taken = self._loop.create_future()
        with contextlib.closing(Channel()) as channel:
            cgroup = self._make_cgroup()
            try:
                async with self._forking:
                    forked = await self._zygote.fork_for(channel, cgroup)
                self._spare = _Waiting(channel, forked, taken)
                try:
                    await self._wait_for_job(self._spare)
                finally:
                    self._spare = None
                    channel.close()
                    if not taken.done():
                        await _until_gone(forked)
            finally:
                if not taken.done():
                    self._remove_cgroup(cgroup)

    async def _wait_for_job(self, spare: _Waiting) -> None:
        ends = [spare.taken, spare.forked.exit_code]
        while not any(end.done() for end in ends):
            seconds = self._due + self._kept_seconds - self._loop.time()
            if seconds <= 0:
                self._changed.clear()  # what has ended while this process waited is no reason to prepare another one
                return
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


async def _until_gone(forked: Forked) -> None:
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await members.pidfd_ended(forked.pidfd)
    finally:
        os.close(forked.pidfd)
