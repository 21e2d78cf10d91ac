"""Connects instances that always have credits, and records the claims that a scheduler begins for them."""

from collections.abc import Sequence
from typing import Any

from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.principals.model import SYSTEM
from terracrew.server.scheduling.queue import Waiting
from terracrew.server.scheduling.scheduler import Scheduler
from tests.builders.job_rows import Instance, JobRows

MANY_CREDITS = 1_000


class Socket:
    """The end of a connection that nothing is sent to, with the jobs that the scheduler has begun to claim for its instance."""

    is_silent = False

    def __init__(self) -> None:
        self.claims: list[str] = []

    def post(self, message: Any) -> None:
        raise AssertionError(f"{message} was sent")


def record(_: Scheduler, job: Waiting, session: RunnerSession) -> None:
    """Record a claim. It is decided when the test calls `claimed` or `unclaimed`."""
    assert isinstance(session.socket, Socket)
    session.socket.claims.append(job.id)


class ClaimRecorder:
    def __init__(self, rows: JobRows) -> None:
        self.rows = rows
        self.registry = Registry()
        self.scheduler = Scheduler(rows.db, self.registry, record)

    def connect(
        self, instance: Instance, slots: int = 4, name: str = "one", tags: Sequence[str] = ()
    ) -> tuple[RunnerSession, Socket]:
        return connect(self.registry, instance, slots, name, tags)


def connect(
    registry: Registry, instance: Instance, slots: int = 4, name: str = "one", tags: Sequence[str] = ()
) -> tuple[RunnerSession, Socket]:
    socket = Socket()
    session = RunnerSession(
        socket,  # pyright: ignore[reportArgumentType]
        SYSTEM,
        runner_id=instance.runner_id,
        instance_id=instance.id,
        name=name,
        epoch=1,
        engines=AvailableEngines((("tofu", ("1",)),)),
        slots=slots,
        tags=frozenset(tags),
    )
    session.credits = MANY_CREDITS
    registry.add(session)
    return session, socket
