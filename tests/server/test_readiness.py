"""A balancer is told whether this server takes work, and whether its process is alive."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.errors import Unavailable
from terracrew.server import readiness
from terracrew.server.db.seam import Tx
from terracrew.source_rules import archive
from tests.machine.needs import need
from tests.machine.postgres_server import OwnServer, missing
from tests.machine.small_disk import fill, mounted
from tests.server.application import Application, metrics_headers, on_one, open_application
from tests.server.metrics.counted import counted


@pytest.fixture(autouse=True)
def fresh_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "FRESH_SECONDS", 0.0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "8m") as folder:
        yield folder


async def test_it_is_not_ready_while_sqlite_refuses_writes(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/readyz` answered 200 while SQLite refused every write because the disk was full."""
    async with open_application(f"sqlite:///{disk / 'terracrew.db'}", disk / "data") as application:
        probe = application.stranger("192.0.2.1")
        assert (await probe.get("/readyz")).status_code == 200
        fill(disk / "ballast")
        answer = await probe.get("/readyz")
        for _ in range(50):  # the journal's file may still have room for a few small writes
            if answer.status_code == 503:
                break
            answer = await probe.get("/readyz")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert "takes no writes" in answer.json()["detail"]
        assert (await probe.get("/healthz")).status_code == 200
        (disk / "ballast").unlink()
        monkeypatch.setattr(readiness, "REFUSAL_SECONDS", -1.0)  # as if it were long ago
        assert (await probe.get("/readyz")).status_code == 200


@pytest.mark.feature("O6.database")
async def test_it_is_not_ready_while_the_object_store_refuses_writes(
    disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Symptom: `/readyz` answered 200, and each upload 500 with a traceback, while the disk of the object store was full."""
    url, place = f"sqlite:///{tmp_path / 'terracrew.db'}", (disk / "objects").as_uri()
    async with open_application(url, tmp_path / "data", object_store=place, disk_reserve_megabytes=0) as application:
        probe, content = application.stranger("192.0.2.1"), archive.pack(_folder(tmp_path, random.randbytes(100_000)))
        fill(disk / "ballast")
        for _ in range(3):
            answer = await application.admin.post("/api/v1/archives", content=content)
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert answer.json()["detail"] == "the object store takes no writes"
            assert (await probe.get("/readyz")).json()["detail"] == "the object store takes no writes"
        assert caplog.text.count("there is no space left") == 1
        assert "Traceback" not in caplog.text
        measured = (await probe.get("/metrics", headers=metrics_headers(application.server))).text
        assert 'terracrew_object_store_errors_total{kind="storage"} 6.0' in measured
        (disk / "ballast").unlink()
        assert (await probe.get("/readyz")).status_code == 200
        assert caplog.text.count("the object store takes writes again") == 1
        assert (await application.admin.post("/api/v1/archives", content=content)).status_code == 201
        assert not [each for each in (disk / "objects").rglob("*") if "probe" in each.name and each.is_file()]


async def test_a_full_disk_for_uploads_is_not_an_unexpected_error(
    disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_application(
        f"sqlite:///{tmp_path / 'terracrew.db'}", disk / "data", disk_reserve_megabytes=0
    ) as application:
        content = archive.pack(_folder(tmp_path, random.randbytes(3_000_000)))
        fill(disk / "ballast")
        answer = await application.admin.post("/api/v1/archives", content=content)
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert "Traceback" not in caplog.text


def _folder(parent: Path, content: bytes) -> Path:
    folder = parent / "source"
    folder.mkdir()
    (folder / "main.tf").write_text("")
    (folder / "large").write_bytes(content)
    return folder


@on_one
async def test_a_large_write_that_was_refused_counts_although_a_small_one_finds_room(application: Application) -> None:
    application.server.db.health.refused("storage", "database or disk is full")
    answer = await application.stranger().get("/readyz")
    assert (answer.status_code, answer.json()["detail"]) == (503, "the database takes no writes")


@on_one
async def test_the_address_of_the_database_is_told_to_the_log_and_to_nobody_else(
    application: Application, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`/readyz`, which needs no credentials, answered with the name and the address of the database's host."""

    async def refuse(_: Tx) -> None:
        raise Unavailable("PostgreSQL does not answer: connection to 192.0.2.7 (db.internal) failed")

    monkeypatch.setattr(readiness, "probe", refuse)
    for _ in range(3):
        answer = await application.stranger().get("/readyz")
        assert (answer.status_code, answer.json()["detail"]) == (503, "the database takes no writes")
        assert "192.0.2.7" not in answer.text
    assert caplog.text.count("db.internal") == 1, "once, however many probes ask"


async def test_any_number_of_probes_causes_one_write(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "FRESH_SECONDS", 60.0)
    before = counted(application.server.db.health.commits)
    for _ in range(20):
        assert (await application.stranger().get("/readyz")).status_code == 200
    assert counted(application.server.db.health.commits) == before + 1


@pytest.mark.postgres
async def test_the_process_lives_whatever_credentials_a_probe_sends(tmp_path: Path) -> None:
    """`/healthz` with a bearer token answered 503 while the database was away."""
    need(missing())
    with OwnServer.making() as postgres, postgres.database() as url:
        async with open_application(url, tmp_path / "data") as application:
            assert (await application.admin.get("/healthz")).status_code == 200
            postgres.stop()
            assert (await application.admin.get("/healthz")).json() == {"status": "ok"}
            assert (await application.stranger().get("/healthz", headers={"Cookie": "tc_session=x"})).status_code == 200
            answer = await application.admin.get("/readyz")
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            postgres.start()


async def test_what_is_counted_on_a_commit_is_not_counted_without_one(application: Application) -> None:
    counted: list[str] = []

    async def work(tx: Tx) -> None:
        tx.on_commit(lambda: counted.append("committed"))
        tx.on_failure(lambda: counted.append("failed"))
        await tx.run("DELETE FROM leases")

    async def failing(tx: Tx) -> None:
        await work(tx)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await application.server.db.write(failing)
    assert counted == ["failed"]
    await application.server.db.write(work)
    assert counted == ["failed", "committed"]


async def test_a_long_read_in_the_background_sees_what_is_committed(application: Application) -> None:
    row = await application.server.db.read_in_background(lambda tx: tx.one("SELECT count(*) AS users FROM users"))
    assert row == {"users": 1}
