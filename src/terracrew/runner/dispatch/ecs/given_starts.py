"""Gives the start of an attempt to the server, and takes it back. The task gets the ticket (`protocol/start.py`)."""

import asyncio
import hashlib
import logging
import time
from pathlib import Path

import msgspec

from terracrew.attempt import record
from terracrew.backoff import Backoff
from terracrew.client import transport
from terracrew.errors import TerracrewError, Unreachable
from terracrew.executor.delivery import exchange
from terracrew.executor.delivery.exchange import Request
from terracrew.protocol.start import TICKET_HEADER, ExecutorStart, StartRevoked
from terracrew.runner.dispatch.protocol import NotStarted

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 30.0
_NAME = "start"


class GivenStarts:
    def __init__(self, server_url: str) -> None:
        """`server_url` is the server's address as the runner sees it; empty means that of the attempts' records."""
        self._server_url = server_url

    async def give(self, directory: Path, start: ExecutorStart, ticket: str, max_seconds: float) -> None:
        """Store a start. Raises NotStarted if the server does not take it."""
        digest = hashlib.sha256(ticket.encode()).hexdigest()
        headers = {"Content-Type": "application/octet-stream", TICKET_HEADER: digest}
        until = time.monotonic() + max_seconds
        try:
            await self._ask(directory, Request("PUT", _NAME, msgspec.json.encode(start), headers), until)
        except TerracrewError as error:
            raise NotStarted(f"the server did not take the start of the task: {error.message}") from None

    async def take_back(self, directory: Path) -> bool:
        """End the ticket of an attempt. Returns whether a process has used it. Without an answer of the server it waits.

        If none has, no process of the attempt has begun, and none can. A server that does not accept the credential of the
        attempt any more has ended it, so that a process may have begun.
        """
        try:
            body = await self._ask(directory, Request("DELETE", _NAME), float("inf"))
        except TerracrewError as error:
            log.info("the start of %s cannot be taken back: %s", directory.name, error.message)
            return True
        return msgspec.json.decode(body, type=StartRevoked).was_fetched

    async def _ask(self, directory: Path, request: Request, until: float) -> bytes:
        found = record.find(directory)
        if found is None:
            raise NotStarted(f"{directory} has no record that can be read")
        url = (self._server_url or found.server_url).rstrip("/")
        base = f"{url}/runnerhub/attempts/{found.job_id}/{found.attempt}"
        delays = Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
        with transport.pool(base) as pool:
            while True:
                try:
                    return (await asyncio.to_thread(exchange.ask, pool, base, found.hub, request)).body
                except Unreachable:
                    pause = delays.next()
                    if time.monotonic() + pause > until:
                        raise
                await asyncio.sleep(pause)
