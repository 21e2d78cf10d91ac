"""A real server on loopback with a company's rows in it, for browsers to look at."""

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from terracrew.server.app import build, close
from terracrew.server.context import Server
from terracrew.server.db.seam import Work
from terracrew.server.identity.people import service as identity
from terracrew.server.maintenance.local_token import first_start
from terracrew.server.process.serve import bind, serve
from tests.machine.sqlite_template import copy_template
from tests.server.application import attached_app, settings_for
from tests.server.dashboard.company import seed
from tests.server.releases.signed_files import KEY as KEY_OF_RELEASES

PASSWORD = "correct horse battery"


@dataclass
class Stage:
    folder: Path
    port: int = 0
    database_url: str = ""
    """Empty for SQLite."""
    private_issuers: list[str] = field(default_factory=list[str])
    """The providers of identities and issuers at loopback that the server trusts."""
    server: Server = field(init=False)
    jobs: dict[str, str] = field(init=False, default_factory=dict[str, str])
    link: str = field(init=False, default="")
    user_id: str = field(init=False, default="")
    _resources: ExitStack = field(init=False, default_factory=ExitStack)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Serve, the second time on the same port and the same rows."""
        if not self.database_url and not (file := self.folder / "terracrew.db").exists():
            copy_template(file)
        settings = settings_for(
            self.folder,
            self.database_url,
            port=self.port,
            organization="acme",
            local_roots=["/srv/sources"],
            private_destinations=["127.0.0.1"],
            federation_private_issuers=self.private_issuers,
            release_key=str(KEY_OF_RELEASES.public_key),
        )
        listener = bind(settings)
        self.port = listener.getsockname()[1]
        self.server = await build(settings)
        if link := await first_start(self.server.db, "acme"):
            self.link = f"{self.url}/login/link/{link}"
            self.user_id = (await identity.link_owner(self.server.identity, link, "here")).id
            self.jobs = await seed.company(self.server.db, self.server.keys, self.server.organization_id, self.user_id)
        started = asyncio.Event()
        app = self._resources.enter_context(attached_app(self.server))
        self._serving = asyncio.create_task(serve(self.server, listener, started, app))
        await asyncio.wait_for(started.wait(), 20)

    async def stop(self) -> None:
        self.server.closing.set()
        await asyncio.wait_for(self._serving, 20)
        self._resources.close()
        await close(self.server)

    async def write(self, work: Work[None]) -> None:
        await self.server.db.write(work)
