"""What the handlers of operations need of a running server."""

from dataclasses import dataclass

from terracrew.server.api.operations.metrics.exposition import Measured
from terracrew.server.api.operations.releases.publishing import PublishingContext
from terracrew.server.db.seam import Database
from terracrew.server.disk_reserve import DiskReserve
from terracrew.server.http import request
from terracrew.server.readiness import Readiness
from terracrew.server.retention.surveys import Surveys
from terracrew.server.secrets.keyring import Keyring


@dataclass(frozen=True)
class OperationsContext:
    db: Database
    keys: Keyring
    surveys: Surveys
    disk: DiskReserve
    readiness: Readiness
    measured: Measured
    publishing: PublishingContext


class OperationsCall(request.Call):
    @property
    def context(self) -> OperationsContext:
        return self.app.state.api.operations
