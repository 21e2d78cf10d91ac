"""What the handlers of jobs and their logs need of a running server."""

import asyncio
from dataclasses import dataclass

from terracrew.server.cloud_hosted.starting import WakingAhead
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.fleet_jobs.handlers import FleetHandlers
from terracrew.server.http import request
from terracrew.server.http.streams import Streams
from terracrew.server.jobs.apply_plan import Apply
from terracrew.server.jobs.create import Create
from terracrew.server.objects import Objects
from terracrew.server.runs.follow import Watchers
from terracrew.server.runs.reasons import Watch
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.diff_process import DiffProcess


@dataclass(frozen=True)
class RunsContext:
    db: Database
    objects: Objects
    keys: Keyring
    diffs: DiffProcess
    registry: Registry
    create_job: Create
    apply_plan: Apply
    watch: Watch
    watchers: Watchers
    streams: Streams
    fleet_handlers: FleetHandlers
    waking_ahead: WakingAhead
    closing: asyncio.Event
    """Set when the server begins to stop. A stream that never ends by itself ends when it sees this."""


class RunsCall(request.Call):
    @property
    def context(self) -> RunsContext:
        return self.app.state.api.runs
