"""Objects that nothing refers to are removed, but not those of an upload or an attempt in progress."""

import os
import time
from pathlib import Path
from typing import Any

from terracrew.api.operations import Tally
from terracrew.server.retention import orphans, store
from terracrew.server.state.model import MAX_INLINE_BYTES
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, log
from tests.server.simulated_runner import SimulatedRunner

LATE_SECONDS = 7 * 86400.0


async def sweep(runner: SimulatedRunner, grace: float = 0.0, **options: Any) -> dict[str, Tally]:
    return await orphans.sweep(runner.server.db, runner.server.objects, LATE_SECONDS, grace_seconds=grace, **options)


async def put(runner: SimulatedRunner, *names: str) -> None:
    for name in names:
        await runner.server.objects.put(name, b"content")


async def exist(runner: SimulatedRunner, *names: str) -> list[bool]:
    return [await runner.server.objects.exists(name) for name in names]


async def test_what_a_lost_or_canceled_attempt_has_uploaded_is_swept_when_it_can_deliver_no_more(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    """Plan objects whose attempt was canceled or lost after its upload, and early uploads of states, were never deleted."""
    running, lost, ended = await runner.run(), await runner.run(), await runner.run()
    await running.deliver(RUNNING, log("x\n"))
    await lost.deliver(RUNNING)
    await lost.lose()
    await ended.deliver(RUNNING, DONE)
    name = {
        which: f"{{}}/{attempt.ref.job_id}/1/"
        for which, attempt in (("running", running), ("lost", lost), ("ended", ended))
    }
    plans = [name[which].format("plans") + "a" * 64 for which in ("running", "lost", "ended")]
    early = [name[which].format("states") + "9_" + "b" * 64 for which in ("running", "lost", "ended")]
    passed = name["running"].format("states") + "1_" + "c" * 64  # its event has arrived, without it
    left = [name["ended"].format("logs") + "1_a", "parts/upl_0/1"]  # of a move that was cut short, and of a part
    await put(runner, *plans, *early, passed, *left)
    assert await sweep(runner, grace=3600.0) == {}  # they may be in flight
    found = await sweep(runner, is_dry=True)
    assert found == {"logs": Tally(1, 7), "plans": Tally(2, 14), "states": Tally(2, 14), "parts": Tally(1, 7)}
    assert all(await exist(runner, *plans, *early, passed, *left))
    assert await sweep(runner) == found
    assert await exist(runner, *plans) == [True, False, False]
    assert await exist(runner, *early) == [True, True, False]
    assert await exist(runner, passed, *left) == [False] * 3
    clock.advance(LATE_SECONDS + 1)
    assert await sweep(runner) == {"states": Tally(1, 7)}
    assert await exist(runner, *early) == [True, False, False]


async def test_what_is_in_flight_is_not_swept_where_the_clock_of_the_store_is_months_behind(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    """Each new object counted as old, and was deleted before the row that names it was written."""
    clock.advance(
        120 * 86400.0
    )  # time does not start before the newest time that is stored, whatever the wall clock says
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log("x\n"), DONE)
    name = f"logs/{attempt.ref.job_id}/1/1_a"
    await put(runner, name)
    assert await sweep(runner, grace=86400.0) == {}
    assert await exist(runner, name) == [True]


async def test_what_another_database_may_need_is_not_swept(runner: SimulatedRunner) -> None:
    """A second server on the same store, or one that was restored from an older backup, deleted states of the first."""
    job = "job_01a1e05cd3ef720f887c495aad19af9d"
    foreign = [f"logs/{job}/1/1_a", f"states/{job}/1/1_a", f"plans/{job}/1/a", "archives/arc_0"]
    await put(runner, *foreign)
    assert await sweep(runner) == {}
    assert all(await exist(runner, *foreign))


async def test_a_state_whose_import_was_canceled_is_swept_after_a_month(runner: SimulatedRunner) -> None:
    """It was taken for an object of a job that another database knows, and stayed for ever."""
    attempt = await runner.begun()
    await attempt.deliver(DONE)
    given = b'{"version": 4, "serial": 1, "lineage": "a", "resources": []}' + b" " * MAX_INLINE_BYTES
    answer = await runner.app.admin.post(f"/api/v1/modules/{attempt.module_id}/states", content=given)
    assert answer.status_code == 201, answer.text
    named = str(await runner.app.scalar("SELECT object FROM states"))
    new, old = (f"states/sta_01a1e05cd3ef720f887c495aad19af9{digit}/0/0_{'a' * 64}" for digit in "de")
    await put(runner, new, old)
    for name, days in ((named, 40), (old, 31), (new, 29)):
        at = time.time() - days * 86400
        os.utime(Path(runner.server.settings.directory) / "objects" / name, (at, at))
    assert await sweep(runner, grace=3600.0) == {"states": Tally(1, 7)}
    assert await exist(runner, named, old, new) == [True, False, True]


async def test_what_a_row_names_is_not_swept(runner: SimulatedRunner) -> None:
    attempt = await runner.begun()
    await attempt.write(b'{"version": 4}' + b" " * MAX_INLINE_BYTES)
    await attempt.deliver(DONE)
    await put(runner, "logs/job_1/1/1_deleted")
    await runner.server.db.write(lambda tx: store.delete_later(tx, ["logs/job_1/1/1_deleted"]))
    assert await sweep(runner) == {}
    assert await runner.app.scalar("SELECT count(*) FROM states WHERE object IS NOT NULL") == 1
    assert (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")).status_code == 200


async def test_empty_folders_of_old_uploads_are_removed_and_can_be_made_again(runner: SimulatedRunner) -> None:
    """Empty directories parts/upl_… stayed for ever."""
    folder = Path(runner.server.settings.directory) / "objects" / "parts" / "upl_1"
    await put(runner, "parts/upl_1/0")
    await runner.server.objects.delete("parts/upl_1/0")
    assert folder.is_dir()
    assert await sweep(runner, grace=3600.0) == {}
    assert folder.is_dir()
    long_ago = time.time() - 7200
    os.utime(folder, (long_ago, long_ago))
    await sweep(runner, grace=3600.0)
    assert not folder.exists()
    await put(runner, "parts/upl_1/0")
    assert await runner.server.objects.get("parts/upl_1/0") == b"content"
