"""The server under test on its database, with a clock that the test moves; it can be killed and started again."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from terracrew import __version__, ids
from terracrew.api.modules import NewModule
from terracrew.api.runners import Registration
from terracrew.clouds.model import CloudIdentity
from terracrew.errors import TerracrewError
from terracrew.protocol.spec import LocalSource
from terracrew.server.connections.heartbeats import Heartbeats
from terracrew.server.connections.registry import Registry
from terracrew.server.context import Server
from terracrew.server.db import Database, open_database
from terracrew.server.fleet_process.link import FleetLink
from terracrew.server.history.points import History
from terracrew.server.http.streams import Streams
from terracrew.server.hub.notify import TOPICS, HubNotifier
from terracrew.server.hub.presence import Presence
from terracrew.server.hub.runners.claiming import Claiming
from terracrew.server.hub.runners.grants import Archives, Grants
from terracrew.server.identity.context import Identity, open_identity
from terracrew.server.identity.people import store as people
from terracrew.server.jobs.apply_plan import applier
from terracrew.server.jobs.attempts.claims import ClaimGroup, claims
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.jobs.create import creator
from terracrew.server.jobs.reaper import Reaper
from terracrew.server.objects import Objects, open_objects
from terracrew.server.principals.model import Principal
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.rollouts.updating import RunnerUpdaters
from terracrew.server.runners import service as runners
from terracrew.server.runners.removal.service import Removals
from terracrew.server.runs.follow import Watchers
from terracrew.server.scheduling.new_job_claims import NewJobClaims
from terracrew.server.scheduling.scheduler import Scheduler
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.supervise import Tasks
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.groups.service import ensure_organization
from terracrew.server.tree.modules import service as modules
from terracrew.settings.server import ServerSettings
from tests.builders.clock import ManualClock
from tests.stateful.faulty_database import TIMEOUT_SECONDS, Cut, Faulty, LostConnections, RefusedCommit, patient
from tests.stateful.stale_choice import StaleChoice

KEYS = Keyring([bytes(32)])
ROOTS = (Path("/srv"),)
WORKER_TOKEN_SECONDS = 90 * 86_400.0


async def _refuse_token(identity: CloudIdentity, is_probe: bool) -> str:
    """This server has no runner in a cloud, so nobody asks for a token."""
    raise AssertionError(f"a token was asked for {identity.name}, probe: {is_probe}")


class ServerUnderTest:
    """The server itself; hosts and people are simulated elsewhere."""

    clock: ManualClock
    real: Database
    cut: Cut
    db: Faulty
    server: Server
    identity: Identity
    objects: Objects
    boss: Principal

    @classmethod
    async def make(cls, url: str) -> "ServerUnderTest":
        site = cls()
        site.clock = ManualClock(1_800_000_000.0, tick_seconds=0.001)
        site.real = await open_database(url, site.clock)
        site.cut = RefusedCommit(site.real) if site.real.kind == "sqlite" else LostConnections(url)
        site.objects = open_objects("memory:///")
        organization = await site.real.write(lambda tx: ensure_organization(tx, "default"))
        boss = await site.real.write(lambda tx: people.insert_user(tx, organization.id, "boss", is_system_admin=True))
        site.boss = Principal("user", boss.id, "boss", organization.id, is_system_admin=True)
        site._stack = ExitStack()
        await site._start()
        return site

    def __init__(self) -> None:
        self._stack: ExitStack

    async def _start(self) -> None:
        db = self.db = Faulty(self.real, self.cut)
        self.identity = await patient(lambda: open_identity(db, KEYS, "http://127.0.0.1"))
        server_id, registry, tasks = ids.new("srv"), Registry(self.clock), Tasks()
        history = History(KEYS)
        grants, self.choice = Grants(db, registry, Archives(self.objects), tasks), StaleChoice(registry)
        self.claiming = Claiming(db, registry, self.identity.tokens, claims(db, KEYS), grants, tasks)
        scheduler = Scheduler(db, registry, self.claiming.start)
        ahead = NewJobClaims(self.choice, ClaimGroup(KEYS, "online"), grants.send, grants.take_back)
        self.server = Server(
            id=server_id,
            settings=ServerSettings(),
            organization_id=self.boss.organization_id or "",
            db=db,
            objects=self.objects,
            keys=KEYS,
            identity=self.identity,
            registry=registry,
            scheduler=scheduler,
            ingest=ingest(db, KEYS, history),
            history=history,
            create_job=creator(db, self.objects, KEYS, ROOTS, ahead),
            apply_plan=applier(db, registry, KEYS, ROOTS),
            quotas=Quotas(db, ServerSettings()),
            heartbeats=Heartbeats(db, registry, server_id),
            claiming=self.claiming,
            grants=grants,
            watchers=Watchers(registry, self.objects),
            streams=Streams(db),
            tasks=tasks,
            fleet=FleetLink(_refuse_token, ()),
            fleet_handlers={},
            rollout_rules=RolloutRules(updaters=RunnerUpdaters(""), server_version=__version__),
        )
        self.reaper, self.presence = Reaper(db, registry), Presence(self.server.hub.runners)
        self.removals = Removals(db)
        self.messenger = HubNotifier(self.server.hub.runners)
        self.wakeups = self._stack.enter_context(db.listen(*TOPICS))

    async def restart(self, hang_up: Callable[[], Awaitable[None]], *, is_killed: bool) -> None:
        """With a new memory on the old database; a killed one writes nothing more, whatever it was about to."""
        self.db.is_dead = is_killed
        self.server.closing.set()
        await hang_up()
        await self.quiet()
        self._stack.close()
        await self._start()

    async def close(self) -> None:
        self.db.is_dead = True
        self._stack.close()
        await self.quiet()
        self.cut.close()
        await self.real.close()

    # ---- what its loops do

    async def loops(self) -> None:
        """One turn of each loop that looks at the clock. One that fails is started again by its supervisor."""
        for step in (self.server.heartbeats.step, self.presence.step, self.reaper.step, self.removals.step):
            with contextlib.suppress(TerracrewError):
                await step()

    async def hear(self) -> None:
        """Act on wake-ups: to tell executors of a cancellation or of their successor, and runners of their record."""
        with contextlib.suppress(TerracrewError):
            await self.messenger.step(await self.wakeups.get(0))

    async def quiet(self) -> None:
        """Wait until no background work is in progress."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await self.server.tasks.join()
            await self.real.ready()

    # ---- the tree

    async def module(self, path: str, *, needs_approval: bool = False, is_retried: bool = False) -> str:
        interrupted = "retry" if is_retried else None
        new = NewModule(path=path, source=LocalSource("/srv/x"), needs_approval=needs_approval, interrupted=interrupted)
        return (await self.real.write(lambda tx: modules.create(tx, self.boss, new, ROOTS, KEYS))).id

    async def runner(self, name: str) -> tuple[str, str]:
        """Its id, and the token of its processes."""
        new = Registration(name=name, allow_multiple_instances=True)
        made = await patient(
            lambda: self.real.write(lambda tx: runners.register(tx, self.boss, new, "", WORKER_TOKEN_SECONDS))
        )
        client = f"default:{made.id}"
        token = await patient(lambda: self.identity.tokens.exchange(client, made.worker_token, "127.0.0.1"))
        return made.id, token.access_token
