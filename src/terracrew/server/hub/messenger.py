"""Carries what was decided to whom it concerns: cancellations, superseded attempts, changed records, revoked credentials.

It acts on wake-ups. One that was lost costs a moment: everything that is connected here is looked at again, now and then.
"""

import asyncio
import time
from typing import TYPE_CHECKING

from terracrew.errors import Unauthenticated
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Row, Tx
from terracrew.server.hub import places
from terracrew.server.jobs.model import ACTIVE

if TYPE_CHECKING:
    from terracrew.server.context import Server

SWEEP_EVERY = 30.0
LEEWAY = 10.0
"""Seconds that a token's end may be passed: its holder renews it long before, and clocks differ a little."""
_JOB = "SELECT id, status, attempt, cancel_mode, instance_id FROM jobs WHERE id = :id"
_JOBS = """
SELECT jobs.id, jobs.status, jobs.attempt, jobs.cancel_mode, batch.attempt AS own FROM batch JOIN jobs ON jobs.id = batch.job_id"""


class Messenger:
    def __init__(self, server: "Server") -> None:
        self._server = server
        self._registry = server.registry

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        with self._server.db.listen("cancel", "ended", "runners", "access") as wakeups:
            next_sweep = clock()
            while True:
                woken = await wakeups.get(timeout=max(0.0, next_sweep - clock()))
                if clock() >= next_sweep:
                    await self.sweep()
                    next_sweep = clock() + SWEEP_EVERY
                await self.step(woken)

    async def step(self, woken: set[tuple[str, str]]) -> None:
        """Act on what has happened. A topic without a key: anything of it may have."""
        if any(not key for _, key in woken):
            await self.sweep()
        for topic, key in woken:
            if topic == "access":
                await self._revoked(key)
            elif key and topic == "cancel":
                await self._cancel(key)
            elif key and topic == "ended":
                self._ended(key)
            elif key and topic == "runners":
                await places.refresh(self._server, runner_id=key)

    async def sweep(self) -> None:
        """Look at everything that is connected: what its record, its token and its job say now."""
        now = time.time()
        for session in self._registry.runners.values():
            if (session.principal.expires_at or now) < now - LEEWAY:
                session.socket.drop(Unauthenticated("the token of this connection has expired: renew it in time"))
        await places.refresh(self._server)
        refs = list(self._registry.executors)
        for row in await self._server.db.read(lambda tx: _jobs_of(tx, refs)) if refs else ():
            if executor := self._registry.executors.get(AttemptRef(row["id"], row["own"])):
                if row["status"] not in ACTIVE or row["attempt"] != row["own"]:
                    executor.supersede()
                elif row["cancel_mode"] is not None:
                    executor.cancel(row["cancel_mode"])

    async def _cancel(self, job_id: str) -> None:
        """To the executor; through the runner only where that cannot be reached."""
        job = await self._server.db.read(lambda tx: tx.one(_JOB, id=job_id))
        if job is None or job["status"] not in ACTIVE or job["cancel_mode"] is None:
            return
        if executor := self._registry.executors.get(AttemptRef(job_id, job["attempt"])):
            executor.cancel(job["cancel_mode"])
        elif runner := self._registry.runners.get(job["instance_id"]):
            runner.socket.post(messages.CancelAttempt(job_id, job["attempt"], job["cancel_mode"]))

    def _ended(self, key: str) -> None:
        job_id, _, attempt = key.partition(" ")
        if executor := self._registry.executors.get(AttemptRef(job_id, int(attempt))):
            executor.supersede()

    async def _revoked(self, key: str) -> None:
        """A secret of this runner or service account is no longer good: its connections must show a good one."""
        for session in list(self._registry.runners.values()):
            is_meant = key in (session.runner_id, session.principal.id)
            if is_meant or (not key and not await self._server.identity.tokens.is_live(session.principal)):
                session.socket.drop(Unauthenticated("the credential of this connection was revoked"))


async def _jobs_of(tx: Tx, refs: list[AttemptRef]) -> list[Row]:
    return await tx.each(_JOBS, {"job_id": "text", "attempt": "bigint"}, [(ref.job_id, ref.attempt) for ref in refs])
