"""What the handlers of transfers need of a running server."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from terracrew.server.db.seam import Database
from terracrew.server.http import request
from terracrew.server.identity.context import Identity
from terracrew.server.objects import Objects
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.uploads.service import Staging


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
