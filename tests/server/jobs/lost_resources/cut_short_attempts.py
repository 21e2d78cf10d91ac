"""Builds attempts whose engines were cut short in a change."""

import time

from terracrew.protocol import events
from terracrew.protocol.events import Kind, Record, Stream
from terracrew.protocol.spec import Step
from terracrew.server.connections.registry import Registry
from terracrew.server.jobs import decide
from terracrew.server.jobs.reaper import Reaper
from tests.builders.clock import ManualClock, ShiftedClock
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

HOUR_SECONDS = 3600.0
LINES = """\
a.x: Creating...
a.x: Creation complete after 0s [id=x-1]
a.y: Destroying... [id=y-1]
a.y: Destruction complete after 0s
a.z: Creating...
"""


def printed(text: str, step: Step = Step.APPLY) -> Record:
    return next(events.unpack(events.pack(Kind.LOG, Stream.OUTPUT, step, time.time(), text.encode())))


async def cut_short(runner: SimulatedRunner, *records: Record) -> SimulatedAttempt:
    attempt = await runner.begun()
    await attempt.deliver(*records)
    await attempt.lose()
    return attempt


async def lose_contact(attempt: SimulatedAttempt, clock: ShiftedClock, *, after: float) -> None:
    """The machine is gone for good some seconds after the last event of the attempt had arrived, and the attempt counts as lost."""
    clock.advance(after)
    await attempt.crew.instance.heartbeat(attempt.ref)
    clock.advance(HOUR_SECONDS)
    watched = ManualClock(0.0)
    registry = Registry(clock=watched)
    while watched.now < 2 * decide.SILENT_FOR.total_seconds():
        watched.advance(4)
        registry.note_check()
    await Reaper(attempt.crew.server.db, registry, decide.APPLY_LEASE).step()
