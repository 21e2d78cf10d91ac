"""Stopping in two speeds: first finish what runs, then leave at once (the executors go on without us)."""

import asyncio


class Stop:
    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self.leave = asyncio.Event()

    def request(self) -> None:
        """What a signal means: the first one drains, the next one leaves."""
        if self.drain.is_set():
            self.leave.set()
        self.drain.set()

    def leave_now(self) -> None:
        self.drain.set()
        self.leave.set()
