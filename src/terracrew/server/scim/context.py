"""What the handlers of this face need of a running server."""

from dataclasses import dataclass

from terracrew.server.db.seam import Database
from terracrew.server.http import request
from terracrew.server.http.engine_services import SCIM_BASE

BASE = SCIM_BASE


@dataclass(frozen=True)
class ScimContext:
    db: Database
    url: str
    """The address by which others reach this server."""

    @property
    def base(self) -> str:
        """The address of this face, which the addresses of resources begin with."""
        return self.url + BASE


class ScimCall(request.Call):
    @property
    def context(self) -> ScimContext:
        return self.app.state.scim
