"""What the work on pull requests needs of a running server."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.forges.clients import Forges
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.uploads.service import Staging


@dataclass(frozen=True)
class PullRequestTools:
    db: Database
    keys: Keyring
    registry: Registry
    forges: Forges
    mirrors: RepositoryMirrors
    staging: Staging
    quotas: Quotas
    roots: Sequence[Path]
    url: str
    """The address of the server, for links."""
    server_id: str

    def link(self, path: str) -> str:
        return self.url.rstrip("/") + path
