"""Sets up a runner at work and clients that may not disturb it, and compares everything stored before and after an attack."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from terracrew import ids
from terracrew.protocol import messages
from terracrew.protocol.events import StepStatus
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Tx
from terracrew.server.identity.oidc.tokens import KIND
from terracrew.server.identity.people import sessions, store
from terracrew.server.principals.model import AUDIENCE
from tests.builders.job_rows import JobRows as Jobs
from tests.e2e.simulated_runner import batch
from tests.server.application import Person
from tests.server.hub.asked_updates import asked
from tests.server.hub.hub_clients import TIMEOUT_SECONDS, Client, Hub, ref_of

VOLATILE = {"last_used_at", "heard_at", "seen_at", "executor_heard_at"}
NOT_LOOKED_AT = {"history", "leases", "migrations", "sqlite_sequence"}
PING = messages.HandBack("job_" + "0" * 32, 1, "there is no such job")
"""It is answered, by `settled`, and changes nothing."""


class AttackedHub:
    """A runner with a job that is being applied, one that has not started and one that was given up once; one job is queued."""

    victim: Client
    executor: Client
    working: Granted
    waiting: Granted
    superseded: Granted
    queued: str
    update_id: str
    """The update that the victim was asked for."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.headers: dict[str, dict[str, str]] = {}
        """Of those who have no place here at all, by who they are."""
        self.runners: dict[str, tuple[str, messages.RunnerHello]] = {}
        """Those who have one of their own: their token and their hello."""
        self.executors: dict[str, Granted] = {}
        self.not_ours: set[object] = set()
        """Ids of what belongs to them."""

    @property
    def refs(self) -> list[AttemptRef]:
        return [ref_of(self.working), ref_of(self.waiting)]

    # ---- what must not change

    async def everything(self) -> dict[str, list[dict[str, Any]]]:
        """All rows of all tables that are not those of the attackers, less what changes by itself."""
        db = self.hub.server.db

        async def read(tx: Tx) -> dict[str, list[dict[str, Any]]]:
            if db.kind == "sqlite":
                names = await tx.all("SELECT name FROM sqlite_schema WHERE type = 'table'")
            else:
                names = await tx.all("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'")
            instances = await tx.all("SELECT id, runner_id FROM instances")
            self.not_ours |= {row["id"] for row in instances if row["runner_id"] in self.not_ours}
            found: dict[str, list[dict[str, Any]]] = {}
            for name in sorted(row["name"] for row in names):
                query: Any = f"SELECT * FROM {name}"
                rows = [] if name in NOT_LOOKED_AT else await tx.all(query)
                found[name] = sorted(
                    (
                        {key: value for key, value in row.items() if key not in VOLATILE}
                        for row in rows
                        if self._counts(row)
                    ),
                    key=str,
                )
            return found

        return await db.read(read)

    def _counts(self, row: Any) -> bool:
        old = ref_of(self.superseded)
        if row.get("job_id") == old.job_id and old.attempt in (row.get("attempt"), row.get("number")):
            return False  # what a superseded attempt still delivers is kept under its own number
        if row.get("action") == "attempt.deliver_late":
            return False  # and that it came is in the audit
        return not self.not_ours & set(row.values())

    async def is_undisturbed(self) -> str:
        """What is wrong with the victims, if anything is."""
        for client, question, answer in ((self.victim, PING, "settled"), (self.executor, messages.Begin(0), "begun")):
            try:
                found = await client.ask(question)
            except (TimeoutError, ConnectionClosed) as error:
                return f"its connection is gone: {error!r}"
            if found["type"] != answer:
                return f"it was told {found}"
        return ""

    async def at_rest(self) -> None:
        """All that was said is dealt with."""
        await asyncio.wait_for(self.hub.server.tasks.join(), TIMEOUT_SECONDS)


@asynccontextmanager
async def connected(hub: Hub, headers: dict[str, str]) -> AsyncGenerator[Client]:
    async with connect(hub.url, additional_headers=headers, compression=None, max_size=8 << 20) as connection:
        yield Client(connection, hub.server)


async def say(client: Client, message: msgspec.Struct | bytes | str) -> None:
    if isinstance(message, msgspec.Struct):
        await client.send(message)
    else:
        await client.connection.send(message)


async def rest(client: Client, *, until: str = "") -> list[dict[str, Any]]:
    """What it is told until the connection ends, or up to a message of this kind."""
    told: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not told or told[-1]["type"] != until:
                told.append(msgspec.json.decode(await client.connection.recv()))
    except ConnectionClosed:
        pass
    return told


@contextmanager
def no_errors() -> Generator[None]:
    """Whatever happens meanwhile, the server's log has no error of its own in it."""
    found: list[logging.LogRecord] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = found.append  # pyright: ignore[reportAttributeAccessIssue]
    logging.getLogger("terracrew").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("terracrew").removeHandler(handler)
    assert [record.getMessage() for record in found] == []


