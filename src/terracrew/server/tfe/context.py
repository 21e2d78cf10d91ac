"""What the handlers of this face need of a running server."""

import contextlib
import time
from dataclasses import dataclass
from typing import Any

import msgspec

from terracrew.errors import NotFound
from terracrew.server.db.seam import Database
from terracrew.server.http import request
from terracrew.server.http.engine_services import TFE_BASE
from terracrew.server.identity.access import organizations
from terracrew.server.objects import Objects
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs.reasons import Watch
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.diff_process import DiffProcess
from terracrew.server.terminals import links, places
from terracrew.server.terminals.links import LinkKind
from terracrew.server.terminals.service import TerminalTools
from terracrew.server.terminals.state_bodies import StateBodies
from terracrew.server.terminals.transcript import Transcripts
from terracrew.server.uploads.service import Staging

BASE = TFE_BASE.rstrip("/")


@dataclass(frozen=True)
class TfeContext:
    db: Database
    objects: Objects
    keys: Keyring
    watch: Watch
    staging: Staging
    tools: TerminalTools
    bodies: StateBodies
    transcripts: Transcripts
    diffs: DiffProcess
    url: str
    version: str

    def now(self) -> float:
        return time.time()

    def address(self, who: Principal, kind: LinkKind, of: str) -> str:
        """Return an address that works without a token, for something of this caller."""
        return f"{self.url}{BASE}/links/{links.for_caller(self.keys, who, kind, of, self.now())}"


class TfeCall(request.Call):
    @property
    def context(self) -> TfeContext:
        return self.app.state.tfe

    @property
    def reading(self) -> Verb:
        """The right that it takes to read a workspace. The engine of a job has that of its own states, and no other one."""
        return Verb.STATE_READ if self.user.kind == "engine" else Verb.TREE_READ

    async def enter(self, reference: str) -> None:
        """Let the caller act in the organization of what this id names, if they may act there at all."""
        who: Principal | None = self.scope["user"]
        if who is None or who.kind != "user":
            return
        found = await self.context.db.read(lambda tx: places.organization_of(tx, reference))
        if found is not None and found != who.organization_id:
            with contextlib.suppress(NotFound):  # to everybody else, it does not exist
                self.scope["user"] = await organizations.act_in(self.context.db, who, found)

    async def within(self, organization: str) -> Principal:
        """Return the caller, acting in the organization that the address names."""
        return await organizations.act_in(self.context.db, self.user, organization)

    async def json(self) -> Any:
        """Bodies here are documents of JSON:API, which `json_api.given` reads."""
        return msgspec.json.decode(await self.body())
