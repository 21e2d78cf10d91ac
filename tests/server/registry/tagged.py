"""A published module that follows the tags of a repository, and two servers that look at them."""

import asyncio
from typing import Any

from msgspec.structs import replace

from terracrew.server.db.seam import Tx
from terracrew.server.forges import repository_store
from terracrew.server.forges.watching import RepositoryWatch
from terracrew.server.registry import reads
from terracrew.server.registry.tag_loop import LOOK_SECONDS, TagLoop
from terracrew.server.registry.tags import TagTools
from tests.server.discovery.found import Found
from tests.server.registry.publisher import address, create

PATH = "team/vpc/aws"


class Tagged:
    """A published module that follows the repository, and two servers that look at its tags."""

    def __init__(self, found: Found) -> None:
        self.found, self.app = found, found.app
        server = found.server
        self.tools = [
            TagTools(each.db, each.forges, each.mirrors, server.staging, server.quotas, each.server_id)
            for each in found.tools
        ]
        self.loops = [TagLoop(each) for each in self.tools]

    async def follow(self, **settings: Any) -> None:
        await create(self.app.admin, PATH, **{"url": self.found.url, "folder": "modules/net"} | settings)

    async def step(self) -> None:
        """Let both servers look at the tags as they are now."""
        await RepositoryWatch(self.found.db, reads.watched_sources).step()

        async def know(tx: Tx) -> None:
            for known in await repository_store.watched(tx):
                held = await repository_store.hold(tx, known.id)
                assert held is not None
                told = replace(held, clone_url=self.found.url, default_branch="main")
                await repository_store.save(tx, held, told)

        await self.found.db.write(know)
        for each in self.tools:
            each.known.clear()
        self.found.clock.advance(LOOK_SECONDS * 1.2)
        await asyncio.gather(*(each.step() for each in self.loops))

    def tag(self, name: str, *options: str) -> str:
        """Tag the newest commit; its id."""
        self.found.repository.git("tag", "-f", *options, name)
        return self.found.repository.git("rev-parse", "main")

    async def look(self) -> None:
        """Ask for a look at the tags, as a person does."""
        answer = await self.app.admin.post(f"{address(PATH)}/look", json={})
        assert answer.status_code == 200, answer.text

    async def shown(self) -> Any:
        return (await self.app.admin.get(address(PATH))).json()

    async def versions(self) -> dict[str, str]:
        """The commit of each version."""
        return {each["version"]: each["commit_id"] for each in (await self.shown())["versions"]}
