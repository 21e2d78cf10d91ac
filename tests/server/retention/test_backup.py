"""A backup that is made while logs are moved and removed has every log, in its rows or in its objects."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from terracrew.api.operations import RetentionPolicy
from terracrew.server.app import build, close
from terracrew.server.logs import reads
from terracrew.server.logs.mover import Mover
from terracrew.server.maintenance import backup
from terracrew.server.retention import deletion, passes
from terracrew.settings.server import ServerSettings
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, log
from tests.server.application import KEY, Application, open_application, settings_for
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner


@pytest.fixture
async def application(tmp_path: Path, clock: ShiftedClock) -> AsyncIterator[Application]:
    async with open_application(str(tmp_path / "data" / "terracrew.db"), tmp_path / "data", clock=clock) as opened:
        yield opened


async def ended(runner: SimulatedRunner, text: str) -> SimulatedAttempt:
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log(text), DONE)
    return attempt


async def test_logs_that_move_or_go_between_the_copy_of_the_database_and_that_of_the_objects_are_in_the_backup(
    application: Application, clock: ShiftedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew, server, loop = await SimulatedRunner.make(application), application.server, asyncio.get_running_loop()
    first, second = await ended(crew, "moved before\n"), await ended(crew, "in rows\n")
    mover = Mover(server.db, server.objects, server.settings.uploads, server.id, 0.0)
    await mover.move(first.ref.job_id, 1)

    async def meanwhile() -> None:
        await mover.move(second.ref.job_id, 1)
        clock.advance(2 * 86400)

        async def renew() -> bool:
            return True

        assert (await passes.remove_due(server.db, RetentionPolicy(logs_days=1), renew))["logs"].count == 2
        await deletion.delete_due(server.db, server.objects, server.settings.object_deletion_delay_hours * 3600)

    copy_objects = backup.copy_objects

    def later(settings: ServerSettings, target: Path, left_out: list[str]) -> int:
        asyncio.run_coroutine_threadsafe(meanwhile(), loop).result(30)
        return copy_objects(settings, target, left_out)

    monkeypatch.setattr(backup, "copy_objects", later)
    target = tmp_path / "backup"
    await asyncio.to_thread(backup.make, server.settings, target)
    assert (await application.admin.get(f"/api/v1/jobs/{first.ref.job_id}/log")).text.startswith("This log was removed")
    restored = await build(settings_for(target, master_key=KEY))
    try:
        for attempt, text in ((first, b"moved before\n"), (second, b"in rows\n")):
            found = reads.text(restored.db, restored.objects, attempt.ref.job_id, 1)
            assert b"".join([piece async for piece in found]) == text
    finally:
        await close(restored)
