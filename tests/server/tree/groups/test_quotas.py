"""One organization cannot fill the server: its queued jobs, archives and logs have quotas, and a refusal says which one it is."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, log
from tests.builders.job_rows import change_organizations
from tests.server.application import Application, open_application
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.modules.packed_modules import packed

SOURCE = {"kind": "local", "path": "/srv/sources/a"}


@pytest.fixture
async def small(
    database_url: str, memory_path: Path, database_clock: ShiftedClock | None
) -> AsyncIterator[Application]:
    """A server whose organizations may have little."""
    async with open_application(
        database_url,
        memory_path / "small",
        clock=database_clock,
        local_roots=(Path("/srv/sources"),),
        max_queued_jobs_per_organization=5,
        max_archive_megabytes_per_organization=1,
        max_log_megabytes_per_organization=1,
        max_log_megabytes_per_attempt=5,
    ) as opened:
        yield opened


async def _module(application: Application) -> str:
    return (await application.admin.made("/api/v1/modules", {"path": "a", "source": SOURCE}))["id"]


async def test_an_organization_queues_no_more_jobs_than_its_quota(small: Application) -> None:
    """An operator could queue any number of jobs: 400 of 400 were accepted."""
    path = f"/api/v1/modules/{await _module(small)}/jobs"
    answers = await asyncio.gather(*(small.admin.post(path, json={"type": "PLAN"}) for _ in range(12)))
    assert sorted(each.status_code for each in answers) == [201] * 5 + [409] * 7
    why = await small.admin.refused("POST", path, 409, json={"type": "PLAN"})
    assert "has 5 queued jobs, and its quota is 5" in why
    assert "max_queued_jobs_per_organization" in why
    job = next(each.json()["id"] for each in answers if each.status_code == 201)
    assert (await small.admin.post(f"/api/v1/jobs/{job}/cancel", json={})).is_success
    await small.admin.made(path, {"type": "PLAN"})
    other = await small.person("olga", "owner", organization="other")
    module = await other.made("/api/v1/modules", {"path": "b", "source": SOURCE})
    await other.made(f"/api/v1/modules/{module['id']}/jobs", {"type": "PLAN"})


async def test_a_request_that_is_repeated_with_its_key_is_answered_at_the_quota(small: Application) -> None:
    path = f"/api/v1/modules/{await _module(small)}/jobs"
    headers = {"Idempotency-Key": "first"}
    first = await small.admin.post(path, json={"type": "PLAN"}, headers=headers)
    for _ in range(4):
        await small.admin.made(path, {"type": "PLAN"})
    again = await small.admin.post(path, json={"type": "PLAN"}, headers=headers)
    assert again.json()["id"] == first.json()["id"]


async def test_an_organization_has_no_more_archives_than_its_quota(small: Application) -> None:
    content = packed(("main.tf", b""), ("noise", random.Random(1).randbytes(600_000)))
    assert (await small.admin.post("/api/v1/archives", content=content)).status_code == 201
    why = await small.admin.refused("POST", "/api/v1/archives", 409, content=content)
    assert f"have {len(content):,} bytes, and its quota is 1,000,000" in why
    assert "max_archive_megabytes_per_organization" in why
    assert await small.scalar("SELECT count(*) FROM archives") == 1
    assert len(await small.server.objects.names("archives/" + (await small.scalar("SELECT id FROM archives")))) <= 1
    assert list(small.server.settings.uploads.iterdir()) == []


async def test_an_organization_at_its_quota_of_logs_gets_no_new_jobs_and_loses_no_log(small: Application) -> None:
    runner = await SimulatedRunner.make(small)
    attempt = await runner.run()
    await change_organizations(small.server.db, next_job_number=100)
    await attempt.deliver(RUNNING)
    noise = random.Random(1)
    for _ in range(2):
        await attempt.deliver(log(noise.randbytes(260_000).hex() + "\n"))
    path = f"/api/v1/modules/{attempt.module_id}/jobs"
    await small.server.quotas.count_logs()
    await small.admin.made(path, {"type": "PLAN"})
    for _ in range(4):
        await attempt.deliver(log(noise.randbytes(260_000).hex() + "\n"))
    await small.server.quotas.count_logs()
    why = await small.admin.refused("POST", path, 409, json={"type": "PLAN"})
    assert "the logs of this organization have" in why
    assert "max_log_megabytes_per_organization" in why
    assert await attempt.deliver(log("the end\n"), DONE) == 9


async def test_a_server_cuts_the_log_of_an_attempt_at_the_limit_of_its_settings(small: Application) -> None:
    runner = await SimulatedRunner.make(small)
    attempt = await runner.run()
    for _ in range(12):
        await attempt.deliver(log("x" * 500_000 + "\n"))
    await attempt.deliver(DONE)
    text = (await small.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/log")).text
    assert "The rest of this log is not stored, because it has reached 5 MB" in text
    assert len(text) < 5_100_000
