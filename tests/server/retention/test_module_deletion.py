"""A deleted module with a long history is gone at once, nobody waits for that, and in the end nothing of it is left."""

import asyncio
import time
from typing import Any

import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.logs.mover import Mover
from terracrew.server.retention import deletion
from terracrew.server.state.model import MAX_INLINE_BYTES
from terracrew.server.tree.modules import service
from tests.builders.deliveries import DONE, RUNNING, log
from tests.builders.job_rows import change_modules, change_organizations
from tests.server.simulated_runner import SimulatedRunner

TABLES = ("jobs", "attempts", "steps", "notes", "log_chunks", "log_objects", "states", "outputs", "plans")


async def left(runner: SimulatedRunner) -> dict[str, int]:
    found = {table: await runner.app.scalar(f"SELECT count(*) FROM {table}") for table in TABLES}
    return {table: count for table, count in found.items() if count}


async def stored(runner: SimulatedRunner) -> list[str]:
    """The names of all logs and states in the object store."""
    listing = runner.server.objects.listing
    return [each.name for kind in ("logs", "states") async for page in listing(kind) for each in page]


async def delete(runner: SimulatedRunner, module_id: str) -> None:
    answer = await runner.app.admin.delete(f"/api/v1/modules/{module_id}", params={"force": True})
    assert answer.status_code == 204, answer.text


class Counted:
    """A transaction that notes how many rows each deletion touches."""

    def __init__(self, tx: Tx, touched: list[int]) -> None:
        self._tx, self._touched = tx, touched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def run(self, sql: Any, **params: Any) -> int:
        count = await self._tx.run(sql, **params)
        self._touched.append(count)
        return count


async def test_a_module_with_a_million_lines_is_gone_at_once_and_other_writes_stay_quick(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removing a module removed all of its log chunks in one unit of work, and every other write waited for it."""
    monkeypatch.setattr(deletion, "BATCH_ROWS", 25)
    attempt = await runner.run()
    db = runner.server.db
    block = "".join(f"line {n}\n" for n in range(500))
    for _ in range(40):
        await attempt.deliver(*(log(block) for _ in range(50)))
    for n in range(300):
        await attempt.deliver(log(f"{n}\n"))
    await attempt.deliver(DONE)
    assert await runner.app.scalar("SELECT lines FROM attempts") >= 1_000_000
    began = time.perf_counter()
    await delete(runner, attempt.module_id)
    assert time.perf_counter() - began < 1.0
    await runner.app.admin.refused("GET", f"/api/v1/modules/{attempt.module_id}", 404)

    touched: list[int] = []
    write = db.write

    async def counted(work: Any) -> Any:
        return await write(lambda tx: work(Counted(tx, touched)))

    monkeypatch.setattr(db, "write", counted)
    removing = asyncio.create_task(deletion.remove_deleted(db))
    waits: list[float] = []
    while not removing.done():
        began = time.perf_counter()
        await write(lambda tx: change_organizations(tx, next_job_number=1000))
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.001)
    assert await removing == 1
    assert max(touched) <= deletion.BATCH_ROWS
    assert len(touched) > 10
    assert sorted(waits)[len(waits) // 2] < 0.1
    assert await left(runner) == {}
    assert await runner.app.scalar("SELECT count(*) FROM modules") == 0


async def test_nobody_sees_jobs_states_or_logs_of_a_deleted_module_while_they_are_removed(
    runner: SimulatedRunner,
) -> None:
    attempt = await runner.begun()
    await attempt.write(b'{"version": 4}')
    await attempt.deliver(log("printed\n"), DONE)
    state = await runner.app.scalar("SELECT id FROM states")
    path = "a-module"
    await change_modules(runner.server.db, path=path, name=path)
    await delete(runner, attempt.module_id)
    admin, job = runner.app.admin, attempt.ref.job_id
    for address in (
        f"/api/v1/modules/{path.replace('/', '%2F')}",
        f"/api/v1/jobs/{job}",
        f"/api/v1/jobs/{job}/log",
        f"/api/v1/jobs/{job}/attempts/1",
        f"/api/v1/states/{state}",
    ):
        await admin.refused("GET", address, 404)
    assert (await admin.get("/api/v1/jobs")).json()["items"] == []
    assert (await admin.get("/api/v1/modules")).json()["items"] == []
    assert job not in (await admin.get("/dashboard/jobs")).text
    # The path is free, and what has it now is another module.
    again = await admin.post(
        "/api/v1/modules", json={"path": path, "source": {"kind": "local", "path": "/srv/sources"}}
    )
    assert again.status_code == 201, again.text


@pytest.mark.parametrize("operations", [1, 2, 3, 5, 8])
async def test_a_deletion_goes_on_after_a_restart_and_leaves_no_row_and_no_object(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch, operations: int
) -> None:
    monkeypatch.setattr(deletion, "BATCH_ROWS", 3)
    server = runner.server
    attempt = await runner.begun()
    await attempt.write(b'{"version": 4, "serial": 1}' + b" " * MAX_INLINE_BYTES)
    for n in range(10):
        await attempt.deliver(log(f"{n}\n"))
    await attempt.deliver(DONE)
    other = await runner.run(attempt.module_id)
    await other.deliver(log("moved\n"), DONE)
    await Mover(server.db, server.objects, server.settings.uploads, server.id, 0.0).move(other.ref.job_id, 1)
    assert len(await stored(runner)) == 2
    kept = await runner.run()  # of another module
    await delete(runner, attempt.module_id)
    write, done = server.db.write, 0

    async def limited(work: Any) -> Any:
        nonlocal done
        if done == operations:
            raise ConnectionResetError("the server is stopped here")
        done += 1
        return await write(work)

    with monkeypatch.context() as stopped:
        stopped.setattr(server.db, "write", limited)
        with pytest.raises(ConnectionResetError):
            await deletion.remove_deleted(server.db)
    assert await deletion.remove_deleted(server.db) == 1
    assert await left(runner) == {"jobs": 1, "attempts": 1}
    assert (await runner.app.admin.get(f"/api/v1/jobs/{kept.ref.job_id}")).status_code == 200
    assert await deletion.delete_due(server.db, server.objects, 3600.0) == 0  # a backup may need them
    assert await deletion.delete_due(server.db, server.objects, 0.0) == 2
    assert await stored(runner) == []


async def test_a_late_delivery_to_a_deleted_module_is_refused_and_leaves_nothing(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log("one\n"))
    await runner.app.admin.post(f"/api/v1/jobs/{attempt.ref.job_id}/cancel", json={"mode": "kill"})
    await attempt.lose()
    await delete(runner, attempt.module_id)
    await deletion.remove_deleted(runner.server.db)
    with pytest.raises(Exception, match="no attempt"):
        await attempt.deliver(log("late\n"))
    assert await left(runner) == {}


async def test_a_job_that_was_queued_while_its_module_was_deleted_is_never_run(runner: SimulatedRunner) -> None:
    """It could be claimed, and applied against no state at all, until the loop that removes the module canceled it."""
    module_id = await runner.rows.module()
    job_id = await runner.rows.job(module_id, kind="APPLY")
    await runner.server.db.write(lambda tx: service.hide(tx, module_id))
    assert await runner.instance.claim(job_id) is None
    assert await deletion.remove_deleted(runner.server.db) == 0
    assert await runner.app.scalar("SELECT status FROM jobs") == "CANCELED"
    assert await deletion.remove_deleted(runner.server.db) == 1
    assert await left(runner) == {}
