"""What the connections of runners need of a running server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from terracrew.server.connections.heartbeats import Heartbeats
from terracrew.server.db.seam import Row
from terracrew.server.hub.context import ConnectionContext
from terracrew.server.hub.runners.grants import Grants
from terracrew.server.hub.runners.model import Places
from terracrew.server.identity.context import Identity
from terracrew.server.scheduling.scheduler import Scheduler


@dataclass(frozen=True)
class RunnerContext(ConnectionContext):
    identity: Identity
    scheduler: Scheduler
    grants: Grants
    heartbeats: Heartbeats
    places: Places
    session_row: Callable[[str], Awaitable[Row | None]]
    """Reads what the rows of an instance and of its runner say now."""
