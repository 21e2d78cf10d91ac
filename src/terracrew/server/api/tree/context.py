"""What the handlers of the tree need of a running server."""

from dataclasses import dataclass

from terracrew.server.db.seam import Database
from terracrew.server.groups.quotas import Quotas
from terracrew.server.http import request
from terracrew.server.objects import Objects
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.settings import ServerSettings
from terracrew.server.state.diff_process import DiffProcess
from terracrew.server.uploads.service import Staging


@dataclass(frozen=True)
class TreeContext:
    settings: ServerSettings
    db: Database
    objects: Objects
    keys: Keyring
    diffs: DiffProcess
    staging: Staging
    quotas: Quotas


class TreeCall(request.Call):
    @property
    def context(self) -> TreeContext:
        return self.app.state.api.tree
