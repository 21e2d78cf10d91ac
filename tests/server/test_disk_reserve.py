"""At the reserve of the server's disk, what is large waits, nothing is lost, and everything small still works."""

from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from terracrew.errors import Unavailable
from terracrew.protocol.events import Result
from terracrew.server.disk_reserve import DiskReserve, DiskSpace, measure
from tests.e2e.simulated_runner import batch
from tests.server.application import Application
from tests.server.hub.hub_clients import Hub
from tests.server.tree.modules.packed_modules import packed

FULL = DiskSpace(free_bytes=40_000_000, total_bytes=100_000_000_000)


def _full(_: Path) -> DiskSpace:
    return FULL


@pytest.mark.parametrize(
    ("space", "is_reached"),
    [
        (FULL, True),
        (DiskSpace(1_000_000_000, 100_000_000_000), False),
        (DiskSpace(999_000_000, 100_000_000_000), True),
        (DiskSpace(60_000_000, 1_000_000_000), False),
        (DiskSpace(40_000_000, 1_000_000_000), True),
    ],
    ids=["full", "at it", "below it", "a small disk", "a small disk that is full"],
)
def test_the_reserve_is_at_most_a_twentieth_of_the_disk(space: DiskSpace, is_reached: bool) -> None:
    reserve = DiskReserve([Path("/")], 1_000, lambda _: space)
    assert bool(reserve.problem) == is_reached
    assert not DiskReserve([Path("/")], 0, lambda _: space).problem


def test_a_folder_that_is_not_there_is_not_a_full_one(tmp_path: Path) -> None:
    assert not DiskReserve([tmp_path / "gone"], 1_000).problem
    with pytest.raises(Unavailable, match="0 MB free"):
        DiskReserve([tmp_path], 1_000, lambda _: DiskSpace(0, 10**9)).require()


async def test_deliveries_wait_on_the_runner_until_there_is_space_again(hub: Hub) -> None:
    """One job that printed without an end filled the server's disk, and then nothing of any organization could be stored."""
    job_id = await hub.job("PLAN")
    async with hub.runner() as runner:
        granted = await runner.granted(job_id)
    disk = hub.crew.server.disk
    disk.measure = _full
    async with hub.executor(granted) as executor:
        await executor.connection.send(batch(1, "a line\n"))
        with pytest.raises(ConnectionClosed):
            await executor.get("ack")
    assert await hub.crew.app.scalar("SELECT mark FROM attempts WHERE job_id = :id", id=job_id) == 0
    other = (await hub.crew.app.admin.get(f"/api/v1/jobs/{job_id}")).json()
    assert other["status"] in ("CLAIMED", "PROCESSING"), "it was not given up"
    disk.measure = measure
    async with hub.executor(granted) as executor:
        await executor.connection.send(batch(1, "a line\n", Result("FAILED", "over")))
        assert (await executor.get("ack"))["mark"] == 2
    assert "a line" in (await hub.crew.app.admin.get(f"/api/v1/jobs/{job_id}/log")).text


async def test_uploads_are_refused_for_now_and_small_requests_work(application: Application) -> None:
    source = {"kind": "local", "path": "/srv/sources/a"}
    module = await application.admin.made("/api/v1/modules", {"path": "a", "source": source})
    application.server.disk.measure = _full
    content = packed(("main.tf", b""))
    answer = await application.admin.post("/api/v1/archives", content=content)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 30
    assert "has 40 MB free, and 1,000 MB are reserved (disk_reserve_megabytes)" in answer.json()["detail"]
    wanted = {"target": "archive", "sha256": "ab" * 32, "size": 10}
    await application.admin.refused("PUT", "/api/v1/uploads", 503, json=wanted)
    await application.admin.made(f"/api/v1/modules/{module['id']}/jobs", {"type": "PLAN"})
    ready = await application.stranger().get("/readyz")
    assert ready.status_code == 200, "pages and decisions still work, so a load balancer keeps it"
    assert "has 40 MB free" in ready.json()["warning"]
    application.server.disk.measure = measure
    assert (await application.stranger().get("/readyz")).json() == {"status": "ok"}
    assert (await application.admin.post("/api/v1/archives", content=content)).status_code == 201
