"""Remembers since when executors run and where they have to connect to. Only the server knows whether they have."""

from collections.abc import Mapping

from terracrew.protocol.messages import AttemptRef, WaitingStart

CONNECT_SECONDS = 20.0
"""An executor usually connects within this time. After it, the server is told of the executor, and says so if it has not connected."""


class StartedExecutors:
    """It does no I/O, and time is a parameter (monotonic seconds)."""

    def __init__(self) -> None:
        self._server_urls: dict[AttemptRef, str] = {}
        self._since: dict[AttemptRef, float] = {}

    def connect_to(self, ref: AttemptRef, server_url: str) -> None:
        """Note the server's address as the executor of an attempt is given it."""
        self._server_urls[ref] = server_url

    def forget(self, ref: AttemptRef) -> None:
        self._server_urls.pop(ref, None)

    def starts(self, waiting: Mapping[AttemptRef, str], now: float) -> list[WaitingStart]:
        """Return what the server is told. `waiting` has what the start of each attempt waits for; '' if there is a process."""
        self._since = {ref: self._since.get(ref, now) for ref, reason in waiting.items() if not reason}
        found = [WaitingStart(ref.job_id, ref.attempt, reason) for ref, reason in waiting.items() if reason]
        for ref, since in self._since.items():
            if now - since >= CONNECT_SECONDS and (url := self._server_urls.get(ref)):
                text = f"its executor runs, but has not connected: can it reach {url}?"
                found.append(WaitingStart(ref.job_id, ref.attempt, text, now - since))
        return found
