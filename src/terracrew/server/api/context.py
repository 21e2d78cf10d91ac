"""What the handlers of the API need of a running server."""

import asyncio
from dataclasses import dataclass

from terracrew.server.api.operations.metrics.exposition import Measured
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.http import request
from terracrew.server.http.streams import Streams
from terracrew.server.identity.context import Identity
from terracrew.server.jobs.create import Create
from terracrew.server.objects import Objects
from terracrew.server.readiness import Readiness
from terracrew.server.retention.surveys import Surveys
from terracrew.server.runs.follow import Watchers
from terracrew.server.runs.reasons import Watch
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.settings import ServerSettings
from terracrew.server.uploads.service import Staging


@dataclass(frozen=True)
class ApiContext:
    settings: ServerSettings
    db: Database
    objects: Objects
    keys: Keyring
    identity: Identity
    registry: Registry
    create_job: Create
    watch: Watch
    watchers: Watchers
    streams: Streams
    staging: Staging
    surveys: Surveys
    readiness: Readiness
    measured: Measured
    closing: asyncio.Event
    """Set when the server begins to stop. A stream that never ends by itself ends when it sees this."""


class ApiCall(request.Call):
    @property
    def context(self) -> ApiContext:
        return self.app.state.api
