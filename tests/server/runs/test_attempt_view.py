"""The API shows what is known of an attempt."""

import pytest

from terracrew.server.db.seam import Work
from terracrew.testing.deliveries import log
from tests.server.simulated_runner import SimulatedRunner


async def test_the_view_of_an_attempt_reads_its_log_beside_the_event_loop(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 2 MiB of a log were read and searched on the event loop, and every other request waited for it."""
    attempt = await runner.begun()
    await attempt.deliver(log("a.x: Creating...\n"))
    reads: list[str] = []
    read_in_background = runner.server.db.read_in_background

    async def read(work: Work[object]) -> object:
        reads.append("background")
        return await read_in_background(work)

    monkeypatch.setattr(runner.server.db, "read_in_background", read)
    path = f"/api/v1/jobs/{attempt.ref.job_id}/attempts/1"
    found = (await runner.app.admin.get(path)).json()
    assert (found["made"], found["last_line"]) == (
        [{"address": "a.x", "action": "creating", "id": ""}],
        "a.x: Creating...",
    )
    assert reads == ["background"]
    assert (await runner.app.stranger().get(path)).status_code == 401
    assert (await runner.app.admin.get(path[:-1] + "2")).status_code == 404
