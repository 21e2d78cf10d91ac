"""Reports that the server has not acknowledged yet, repeated until it does: hand-backs and reports that an attempt is gone."""

import asyncio
import contextlib
from collections.abc import Callable

from terracrew.protocol.messages import AttemptRef, Gone, HandBack

Report = HandBack | Gone
REPEAT_SECONDS = 10.0


class Reports:
    def __init__(self) -> None:
        self.send: Callable[[Report], None] = lambda _: None
        """Sends a report, or drops it while there is no connection. The connection sets this."""
        self._waiting: dict[AttemptRef, tuple[Report, asyncio.Event]] = {}
        self._is_closed = False

    async def deliver(self, report: Report) -> None:
        """Return when the server has acknowledged the report, or after `close`, because no server will acknowledge it then."""
        ref, settled = AttemptRef(report.job_id, report.attempt), asyncio.Event()
        self._waiting[ref] = report, settled
        try:
            while not (settled.is_set() or self._is_closed):
                self.send(report)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REPEAT_SECONDS):
                        await settled.wait()
        finally:
            del self._waiting[ref]

    def repeat(self) -> None:
        """Send every unacknowledged report again. A new connection calls this."""
        for report, _ in self._waiting.values():
            self.send(report)

    def close(self) -> None:
        """Stop waiting: this runner was removed, so the server accepts no report from it. Its attempts still deliver."""
        self._is_closed = True
        for _, settled in self._waiting.values():
            settled.set()

    def settled(self, ref: AttemptRef) -> None:
        if ref in self._waiting:
            self._waiting[ref][1].set()
