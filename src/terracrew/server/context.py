"""Everything that the rooms of a running server share, made once by `app.build` and passed down."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from terracrew.server.api.operations import Counts
from terracrew.server.db.seam import Database
from terracrew.server.http.streams import Streams
from terracrew.server.objects import Objects
from terracrew.server.readiness import Readiness
from terracrew.server.runs.reasons import Watch
from terracrew.server.settings import ServerSettings
from terracrew.server.uploads.service import Staging

if TYPE_CHECKING:  # their rooms import this one
    from terracrew.server.api.metrics.gauges import Gauges
    from terracrew.server.connections.heartbeats import Heartbeats
    from terracrew.server.connections.registry import Registry
    from terracrew.server.hub.grants import Archives
    from terracrew.server.identity.context import Identity
    from terracrew.server.jobs.claims import Claims
    from terracrew.server.jobs.create import Create
    from terracrew.server.jobs.ingest import Ingest
    from terracrew.server.retention.surveys import Surveys
    from terracrew.server.runs.follow import Watchers
    from terracrew.server.scheduling.scheduler import Scheduler
    from terracrew.server.secrets.keyring import Keyring
    from terracrew.server.supervise import Tasks


@dataclass(frozen=True)
class Server:
    id: str
    settings: ServerSettings
    organization_id: str
    db: Database
    objects: Objects
    keys: "Keyring"
    identity: "Identity"
    registry: "Registry"
    scheduler: "Scheduler"
    claim: "Claims"
    ingest: "Ingest"
    create_job: "Create"
    heartbeats: "Heartbeats"
    archives: "Archives"
    watchers: "Watchers"
    streams: Streams
    tasks: "Tasks"
    counts: Counts = field(default_factory=Counts)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server begins to stop. A stream that never ends by itself ends when it sees this."""

    @cached_property
    def gauges(self) -> "Gauges":
        from terracrew.server.api.metrics.gauges import Gauges

        return Gauges(self.db, self.registry)

    @cached_property
    def surveys(self) -> "Surveys":
        from terracrew.server.retention.surveys import Surveys

        return Surveys(self.db, self.objects, self.settings, self.tasks)

    @cached_property
    def watch(self) -> Watch:
        return Watch(self.registry, timedelta(seconds=self.settings.apply_lease_seconds))

    @cached_property
    def staging(self) -> Staging:
        return Staging(self.db, self.objects, self.keys)

    @cached_property
    def readiness(self) -> Readiness:
        return Readiness(self.db, self.closing)
