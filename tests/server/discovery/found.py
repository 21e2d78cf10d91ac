"""A repository on a forge with folders that rules make modules of, and the servers that look at it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from terracrew.api.discovery import DiscoveryRuleDetails
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import reads, service
from terracrew.server.discovery.loop import Discovery
from terracrew.server.discovery.tools import DiscoveryTools
from terracrew.server.forges import repository_store
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeConnection, ForgeRepository
from terracrew.server.forges.watching import RepositoryWatch
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.git.program import GitProgram
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.server.outgoing.destinations import Destinations
from tests.builders.clock import ShiftedClock
from tests.machine import git_https
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository
from tests.server.application import Application, open_application
from tests.server.forges import forge_rows

NAME = "infra"
SOURCES = Path("/srv/sources")
ROOT = 'terraform {\n  backend "s3" {}\n}\n'
LIBRARY = 'output "net" { value = 1 }\n'


class Found:
    """One repository, a connection of plain git that reads it, and two servers."""

    def __init__(self, application: Application, clock: ShiftedClock, git: GitHttps, folder: Path) -> None:
        self.app, self.server, self.db = application, application.server, application.server.db
        self.git, self.folder, self.clock = git, folder, clock
        self.repository = Repository(git.root / NAME)
        self.outgoing = OutgoingClient(Destinations.parse(["localhost", "127.0.0.1"]))
        self.forges = Forges(self.outgoing, self.server.keys)
        self.tools = [self.tools_of(f"srv_{number}") for number in range(2)]
        self.loops = [Discovery(each) for each in self.tools]
        self.connection: ForgeConnection

    @classmethod
    @asynccontextmanager
    async def open(
        cls, database_url: str, clock: ShiftedClock, folder: Path, patch: pytest.MonkeyPatch
    ) -> AsyncGenerator["Found"]:
        """Serve the repository, and open a server that trusts what serves it."""
        with git_https.running(folder / "served") as git:
            for name, value in git.environment.items():
                patch.setenv(name, value)
            settings: dict[str, Any] = {"private_destinations": ["localhost", "127.0.0.1"], "local_roots": (SOURCES,)}
            async with open_application(database_url, folder / "data", clock=clock, **settings) as application:
                made = cls(application, clock, git, folder)
                await made.prepare()
                yield made

    def tools_of(self, server_id: str) -> DiscoveryTools:
        program = GitProgram(self.folder / server_id / "home")
        return DiscoveryTools(
            db=self.db,
            keys=self.server.keys,
            forges=self.forges,
            mirrors=RepositoryMirrors(self.folder / server_id / "repositories", self.outgoing, program),
            quotas=self.server.quotas,
            roots=(),
            server_id=server_id,
        )

    async def prepare(self) -> None:
        self.write("prod/network", ROOT)
        self.write("prod/app", 'module "net" { source = "../../modules/net" }\n')
        self.write("modules/net", LIBRARY)
        self.repository.commit("first")
        self.connection = await forge_rows.connection(
            self.db, self.server.keys, kind="git", base_url=self.git.url, name="plain"
        )
        await self.app.admin.made("/api/v1/groups", {"path": "team"})

    @property
    def url(self) -> str:
        return self.git.of(NAME)

    def write(self, folder: str, content: str, name: str = "main.tf") -> None:
        at = self.repository.folder / folder
        at.mkdir(parents=True, exist_ok=True)
        (at / name).write_text(content)

    def remove(self, folder: str) -> None:
        self.repository.git("rm", "-r", "-q", "--", folder)

    async def rule(self, **settings: Any) -> str:
        """Make a rule by the API, and let the server know the repository; the path of the rule."""
        asked = {"name": "all", "group": "team", "url": self.url, "plans_new": False, **settings}
        made = await self.app.admin.made("/api/v1/discovery-rules", asked)
        await self.know()
        return made["path"]

    async def know(self) -> None:
        """Let the server know what the forge tells of the repository, as its loops do."""
        await RepositoryWatch(self.db, reads.sources).step()
        commit = self.repository.git("rev-parse", "main")

        async def work(tx: Tx) -> None:
            for known in await repository_store.watched(tx):
                held = await repository_store.hold(tx, known.id)
                assert held is not None
                told = replace(held, clone_url=self.url, default_branch="main", default_commit=commit)
                await repository_store.save(tx, held, told)

        await self.db.write(work)

    async def step(self) -> None:
        """Let both servers do what there is to do, until there is nothing left."""
        await self.know()
        for _ in range(10):
            if not sum(await asyncio.gather(*(each.step() for each in self.loops))):
                return
        raise AssertionError("the loops find something to do again and again")

    async def push(self, message: str = "more") -> str:
        """Commit everything to the branch, and let the servers look; the commit."""
        commit = self.repository.commit(message)
        await self.step()
        return commit

    async def show(self, rule: str = "team/all") -> DiscoveryRuleDetails:
        return await self.db.read(lambda tx: service.show(tx, self.app.admin.principal, rule))

    async def states(self, rule: str = "team/all") -> dict[str, str]:
        return {each.folder: each.state for each in (await self.show(rule)).folders}

    async def modules(self) -> dict[str, dict[str, Any]]:
        found = (await self.app.admin.get("/api/v1/modules")).json()["items"]
        return {each["path"]: each for each in found}

    async def repository_row(self) -> ForgeRepository:
        [found] = await self.db.read(repository_store.watched)
        return found
