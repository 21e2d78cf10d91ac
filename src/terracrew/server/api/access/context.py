"""What the handlers of access need of a running server."""

from dataclasses import dataclass

from terracrew.server.db.seam import Database
from terracrew.server.http import request
from terracrew.server.identity.context import Identity


@dataclass(frozen=True)
class AccessContext:
    db: Database
    identity: Identity


class AccessCall(request.Call):
    @property
    def context(self) -> AccessContext:
        return self.app.state.api.access
