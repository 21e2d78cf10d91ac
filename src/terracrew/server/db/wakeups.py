"""Delivers wake-ups inside this process. Each listener has its topics, and repeated wake-ups of one key are merged."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import contextmanager
from typing import TypeAlias

from terracrew.errors import Unavailable

Wake: TypeAlias = tuple[str, str]
MAX_PENDING_WAKEUPS = 10_000
"""A subscription with more unread wake-ups than this remembers only their topics, and its reader reads everything again."""


class Listener:
    """A subscription. It holds each wake-up once until it is read, and a bounded number of them."""

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self._pending: set[Wake] = set()
        self._came = asyncio.Event()
        self._closed = False

    def add(self, wake: Wake) -> None:
        self._pending.add(wake)
        if len(self._pending) > MAX_PENDING_WAKEUPS:
            self._pending = {(topic, "") for topic, _ in self._pending}
        self._came.set()

    def has(self, topic: str) -> bool:
        """Return whether a wake-up of this topic waits to be read."""
        return any(pending == topic for pending, _ in self._pending)

    def close(self) -> None:
        self._closed = True
        self._came.set()

    async def get(self, timeout: float | None = None) -> set[Wake]:
        """Wait for a wake-up and return all (topic, key) since the last call; the set is empty when the time is up."""
        try:
            async with asyncio.timeout(timeout):
                while not self._pending:
                    if self._closed:
                        raise Unavailable("the database is closed")
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            return set()
        pending, self._pending = self._pending, set()
        return pending

    async def __aiter__(self) -> AsyncIterator[Wake]:
        while self._pending or not self._closed:
            try:
                for wake in await self.get():
                    yield wake
            except Unavailable:
                return


class WakeupBus:
    """All listeners of this process. It is used on the event loop's thread only, so it needs no lock."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[Listener]] = {}
        self._closed = False

    @contextmanager
    def listen(self, *topics: str) -> Generator[Listener]:
        listener = Listener(frozenset(topics))
        if self._closed:
            listener.close()
        for topic in listener.topics:
            self._listeners.setdefault(topic, set()).add(listener)
        try:
            yield listener
        finally:
            for topic in listener.topics:
                self._listeners[topic].discard(listener)
                if not self._listeners[topic]:
                    del self._listeners[topic]

    def publish(self, wakes: Iterable[Wake]) -> None:
        for wake in wakes:
            for listener in self._listeners.get(wake[0], ()):
                listener.add(wake)

    def wake_all(self) -> None:
        """Wake every listener for all keys, because wake-ups may have been lost."""
        self.publish([(topic, "") for topic in self._listeners])

    def close(self) -> None:
        """End every listener: an iteration stops, and a `get()` raises Unavailable."""
        self._closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()
