"""Builds attempts whose engines were cut short in a change."""

import time

from terracrew.protocol import events
from terracrew.protocol.events import Kind, Record, Stream
from terracrew.protocol.spec import Step
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

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
