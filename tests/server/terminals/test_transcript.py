"""The bytes of a log at an offset never change, whichever server assembles them."""

import asyncio
import random
import time
from datetime import timedelta

import pytest

from terracrew.api.job_views import Reason
from terracrew.protocol import events
from terracrew.protocol.events import Kind, Record, Stream
from terracrew.protocol.spec import Step
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import service
from terracrew.server.objects import Objects, open_objects
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runs import reasons
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


async def test_lines_that_arrive_after_the_job_has_ended_change_nothing(database: Database, objects: Objects) -> None:
    rows = await JobRows.make(database)
    job_id = await rows.job(await rows.module())
    ref = await (await rows.runner()).start(job_id)
    await rows.take(delivery(ref, 2, log("early\n")))
    reader = Reader(server(database, objects))
    await reader.go_on(job_id)
    await service.cancel(rows.db, SYSTEM, job_id, "interrupt")
    await rows.gone(ref)
    whole = await reader.go_on(job_id)
    assert whole.endswith(b"\x03")
    await rows.take(delivery(ref, 3, log("late\n")))
    restarted = Transcripts(database, objects, Watch(Registry(), timedelta(seconds=60)), "https://moved.test")
    assert await Reader(restarted).go_on(job_id) == whole, "a server that has just started, at another address"


async def test_lines_that_arrive_while_two_servers_read_on_are_in_both_logs_or_in_none(
    database: Database, objects: Objects
) -> None:
    rows = await JobRows.make(database)
    job_id = await rows.job(await rows.module())
    runner = await rows.runner()
    ref = await runner.start(job_id)
    one, two = Reader(server(database, objects)), Reader(server(database, objects))
    await rows.take(delivery(ref, 2, log("early\n")))
    await one.go_on(job_id)
    await rows.gone(ref)

    async def deliver() -> None:
        for number in range(3, 13):
            await rows.take(delivery(ref, number, log(f"{number}\n")))

    await asyncio.gather(one.go_on(job_id), deliver(), two.go_on(job_id))
    again = await runner.start(job_id, 2)
    await rows.take(delivery(again, 2, DONE))
    assert await one.go_on(job_id) == await two.go_on(job_id)
    assert one.read.endswith(b"\x03")


async def test_two_servers_that_say_something_at_once_say_the_same(
    database: Database, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = await JobRows.make(database)
    job_id = await rows.job(await rows.module())
    one, two = Reader(server(database, objects)), Reader(server(database, objects))
    said = 0

    async def why(tx: Tx, job: object, watch: Watch) -> Reason:
        nonlocal said
        said += 1
        mine = said
        for _ in range(0 if database.kind == "sqlite" else 50):  # PostgreSQL has both of them here at once
            if said < 2:
                await asyncio.sleep(0.01)
        return Reason("all_full", f"reason {mine}", "")

    monkeypatch.setattr(reasons, "why", why)
    await asyncio.gather(one.go_on(job_id, rounds=1), two.go_on(job_id, rounds=1))
    shorter, longer = sorted((one.read, two.read), key=len)
    assert b"Reason 1" in longer or b"Reason 2" in longer
    assert longer.startswith(shorter)


async def test_what_follows_a_removed_part_keeps_its_place(database: Database, objects: Objects) -> None:
    rows = await JobRows.make(database)
    job_id = await rows.job(await rows.module())
    runner = await rows.runner()
    ref = await runner.start(job_id)
    await rows.take(delivery(ref, 2, log("the first attempt has these lines\n" * 3)))
    known = server(database, objects)
    await rows.gone(ref)
    again = await runner.start(job_id, 2)
    await rows.take(delivery(again, 2, log("second\n"), DONE))
    whole = await Reader(server(database, objects)).go_on(job_id)
    assert await known.read(job_id, "plan", 0, 1, is_divided=False) == b"\x02", "it has found its places"
    await rows.run("DELETE FROM log_chunks WHERE job_id = :id AND attempt = 1", id=job_id)
    found = await Reader(known).go_on(job_id)
    assert len(found) == len(whole)
    assert b"is not stored any more" in found
    assert found.endswith(b"second\n\x03")


async def test_a_part_of_a_log_is_decoded_once(
    database: Database, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = await JobRows.make(database)
    job_id = await rows.job(await rows.module())
    ref = await (await rows.runner()).start(job_id)
    lines = [log(f"{number:015}\n" * 512) for number in range(64)]
    await rows.take(delivery(ref, 2, *lines, DONE))
    known = server(database, objects)
    await known.read(job_id, "plan", 0, 1, is_divided=False)
    pages = 0
    read_page = transcript.reads.read_page

    async def counted(*arguments: object) -> object:
        nonlocal pages
        pages += 1
        return await read_page(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(transcript.reads, "read_page", counted)
    reader = Reader(known)
    whole = await reader.go_on(job_id, limit=4096, rounds=140)
    assert whole == b"\x02" + b"".join(each.payload for each in lines) + b"\x03"
    assert pages <= 2