@asynccontextmanager
async def staged(hub: Hub) -> AsyncGenerator[AttackedHub]:
    attacked = AttackedHub(hub)
    async with AsyncExitStack() as stack:
        attacked.victim = await stack.enter_async_context(hub.runner(capacity=10))
        attacked.working = await attacked.victim.granted(await hub.job("APPLY"))
        attacked.executor = await stack.enter_async_context(hub.executor(attacked.working))
        await attacked.executor.connection.send(batch(1, StepStatus(Step.PLAN, "RUNNING"), "planning\n"))
        assert (await attacked.executor.get("ack"))["mark"] == 2
        assert (await attacked.executor.ask(messages.Begin(0)))["type"] == "begun"
        attacked.waiting = await attacked.victim.granted(await hub.job())
        attacked.superseded = await attacked.victim.granted(job := await hub.job("APPLY"))
        async with hub.executor(attacked.superseded) as executor:
            await executor.connection.send(batch(1, StepStatus(Step.PLAN, "RUNNING"), "once\n"))
            await executor.get("ack")
        await attacked.victim.send(messages.Gone(job, 1, saw_process=True, reason="killed"))
        await attacked.victim.get("settled")
        await attacked.victim.granted(job, 2)
        attacked.queued = await hub.job("APPLY")
        attacked.update_id = (await asked(hub)).id
        await _strangers(attacked)
        await _machines(attacked)
        yield attacked


async def _strangers(attacked: AttackedHub) -> None:
    hub = attacked.hub
    app = hub.crew.app
    person = await app.person("operator", "owner")
    bearer: dict[str, str] = {
        "a garbled token": "tch_" + "x" * 43,
        "half a token": (await hub.token())[:-10],
        "an expired token": await _expired(hub),
        "an API token": str(person.headers["Authorization"]).removeprefix("Bearer "),
        "an administrator's token": str(app.admin.headers["Authorization"]).removeprefix("Bearer "),
        "a release token": (await app.admin.made("/api/v1/release-tokens", {"name": "ci"}))["token"],
        "an engine's token": attacked.working.credentials.api,
        "the token of an engine that has ended": attacked.superseded.credentials.api,
    }
    user = await hub.server.db.read(lambda tx: store.user(tx, "admin"))
    session = await hub.server.db.write(lambda tx: sessions.start(tx, user))
    attacked.headers = {who: {"Authorization": f"Bearer {token}"} for who, token in bearer.items()} | {
        "nobody": {},
        "a session's cookie": {"Cookie": f"{sessions.COOKIE}={session.token}"},
        "another scheme": {"Authorization": f"Basic {attacked.working.credentials.hub}"},
    }


async def _expired(hub: Hub) -> str:
    now = int(time.time()) - 3600
    claims = {
        "iss": hub.server.settings.url,
        "sub": hub.runner_id,
        "aud": AUDIENCE,
        "iat": now - 900,
        "exp": now,
        "org": None,
        "kind": "runner",
        "sid": "x",
    }
    return await hub.server.identity.tokens.signing.sign(claims, KIND)


async def _machines(attacked: AttackedHub) -> None:
    hub = attacked.hub
    app = hub.crew.app
    foreign = await app.person("foreign", "owner", organization="elsewhere")
    await app.admin.made("/api/v1/groups", {"path": "sibling"})
    for who, by, group in (
        ("another runner", app.admin, "sibling"),
        ("a disabled runner", app.admin, ""),
        ("a foreign runner", foreign, ""),
        ("a removed runner", app.admin, ""),
    ):
        token, hello = await _registered(attacked, by, who.replace(" ", "-"), group)
        attacked.runners[who] = token, hello
    disabled = attacked.runners["a disabled runner"][1].runner_id
    assert (await app.admin.patch(f"/api/v1/runners/{disabled}", json={"is_disabled": True})).status_code == 200
    removed = attacked.runners.pop("a removed runner")
    await app.admin.delete(f"/api/v1/runners/{removed[1].runner_id}", params={"force": "true"})
    attacked.headers["a removed runner"] = {"Authorization": f"Bearer {removed[0]}"}
    account = await foreign.made("/api/v1/service-accounts", {"name": "bot", "group": ""})
    secret = await foreign.made(f"/api/v1/service-accounts/{account['id']}/secrets", {})
    token = await hub.server.identity.tokens.exchange(secret["client_id"], secret["client_secret"], "127.0.0.1")
    attacked.headers["a foreign service account"] = {"Authorization": f"Bearer {token.access_token}"}

    attacked.executors = {
        "another job's executor": await _granted(attacked, hub.crew.rows),
        "a foreign executor": await _foreign(attacked, foreign),
    }


async def _registered(attacked: AttackedHub, by: Person, name: str, group: str) -> tuple[str, messages.RunnerHello]:
    made = (await by.made("/api/v1/runners/register", {"name": name, "group": group}))["environment"]
    runner_id, organization = made["TERRACREW_RUNNER__ID"], made["TERRACREW_RUNNER__ORGANIZATION_ID"]
    secret = made["TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN"]
    token = await attacked.hub.server.identity.tokens.exchange(f"{organization}:{runner_id}", secret, "127.0.0.1")
    attacked.not_ours.add(runner_id)
    return token.access_token, attacked.hub.hello(runner_id=runner_id, instance_key="o" * 32)


async def _granted(attacked: AttackedHub, jobs: Jobs) -> Granted:
    """A job of theirs that their own runner has claimed."""
    module_id = await jobs.module(ids.new("mod"))
    instance, job_id = await jobs.runner(), await jobs.job(module_id)
    attacked.not_ours |= {module_id, job_id, instance.id, instance.runner_id}
    return await instance.has(job_id)


async def _foreign(attacked: AttackedHub, foreign: Person) -> Granted:
    jobs = await Jobs.of_organization(attacked.hub.server.db, foreign.principal.organization_id or "")
    jobs.claim = attacked.hub.server.claiming.claim
    return await _granted(attacked, jobs)
