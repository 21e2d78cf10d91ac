"""Sends decisions to the connections that they concern: cancellations, superseded attempts, changed rows, revoked credentials.

It acts on wake-ups. A lost wake-up costs only time: a sweep regularly checks everything that is connected here.
"""

import asyncio
import time
from itertools import islice

from terracrew.api.jobs import ACTIVE
from terracrew.errors import Unauthenticated
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import reads
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.topics import AttemptKey, InstanceKey, Topic, UpdateKey
from terracrew.server.hub.executors import arrivals
from terracrew.server.hub.runners import instances, once_connections
from terracrew.server.hub.runners.context import RunnerContext

TOPICS: tuple[Topic, ...] = ("cancel", "ended", "runners", "instances", "access", "configuration", "asked", "updates")
SWEEP_SECONDS = 30.0
TOKEN_LEEWAY_SECONDS = 10.0
"""The time for which an expired token is still accepted: its holder renews it long before, and clocks differ a little."""


class HubNotifier:
    def __init__(self, hub: RunnerContext) -> None:
        self._hub = hub
        self._registry = hub.registry

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        with self._hub.db.listen(*TOPICS) as wakeups:
            await self.step({("access", "")})  # wake-ups that arrived before the database went away
            next_sweep = clock() + SWEEP_SECONDS
            while True:
                woken = await wakeups.get(timeout=max(0.0, next_sweep - clock()))
                if clock() >= next_sweep:
                    await self.sweep()
                    next_sweep = clock() + SWEEP_SECONDS
                await self.step(woken)

    async def step(self, woken: set[tuple[str, str]]) -> None:
        """Act on wake-ups. For a topic without a key, everything is checked."""
        if any(not key for _, key in woken):
            await self.sweep()
        # This comes first, so that a removed runner learns that it was removed, not that its credential was revoked.
        changed = {key for topic, key in woken if topic in ("runners", "access")}
        sessions = {each.instance_id: each for key in changed for each in self._registry.of(key)}
        # A process that came or went concerns its own instance only; checking all of its runner's is O(n^2) when a fleet returns.
        own = {InstanceKey.decode(key).instance_id for topic, key in woken if key and topic == "instances"}
        own |= {UpdateKey.decode(key).instance_id for topic, key in woken if key and topic == "updates"}
        for instance_id in own:
            if session := self._registry.runners.get(instance_id):
                sessions[instance_id] = session
        await instances.refresh(self._hub, sessions.values())
        for topic, key in woken:
            if topic == "access":
                await self._revoked(key)
            elif key and topic == "configuration":
                await arrivals.send_log_settings(self._hub, key)
            elif key and topic == "cancel":
                await self._cancel(key)
            elif topic == "asked" and (session := self._registry.runners.get(key)):
                session.ask()
            elif key and topic == "ended":
                self._ended(key)

    async def sweep(self) -> None:
        """Compare every connection with its current row, token and job."""
        now, once = time.time(), list[RunnerSession]()
        for session in self._registry.runners.values():
            if (session.principal.expires_at or now) < now - TOKEN_LEEWAY_SECONDS:
                session.socket.drop(Unauthenticated("the token of this connection has expired: renew it in time"))
            elif session.principal.once_token_id is not None:
                once.append(session)
        for session in once:  # no event says that a token expires, or that its attempt has ended
            await self._drop_unless_live(session)
        await instances.refresh(self._hub, list(self._registry.runners.values()))
        await arrivals.send_log_settings(self._hub)
        refs = list(self._registry.executors)
        for row in await self._hub.db.read(lambda tx: reads.jobs_of(tx, refs)) if refs else ():
            executor = self._registry.executors.get(AttemptRef(row["id"], row["own"]))
            if executor is not None and (row["status"] not in ACTIVE or row["attempt"] != row["own"]):
                executor.supersede()
        await self._cancel()

    async def _cancel(self, job_id: str | None = None) -> None:
        """Send cancellations to the executor of one job, or of all; through the runner only if no server can reach it."""

        for job in await self._hub.db.read(lambda tx: reads.canceled(tx, self._hub.server_id, job_id)):
            ref = AttemptRef(job["id"], job["attempt"])
            if executor := self._registry.executors.get(ref):
                executor.cancel(job["cancel_mode"])
            elif not job["is_elsewhere"] and (runner := self._registry.runners.get(job["instance_id"])):
                runner.cancel(ref, job["cancel_mode"])

    def _ended(self, key: str) -> None:
        ended = AttemptKey.decode(key)
        if executor := self._registry.executors.get(AttemptRef(ended.job_id, ended.attempt)):
            executor.supersede()

    async def _revoked(self, key: str) -> None:
        """Drop connections with a revoked secret of this runner or service account; those with other secrets stay."""
        meant = (
            session
            for session in list(self._registry.runners.values())
            if key in ("", session.runner_id, session.principal.id, session.principal.credential_id)
        )
        while few := list(islice(meant, instances.REFRESH_BATCH_ROWS)):  # they share a statement
            await asyncio.gather(*map(self._drop_unless_live, few))

    async def _drop_unless_live(self, session: RunnerSession) -> None:
        if error := await once_connections.end_of(self._hub.db, self._hub.identity.tokens, session):
            session.socket.drop(error)
