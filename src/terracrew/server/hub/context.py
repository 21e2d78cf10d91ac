"""What all connections of the hub need of a running server. The contexts of runners and executors add to it."""

import asyncio
from dataclasses import dataclass

from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.history.points import History
from terracrew.server.supervise import Tasks


@dataclass(frozen=True)
class ConnectionContext:
    server_id: str
    """It says which server holds a connection."""
    db: Database
    registry: Registry
    history: History
    tasks: Tasks
    closing: asyncio.Event
    """Set when the server begins to stop."""
