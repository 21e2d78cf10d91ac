"""Registers connections that lead nowhere, in a registry whose clock the test moves."""

from typing import Any

from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import ExecutorSession, Registry, RunnerSession
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.principals.model import SYSTEM
from tests.builders.clock import ManualClock
from tests.builders.job_rows import Instance

LONG = 1_000.0
"""What the database knows is so old that it says nothing."""


class Nobody:
    """The socket of a session that is not connected to anything."""

    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.is_silent = False

    def post(self, message: Any) -> None:
        self.posted.append(message)

    def drop(self, why: Exception) -> None:
        self.posted.append(why)


def runner(instance: Instance | str = "ins_1") -> RunnerSession:
    instance_id = instance if isinstance(instance, str) else instance.id
    return RunnerSession(
        Nobody(),
        SYSTEM,
        runner_id="rnr_1",
        instance_id=instance_id,
        name="one",
        epoch=1,
        engines=AvailableEngines((("tofu", ("1",)),)),
        slots=4,  # pyright: ignore[reportArgumentType]
    )


def executor(ref: AttemptRef) -> ExecutorSession:
    return ExecutorSession(Nobody(), ref)  # pyright: ignore[reportArgumentType]


REF = AttemptRef("job_1", 1)


class Watched:
    """A registry whose server has looked at its attempts every second for a long time."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000.0)
        self.registry = Registry(self.clock)
        self.session = runner()
        self.session.active_jobs = {REF.job_id}
        self.registry.add(self.session)
        self.wait(LONG)

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.clock.now += 1
            self.registry.note_check()

    def silence(self) -> tuple[float, bool]:
        return self.registry.silence(REF, self.session.instance_id, LONG)
