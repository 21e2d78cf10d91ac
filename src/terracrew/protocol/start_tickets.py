"""How a start reaches an executor that gets nothing but a few variables: the runner gives it to the server, and the task fetches it.

The runner makes the ticket. The server keeps its hash, gives the start to the first process that shows the ticket, and refuses
every other one. A process repeats its request with the same claim if the answer was lost.
"""

import secrets
from typing import Annotated

import msgspec

MAX_START_BYTES = 4 << 20
TICKET_HEADER = "X-Ticket-SHA256"
FETCH_PATH = "/runnerhub/starts"
_TICKET_BYTES = 32


class StartWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request of a task for its start."""

    ticket: Annotated[str, msgspec.Meta(max_length=100)]
    claim: Annotated[str, msgspec.Meta(min_length=32, max_length=100)]
    """A random text of the process that asks. The first claim that comes with a ticket is the only one that is answered."""

    def __repr__(self) -> str:
        return "StartWanted(…)"


class StartRevoked(msgspec.Struct, frozen=True):
    """The answer to the end of a ticket. Nobody can fetch the start any more."""

    was_fetched: bool
    """Whether a process has fetched it before. If not, no process of this attempt has begun, and none can."""


def new_ticket() -> str:
    return f"tct_{secrets.token_urlsafe(_TICKET_BYTES)}"


def new_claim() -> str:
    return secrets.token_urlsafe(_TICKET_BYTES)
