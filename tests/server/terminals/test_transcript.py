"""The bytes of a log at an offset never change, whichever server assembles them."""

import random
import time
from datetime import timedelta

import pytest

from terracrew.protocol import events
from terracrew.protocol.events import Kind, Record, Stream
from terracrew.protocol.spec import Step
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.jobs import service
from terracrew.server.objects import Objects, open_objects
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runs.reasons import Watch
from terracrew.server.terminals import transcript
from terracrew.server.terminals.model import Phase
from terracrew.server.terminals.transcript import Transcripts
from tests.builders.deliveries import DONE, delivery, log
from tests.builders.job_rows import JobRows

pytestmark = pytest.mark.feature("K5.same")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(transcript.words, "MIN_WAIT_SECONDS", 0.0)


@pytest.fixture
def objects() -> Objects:
    return open_objects("memory:///")


def server(database: Database, objects: Objects) -> Transcripts:
    return Transcripts(database, objects, Watch(Registry(), timedelta(seconds=60)), "https://terracrew.test")


def changing(text: str) -> Record:
    return next(events.unpack(events.pack(Kind.LOG, Stream.OUTPUT, Step.APPLY, time.time(), text.encode())))


class Reader:
    """A command line that reads a log, each time from a server of its choice."""

    def __init__(self, *servers: Transcripts, phase: Phase = "plan", is_divided: bool = False) -> None:
        self.servers, self.is_divided = servers, is_divided
        self.phase: Phase = phase
        self.read = b""

    async def go_on(self, job_id: str, limit: int = 1 << 16, rounds: int = 20) -> bytes:
        for _ in range(rounds):
            found = await random.choice(self.servers).read(
                job_id, self.phase, len(self.read), limit, is_divided=self.is_divided
            )
            self.read += found
        return self.read


async def test_two_servers_and_a_restarted_one_show_the_same_bytes(database: Database, objects: Objects) -> None:
    rows = await JobRows.make(database)
    job_id = await rows.job(await rows.module())
    one, two = server(database, objects), server(database, objects)
    reader, slow = Reader(one, two), Reader(two)
    waiting = await reader.go_on(job_id)
    assert waiting.startswith(b"\x02")
    assert b"runner" in waiting.lower(), "what it waits for"
    runner = await rows.runner()
    ref = await runner.start(job_id)
    await rows.take(delivery(ref, 2, log("one\n"), log("two\n")))
    await reader.go_on(job_id, limit=7, rounds=100)
    await slow.go_on(job_id, rounds=1)
    await rows.gone(ref)
    await reader.go_on(job_id)
    again = await runner.start(job_id, 2)
    await rows.take(delivery(again, 2, log("three\n"), DONE))
    whole = await reader.go_on(job_id, limit=5, rounds=200)
    assert whole.endswith(b"\x03")
    assert b"one\ntwo\n" in whole
    assert whole.index(b"two\n") < whole.index(b"three\n")
    assert await slow.go_on(job_id) == whole
    assert await Reader(server(database, objects)).go_on(job_id) == whole, "a server that has just started"


async def test_lines_that_arrive_after_the_next_attempt_has_begun_change_nothing(
    database: Database, objects: Objects
) -> None:
    rows = await JobRows.make(database)
    job_id = await rows.job(await rows.module())
    runner = await rows.runner()
    ref = await runner.start(job_id)
    await rows.take(delivery(ref, 2, log("early\n")))
    await rows.gone(ref)
    reader = Reader(server(database, objects))
    before = await reader.go_on(job_id)
    await rows.take(delivery(ref, 3, log("late\n")))
    again = await runner.start(job_id, 2)
    await rows.take(delivery(again, 2, log("second\n"), DONE))
    whole = await reader.go_on(job_id)
    assert whole.startswith(before)
    assert await Reader(server(database, objects)).go_on(job_id) == whole


async def test_the_log_of_one_job_is_divided_where_the_change_begins(database: Database, objects: Objects) -> None:
    rows = await JobRows.make(database)
    job_id = await rows.job(await rows.module(), kind="APPLY")
    one = server(database, objects)
    plan, apply = Reader(one, is_divided=True), Reader(one, phase="apply", is_divided=True)
    ref = await (await rows.runner()).start(job_id)
    await rows.take(delivery(ref, 2, log("planned\n")))
    assert not (await plan.go_on(job_id)).endswith(b"\x03")
    assert await apply.go_on(job_id) == b"", "the apply has not begun"
    await rows.take(delivery(ref, 3, changing("applying\n")))
    assert await plan.go_on(job_id) == b"\x02planned\n\x03"
    await rows.take(delivery(ref, 4, changing("applied\n"), DONE))
    shown = await apply.go_on(job_id)
    assert shown.count(b"\n") == 3 + 2, "clients leave out the first three lines"
    assert shown.endswith(b"\n\napplying\napplied\n\x03")


async def test_a_job_that_ends_before_it_has_a_runner_ends_its_log(database: Database, objects: Objects) -> None:
    rows = await JobRows.make(database)
    job_id = await rows.job(await rows.module())
    reader = Reader(server(database, objects))
    await reader.go_on(job_id)
    await service.cancel(rows.db, SYSTEM, job_id, "interrupt")
    assert (await reader.go_on(job_id)).endswith(b"\x03")
    assert b"is canceled" in reader.read
