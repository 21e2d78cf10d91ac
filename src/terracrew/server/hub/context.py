"""What the hub needs of a running server: one context for the WebSocket, a smaller one for what goes by HTTP."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from terracrew.server.connections.heartbeats import Heartbeats
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.http import request
from terracrew.server.hub.runners.grants import Archives
from terracrew.server.identity.context import Identity
from terracrew.server.jobs.attempts.claims import Claims
from terracrew.server.jobs.attempts.ingest import Ingest
from terracrew.server.objects import Objects
from terracrew.server.runs.follow import Watchers
from terracrew.server.scheduling.scheduler import Scheduler
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.supervise import Tasks
from terracrew.server.uploads.service import Staging


@dataclass(frozen=True)
class HubContext:
    id: str
    """The id of this server: it says who holds a connection."""
    db: Database
    objects: Objects
    keys: Keyring
    identity: Identity
    registry: Registry
    scheduler: Scheduler
    claim: Claims
    ingest: Ingest
    heartbeats: Heartbeats
    archives: Archives
    watchers: Watchers
    tasks: Tasks
    closing: asyncio.Event


@dataclass(frozen=True)
class TransferContext:
    db: Database
    objects: Objects
    keys: Keyring
    identity: Identity
    staging: Staging
    folder: Path
    """Where a body is written while it arrives."""
    late_delivery: timedelta
    """How long after its end an attempt may still deliver."""


class TransferCall(request.Call):
    @property
    def context(self) -> TransferContext:
        return self.app.state.transfer
