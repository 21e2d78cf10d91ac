"""WebSocket handshakes take turns, so that thousands of them at once leave the event loop to other requests.

A handshake costs about a millisecond of the event loop until the credential behind it is checked, which is several times
what a request to `/healthz` costs. Without turns, a request waits for every handshake that arrived before it.
"""

import asyncio
from collections import OrderedDict
from typing import Protocol

MAX_ACTIVE_HANDSHAKES = 8
"""The most handshakes whose credential is checked at once. An ordinary request waits for at most about this many of them."""
MAX_WAITING_HANDSHAKES = 8_000
"""The most handshakes that wait, not counting one of each network. `Connections` limits how many networks there can be."""
MAX_WAITING_PER_NETWORK = 6_000
"""A fleet of 5,000 runners behind one address returns at once after an outage, and must not be refused."""
MAX_TURN_SECONDS = 1.0
"""A turn ends after this time even if its credential is not checked yet: then it waits for the database, not for the loop."""


class Handshake(Protocol):
    """A connection that has asked to become a WebSocket."""

    def begin_handshake(self) -> None:
        """Continue with the handshake. It is this object's turn until `Handshakes.end_turn`."""
        ...


class Handshakes:
    """The handshakes of one server process: a few are active, the others wait, and each client network has equal turns."""

    def __init__(self) -> None:
        self._active: dict[Handshake, asyncio.TimerHandle] = {}
        self._waiting: OrderedDict[str, OrderedDict[Handshake, None]] = OrderedDict()
        self._waiting_total = 0
        self._is_scheduled = False

    def add(self, handshake: Handshake, network: str) -> bool:
        """Let a handshake wait for its turn. Returns False if so many wait already that this one must be refused.

        One handshake of each network may always wait, so that two networks which fill the table do not shut out the others.
        """
        queue = self._waiting.get(network)
        if queue is None:
            queue = self._waiting[network] = OrderedDict()
        elif self._waiting_total >= MAX_WAITING_HANDSHAKES or len(queue) >= MAX_WAITING_PER_NETWORK:
            return False
        queue[handshake] = None
        self._waiting_total += 1
        self._schedule()
        return True

    def remove(self, handshake: Handshake, network: str) -> None:
        """Forget a handshake whose connection was closed while it waited."""
        queue = self._waiting.get(network)
        if queue is None or handshake not in queue:
            return
        del queue[handshake]
        self._waiting_total -= 1
        if not queue:
            del self._waiting[network]

    def end_turn(self, handshake: Handshake) -> None:
        """End the turn of a handshake, so that the next one begins. A second call has no effect."""
        timer = self._active.pop(handshake, None)
        if timer is not None:
            timer.cancel()
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and self._waiting and len(self._active) < MAX_ACTIVE_HANDSHAKES:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._is_scheduled = False
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._active) < MAX_ACTIVE_HANDSHAKES:
            handshake = self._take()
            self._active[handshake] = loop.call_later(MAX_TURN_SECONDS, self.end_turn, handshake)
            handshake.begin_handshake()

    def _take(self) -> Handshake:
        network, queue = self._waiting.popitem(last=False)
        handshake, _ = queue.popitem(last=False)
        self._waiting_total -= 1
        if queue:
            self._waiting[network] = queue  # behind the other networks
        return handshake
