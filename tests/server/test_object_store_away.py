"""While the object store is away, callers are told to come back, and what they sent is there when it is."""

import json
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from terracrew.errors import Unavailable
from terracrew.server import objects as server_objects
from terracrew.server import readiness
from terracrew.server.logs import mover
from terracrew.server.logs.mover import Mover
from terracrew.server.objects import open_objects
from terracrew.source_rules import archive
from tests.builders.deliveries import DONE, RUNNING, log
from tests.machine.s3 import CutStore, s3_emulator
from tests.machine.silent_server import silent_server
from tests.server.application import Application, metrics_headers, open_application
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

AWAY = "the object store does not answer"
REFUSAL = f"{AWAY}; try again in a moment"


@pytest.fixture(scope="module")
def emulator() -> Iterator[CutStore]:
    with s3_emulator() as store:
        yield store


@pytest.fixture
def s3(emulator: CutStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[CutStore]:
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(readiness, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "TIMEOUT_SECONDS", 10.0)
    yield emulator
    if emulator.is_cut.is_set():
        emulator.open()


@pytest.fixture
async def application(database_url: str, memory_path: Path, s3: CutStore) -> AsyncIterator[Application]:
    bucket = s3.make_bucket(f"bucket-{random.randbytes(6).hex()}")
    async with open_application(database_url, memory_path / "data", object_store=bucket) as opened:
        await opened.server.objects.try_out()
        yield opened


@pytest.mark.feature("O6.store")
async def test_a_log_whose_move_is_cut_stays_in_its_rows_and_moves_later(
    application: Application, s3: CutStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mover, "SETTLE_SECONDS", 0.0)
    server = application.server
    attempt, printed = await _ended(application)
    moving = Mover(server.db, server.objects, server.settings.uploads, server.id, 0.0)
    path = f"/api/v1/jobs/{attempt.ref.job_id}/log"

    s3.cut_after(100_000)
    with pytest.raises(Unavailable, match="does not answer"):
        await moving.step()
    assert s3.is_cut.is_set(), "in the middle of the object"
    assert (await application.admin.get(path)).text == printed, "it is in its rows"
    s3.open()
    assert await moving.step() == 1
    assert (await application.admin.get(path)).text == printed
    assert await application.scalar("SELECT count(*) FROM log_chunks") == 0

    s3.cut()
    for query in ("", "?format=events", "?line=3"):
        answer = await application.admin.get(path + query)
        assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (503, "unavailable", REFUSAL)
        assert 1 <= int(answer.headers["Retry-After"]) <= 5
    s3.open()
    assert (await application.admin.get(path)).text == printed
    assert "Traceback" not in caplog.text


async def test_a_reader_sees_that_a_log_broke_off_and_a_follower_gets_the_rest(
    application: Application, s3: CutStore
) -> None:
    server = application.server
    attempt, printed = await _ended(application)
    await Mover(server.db, server.objects, server.settings.uploads, server.id, 0.0).move(attempt.ref.job_id, 1)
    s3.cut_after(len(printed) * 2 // 5)
    async with attempt.crew.listening() as url, httpx.AsyncClient(headers=application.admin.headers) as reader:
        with pytest.raises(httpx.RemoteProtocolError):
            await reader.get(f"{url}/api/v1/jobs/{attempt.ref.job_id}/log")
    assert s3.is_cut.is_set()
    async with attempt.watched() as viewer:
        await viewer.next("ping")
        s3.open()
        seen = [json.loads(event.data) for event in await viewer.rest() if event.name == "log"]
    assert "".join(line["text"] for lines in seen for line in lines) == printed


@pytest.mark.feature("O6.store")
async def test_readiness_metric_and_pages_say_that_it_is_away(
    application: Application, s3: CutStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Symptom: "something went wrong on the server", 50 lines of traceback, and `/readyz` answered 200."""
    content = archive.pack(_source(tmp_path, random.randbytes(400_000)))
    probe, scrape = application.stranger("192.0.2.1"), metrics_headers(application.server)
    assert "terracrew_object_store_up 1.0" in (await probe.get("/metrics", headers=scrape)).text
    s3.cut_after(150_000)
    answer = await application.admin.post("/api/v1/archives", content=content)
    assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (503, "unavailable", REFUSAL)
    assert answer.headers["Retry-After"] == "3"
    assert s3.is_cut.is_set(), "in the middle of the upload"
    assert (await probe.get("/readyz")).json()["detail"] == AWAY
    assert (await probe.get("/healthz")).status_code == 200
    kept = await probe.get("/readyz?exclude=object_store")
    assert (kept.status_code, kept.json()) == (200, {"status": "ok", "warning": AWAY}), "a balancer keeps the server"
    assert (await probe.get("/readyz?exclude=database")).status_code == 400
    measured = (await probe.get("/metrics", headers=scrape)).text
    assert "terracrew_object_store_up 0.0" in measured
    assert 'terracrew_object_store_errors_total{kind="storage"}' in measured
    assert caplog.text.count("it does not answer at 127.0.0.1") == 1, "once, however many requests fail"
    assert "Traceback" not in caplog.text
    assert await application.scalar("SELECT count(*) FROM archives") == 0, "no row names what is not stored"
    someone = await logged_in(application)
    page = await someone.see("/dashboard/modules")
    assert "<b>The object store does not answer.</b> Until it works again" in page
    assert "nothing is lost" in page

    s3.open()
    assert (await probe.get("/readyz")).status_code == 200
    assert "terracrew_object_store_up 1.0" in (await probe.get("/metrics", headers=scrape)).text
    assert (await application.admin.post("/api/v1/archives", content=content)).status_code == 201
    assert caplog.text.count("the object store is back") == 1
    assert "object store" not in await someone.see("/dashboard/modules")


async def test_an_outage_is_noticed_before_somebody_needs_the_store(
    application: Application, s3: CutStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    objects = application.server.objects
    await objects.put("store/id", b"sto_1\n")
    objects.id = "sto_1"
    assert await objects.get_range("store/id", 99, 5) == b""
    s3.cut()
    with pytest.raises(Unavailable):
        await objects.check()
    assert objects.health.problem == AWAY
    s3.open()
    await objects.check()
    assert objects.health.problem == ""
    monkeypatch.setattr(server_objects, "CHECK_SECONDS", 0.1)
    with silent_server() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        hanging = open_objects("s3://bucket")
        hanging.id = "sto_1"
        with pytest.raises(Unavailable, match=AWAY):
            await hanging.check()
    assert caplog.text.count("reason='it does not answer (no answer in time)'") == 1


async def _ended(application: Application) -> tuple[SimulatedAttempt, str]:
    """A job that has printed three megabytes, of which half are left when they are compressed."""
    attempt = await (await SimulatedRunner.make(application)).run()
    lines = [f"{random.Random(number).randbytes(500).hex()}\n" for number in range(3000)]
    for start in range(0, len(lines), 500):
        await attempt.deliver(*(log(line) for line in lines[start : start + 500]), RUNNING)
    await attempt.deliver(DONE)
    return attempt, "".join(lines)


def _source(parent: Path, noise: bytes) -> Path:
    folder = parent / "source"
    folder.mkdir()
    (folder / "main.tf").write_text("")
    (folder / "noise").write_bytes(noise)
    return folder
