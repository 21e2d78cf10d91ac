"""What discovery needs of a running server."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terracrew.server.db.seam import Database
from terracrew.server.forges.clients import Forges
from terracrew.server.git.configured_commits import ConfiguredCommits
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups.quotas import Quotas


@dataclass(frozen=True)
class DiscoveryTools:
    db: Database
    keys: Keyring
    forges: Forges
    mirrors: RepositoryMirrors
    quotas: Quotas
    roots: Sequence[Path]
    server_id: str
    commits: ConfiguredCommits = field(default_factory=ConfiguredCommits)
    fetches: "dict[tuple[str, str], asyncio.Task[tuple[str, str]]]" = field(default_factory=dict[Any, Any])
    """The fetches that previews wait for, by mirror and branch."""
