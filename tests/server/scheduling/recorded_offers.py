"""Connects instances that record which jobs they are offered."""

from collections.abc import Sequence
from typing import Any

from terracrew.protocol.messages import Offer
from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.principals.model import SYSTEM
from terracrew.server.scheduling.scheduler import Scheduler
from terracrew.testing.job_rows import Instance, JobRows


class Socket:
    """The end of a connection that keeps what it is sent."""

    is_silent = False

    def __init__(self) -> None:
        self.offers: list[str] = []

    def post(self, message: Any) -> None:
        assert isinstance(message, Offer)
        self.offers.append(message.job_id)


class OfferRecorder:
    def __init__(self, rows: JobRows) -> None:
        self.rows = rows
        self.registry = Registry()
        self.scheduler = Scheduler(rows.db, self.registry)

    def connect(
        self, instance: Instance, slots: int = 4, name: str = "one", tags: Sequence[str] = ()
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
        self.registry.add(session)
        return session, socket
