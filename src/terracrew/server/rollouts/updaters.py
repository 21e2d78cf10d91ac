"""What a roll-out needs of the packages that update runners; `app.build` gives it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from terracrew.api.runners import Runner
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs.model import FleetJob
from terracrew.server.principals.model import Principal
from terracrew.server.releases.model import Release
from terracrew.wording.update_words import ByHand


class Updaters(Protocol):
    async def by_hand(self, tx: Tx, runners: Sequence[Runner], release: Release) -> Mapping[str, ByHand]:
        """Return those of the runners that a person has to update to this release, by their ids."""
        ...

    async def update(self, tx: Tx, who: Principal, runner: Runner, version: str) -> FleetJob:
        """Queue the update of a runner. Raises Conflict if that is not possible now."""
        ...
