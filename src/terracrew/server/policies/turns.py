"""Lets few run at a time. Organizations that wait take turns, so that none waits for everything that another one wants."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator


class Turns:
    def __init__(self, count: int, wait_seconds: float) -> None:
        self._free, self._wait_seconds = count, wait_seconds
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Those that wait, by organization. The first organization is the next one."""

    @contextlib.asynccontextmanager
    async def turn(self, organization_id: str) -> AsyncGenerator[None]:
        """Raises TimeoutError if there is no turn in time."""
        await self._wait(organization_id)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, organization_id: str) -> None:
        if self._free:
            self._free -= 1
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(organization_id, deque()).append(granted)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await granted
        except (TimeoutError, asyncio.CancelledError):
            if not granted.cancelled():  # the turn came at this moment
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give the turn to the first of the next organization, which then waits behind the others."""
        while self._waiting:
            organization_id = next(iter(self._waiting))
            line = self._waiting.pop(organization_id)
            granted = line.popleft()
            if line:
                self._waiting[organization_id] = line
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1
