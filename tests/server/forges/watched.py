"""A repository on a fake forge that a connection watches, and the loops of servers, which tests take step by step."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from terracrew.forges.contract import WrongSignature
from terracrew.forges.model import PullRequest
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import delivery_store, fact_store, repository_store, store
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.deliveries import ForgeDeliveries
from terracrew.server.forges.model import (
    ForgeConnection,
    ForgeDelivery,
    ForgePullRequest,
    ForgeRepository,
    facts_of,
)
from terracrew.server.forges.polling import ForgePolling
from terracrew.server.forges.receiving import ForgeReceiver
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.server.registry import tags
from terracrew.server.secrets.keyring import Keyring
from tests.builders.clock import ShiftedClock
from tests.forges import fake_forge
from tests.forges.fake_forge import OWNER_TOKEN, FakeDelivery, FakeForge, FakeRepository
from tests.forges.fake_gitea import FakeGitea
from tests.forges.fake_github import FakeGitHub
from tests.forges.fake_gitlab import FakeGitLab
from tests.forges.sending import LOOPBACK
from tests.server.forges import forge_rows

KEYS = Keyring([b"k" * 32])
POLL_SECONDS = 60.0
HOOKS_URL = "https://terracrew.example.com/hooks"
FAKES: dict[str, type[FakeForge]] = {"github": FakeGitHub, "gitlab": FakeGitLab, "gitea": FakeGitea}


@dataclass
class Loops:
    """The loops of one server."""

    deliveries: ForgeDeliveries
    polling: ForgePolling


@dataclass
class Watched:
    db: Database
    clock: ShiftedClock
    fake: FakeForge
    connection_id: str
    state: FakeRepository
    forges: Forges
    receiver: ForgeReceiver
    loops: Loops = field(init=False)

    def __post_init__(self) -> None:
        self.loops = self.server("srv_1")

    def server(self, server_id: str) -> Loops:
        polling = ForgePolling(self.db, self.forges, server_id, POLL_SECONDS, HOOKS_URL)
        return Loops(ForgeDeliveries(self.db, self.forges, tags.pushed), polling)

    async def connection(self) -> ForgeConnection:
        return await self.db.read(lambda tx: store.get(tx, self.connection_id))

    async def repository(self) -> ForgeRepository:
        found = await self.db.read(lambda tx: repository_store.named(tx, self.connection_id, self.state.name))
        assert found is not None
        return found

    async def delivered(self) -> list[ForgeDelivery]:
        """Everything that was stored, the oldest first."""
        found = await self.db.read(lambda tx: delivery_store.of_connection(tx, self.connection_id, "", 100))
        return found[::-1]

    async def arrive(self, deliveries: Iterable[FakeDelivery]) -> None:
        """Let deliveries arrive at the server."""
        for each in deliveries:
            await self.post(each)

    async def post(self, delivery: FakeDelivery) -> bool:
        async def body() -> bytes:
            return delivery.body

        address = delivery.url.rpartition("/")[2]
        return await self.receiver.receive(address, delivery.headers, len(delivery.body), body)

    async def is_refused(self, delivery: FakeDelivery) -> bool:
        try:
            await self.post(delivery)
        except WrongSignature:
            return True
        return False

    async def handle(self) -> None:
        """Handle everything whose turn has come."""
        while await self.loops.deliveries.step():
            pass

    async def poll(self, seconds: float = POLL_SECONDS * 1.2) -> None:
        """Let the time pass after which every repository is polled, and poll."""
        self.clock.advance(seconds)
        while await self.loops.polling.step():
            pass

    async def known(self, number: int) -> ForgePullRequest | None:
        found = await self.repository()
        return await self.db.read(lambda tx: fact_store.numbered(tx, found.id, number))

    async def facts(self) -> dict[int, PullRequest]:
        """What is known of each pull request of the forge that is known at all."""
        known = [await self.known(number) for number in self.state.pull_requests]
        return {each.number: facts_of(each) for each in known if each is not None}

    async def truth(self) -> dict[int, PullRequest]:
        """What the forge says of each."""
        forge = self.forges.of(await self.connection())
        return {number: await forge.pull_request(self.state.name, number) for number in self.state.pull_requests}

    async def commands(self, number: int) -> list[str]:
        """The commands that were seen and not carried out yet."""
        found = await self.repository()
        waiting = await self.db.read(lambda tx: fact_store.waiting_comments(tx, found.id, number))
        return [each.body for each in waiting]

    async def give_up(self) -> None:
        """Let somebody remove the repository."""

        async def work(tx: Tx) -> None:
            before = await self.repository()
            await repository_store.save(tx, before, msgspec.structs.replace(before, is_watched=False, is_added=False))

        await self.db.write(work)

    async def counted(self) -> int:
        """How many requests the forge was asked."""
        await asyncio.sleep(0)
        return sum(self.fake.asked.values())


@asynccontextmanager
async def watched(db: Database, clock: ShiftedClock, kind: str = "github") -> AsyncGenerator[Watched]:
    """A repository whose hook was made by the first poll."""
    async with fake_forge.running(FAKES[kind]()) as fake:
        fake.behind(time.time() - clock())  # it has the time of the database
        state = fake.repository()
        connection = await forge_rows.connection(db, KEYS, OWNER_TOKEN, base_url=fake.url, kind=kind)
        await forge_rows.repository(db, connection)
        forges = Forges(OutgoingClient(LOOPBACK), KEYS, clock)
        made = Watched(db, clock, fake, connection.id, state, forges, ForgeReceiver(db, forges))
        await made.loops.polling.step()
        assert (await made.repository()).hook_status == "enabled"
        yield made
        await db.write(lambda tx: store.delete(tx, connection.id))


async def give_token(watched: Watched, token: str) -> None:
    """Give the connection another token, as the service does."""

    async def work(tx: Tx) -> None:
        before = await store.get(tx, watched.connection_id)
        await forge_rows.replace_token(tx, KEYS, before, token)

    await watched.db.write(work)
