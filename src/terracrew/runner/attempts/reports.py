"""What the server has yet to acknowledge: hand-backs and journal entries, said again until they are."""

import asyncio
import contextlib
from collections.abc import Callable

from terracrew.protocol.messages import AttemptRef, Gone, HandBack

Report = HandBack | Gone
AGAIN_SECONDS = 10.0


class Reports:
    def __init__(self) -> None:
        self.send: Callable[[Report], None] = lambda _: None
        """Set by the connection; says nothing while there is none."""
        self._waiting: dict[AttemptRef, tuple[Report, asyncio.Event]] = {}
        self._is_closed = False

    async def deliver(self, report: Report) -> None:
        """Return when the server has taken it in, or never will."""
        ref, settled = AttemptRef(report.job_id, report.attempt), asyncio.Event()
        self._waiting[ref] = report, settled
        try:
            while not (settled.is_set() or self._is_closed):
                self.send(report)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_SECONDS):
                        await settled.wait()
        finally:
            del self._waiting[ref]

    def repeat(self) -> None:
        """On a new connection: say everything that is still open."""
        for report, _ in self._waiting.values():
            self.send(report)

    def close(self) -> None:
        """This runner was removed: nobody takes its word any more. What its attempts left is delivered all the same."""
        self._is_closed = True
        for _, settled in self._waiting.values():
            settled.set()

    def settled(self, ref: AttemptRef) -> None:
        if ref in self._waiting:
            self._waiting[ref][1].set()
