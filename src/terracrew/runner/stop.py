"""Stopping a runner has two speeds: drain until the attempts have ended, or exit at once and let the executors continue."""

import asyncio


class Stop:
    def __init__(self) -> None:
        self.drain = asyncio.Event()
        """The runner claims no more jobs and ends when its attempts have ended."""
        self.exit = asyncio.Event()
        """The runner ends at once. Its executors continue, and the next runner process finds them."""

    def request(self) -> None:
        """Handle a signal: the first one drains, the second one exits."""
        if self.drain.is_set():
            self.exit.set()
        self.drain.set()

    def exit_now(self) -> None:
        self.drain.set()
        self.exit.set()
