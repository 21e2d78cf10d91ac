"""Carries what was decided to whom it concerns: cancellations, superseded attempts, changed records, revoked credentials."""

from typing import TYPE_CHECKING

from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import service as jobs

if TYPE_CHECKING:
    from terracrew.server.context import Server


class Messenger:
    def __init__(self, server: "Server") -> None:
        self._server = server

    async def run(self) -> None:
        with self._server.db.listen("cancel", "ended", "runners", "access") as wakeups:
            while True:
                await self.step(await wakeups.get())

    async def step(self, woken: set[tuple[str, str]]) -> None:
        for topic, key in woken:
            if topic == "cancel" and key:
                await self._cancel(key)
            elif topic == "ended" and key:
                self._ended(key)
            elif topic == "runners":
                await self._record_changed(key)
            elif topic == "access":
                self._revoked(key)

    async def _cancel(self, job_id: str) -> None:
        """To the executor; through the runner only where that cannot be reached."""
        job = await self._server.db.read(lambda tx: jobs.get(tx, job_id))
        if not job.is_active or job.cancel_mode is None or job.instance_id is None:
            return
        if executor := self._server.registry.executors.get(AttemptRef(job.id, job.attempt)):
            executor.cancel(job.cancel_mode)
        elif runner := self._server.registry.runners.get(job.instance_id):
            runner.socket.post(messages.CancelAttempt(job.id, job.attempt, job.cancel_mode))

    def _ended(self, key: str) -> None:
        job_id, _, attempt = key.partition(" ")
        ref = AttemptRef(job_id, int(attempt))
        if executor := self._server.registry.executors.get(ref):
            executor.socket.post(messages.Superseded("this attempt is no longer the current one"))

    async def _record_changed(self, runner_id: str) -> None:
        """Slots, drain and disable take effect on the open connections; a removed record ends them."""
        sessions = list(self._server.registry.of_runner.get(runner_id, {}).values())
        if not sessions:
            return

        async def read(tx: Tx) -> tuple[bool, int, dict[str, tuple[int, bool]]] | None:
            row = await tx.one(
                "SELECT max_jobs, is_draining OR is_disabled AS is_closed FROM runners WHERE id = :id", id=runner_id
            )
            if row is None:
                return None
            rows = await tx.all("SELECT id, capacity, is_draining FROM instances WHERE runner_id = :id", id=runner_id)
            own = {one["id"]: (one["capacity"], bool(one["is_draining"])) for one in rows}
            return bool(row["is_closed"]), row["max_jobs"], own

        found = await self._server.db.read(read)
        for session in sessions:
            if found is None:
                await session.socket.refuse("not_found", "this runner has been removed")
                continue
            is_closed, max_jobs, own = found
            capacity, is_draining = own.get(session.instance_id, (session.slots, False))
            session.slots = min(capacity, max_jobs)
            session.takes_jobs = not (is_closed or is_draining)
            self._server.scheduler.serve(session)

    def _revoked(self, key: str) -> None:
        """A secret of this runner or service account is no longer good: its connections must show a good one."""
        for session in self._server.registry.runners.values():
            if key in (session.runner_id, session.principal_id):
                session.socket.drop()
