"""Fetches the start of a container that was given nothing but a ticket, which is good for one process."""

import os
import time

import msgspec

from terracrew.backoff import Backoff
from terracrew.client import transport
from terracrew.errors import Invalid, TerracrewError, Unauthenticated, Unreachable
from terracrew.executor.delivery import exchange
from terracrew.executor.delivery.exchange import Request
from terracrew.protocol import start
from terracrew.protocol.start import FETCH_PATH, MAX_START_BYTES, ExecutorStart, StartWanted

TICKET_VARIABLE = "TERRACREW_START_TICKET"
FETCH_SECONDS = 300.0
"""How long a server that does not answer is asked."""
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.5, 10.0
_JSON = {"Content-Type": "application/json"}


class TicketRefused(TerracrewError):
    """The server gives the start to nobody with this ticket, or has given it to another process."""

    code = "ticket_refused"


def fetch(server_url: str, max_seconds: float = FETCH_SECONDS) -> bytes:
    """Return the start, and let the server forget it. A request whose answer was lost is repeated with the same claim."""
    shown = os.environ.pop(TICKET_VARIABLE, "")
    if not shown:
        raise Invalid(f"{TICKET_VARIABLE} is not set")
    wanted = msgspec.json.encode(StartWanted(shown, start.new_claim()))
    request = Request("POST", FETCH_PATH.lstrip("/"), wanted, _JSON, max_bytes=MAX_START_BYTES)
    try:
        content = _ask(server_url.rstrip("/"), "", request, time.monotonic() + max_seconds)
    except Unauthenticated as error:
        raise TicketRefused(f"the server refused the ticket of this container: {error.message}") from None
    _forget(server_url.rstrip("/"), content)
    return content


def _forget(server_url: str, content: bytes) -> None:
    """Let the server remove the start. If it does not answer, it removes the start later by itself."""
    granted = msgspec.json.decode(content, type=ExecutorStart).granted
    if granted is None:
        raise Invalid("the start has no job")
    base = f"{server_url}/runnerhub/attempts/{granted.spec.job_id}/{granted.spec.attempt}"
    try:
        _ask(base, granted.credentials.hub, Request("DELETE", "start"), time.monotonic())
    except TerracrewError as error:
        print(f"the server keeps the start of this container until it expires: {error.message}")


def _ask(base: str, credential: str, request: Request, until: float) -> bytes:
    delays = Backoff(_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
    with transport.pool(base) as pool:
        while True:
            try:
                return exchange.ask(pool, base, credential, request).body
            except Unreachable:
                pause = delays.next()
                if time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
