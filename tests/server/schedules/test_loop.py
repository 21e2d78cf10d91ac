"""Schedules start what they are for: once, with the permissions of a person, and never what is too late."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from terracrew.server.drift.loop import DriftChecks
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import change_users
from tests.server.application import Application, open_application
from tests.server.schedules.schedule_rows import jobs, made, shown, step, tree
from tests.server.simulated_runner import SimulatedRunner

HOUR_SECONDS, DAY_SECONDS = 3_600, 86_400


@pytest.mark.feature("M1.once", "M1.kinds")
async def test_two_servers_start_a_module_once_and_say_where_its_job_comes_from(
    application: Application, clock: ShiftedClock
) -> None:
    await tree(application)
    schedule = await made(application.admin)
    await step(application)
    assert await jobs(application) == []
    clock.advance(HOUR_SECONDS)
    await step(application, servers=3)
    [job] = await jobs(application)
    assert (job["type"], job["module_path"]) == ("PLAN", "team/one")
    found = await shown(application, schedule)
    assert (found["last_outcome"], found["last_job_id"]) == (f"queued job #{job['number']}: plan", job["id"])
    whole = (await application.admin.get(f"/api/v1/jobs/{job['id']}")).json()
    assert (whole["origin"]["kind"], whole["origin"]["name"], whole["origin"]["id"]) == (
        "schedule",
        "nightly",
        schedule,
    )
    assert datetime.fromisoformat(found["next_at"]) > datetime.now(UTC) + timedelta(seconds=60)


@pytest.mark.feature("M1.once")
async def test_a_missed_start_is_made_up_once_and_not_after_its_bound(
    application: Application, clock: ShiftedClock
) -> None:
    await tree(application)
    schedule = await made(application.admin, cron="0 * * * *", late_minutes=120)
    clock.advance(3 * 3600)  # three hours without a server, of which the first two starts are gone
    await step(application)
    found = await shown(application, schedule)
    assert found["is_last_problem"]
    assert "no server was running" in found["last_outcome"]
    assert await jobs(application) == []
    clock.advance(3600 + 1800)
    await step(application)
    await step(application)
    assert len(await jobs(application)) == 1


@pytest.mark.feature("M1.once")
async def test_a_clock_that_is_set_back_starts_nothing_twice_and_one_that_was_ahead_is_mended(
    application: Application, clock: ShiftedClock
) -> None:
    await tree(application)
    clock.advance(100 * DAY_SECONDS)
    schedule = await made(application.admin, cron="0 3 * * *")
    clock.advance(-100 * DAY_SECONDS)
    ahead = datetime.fromisoformat((await shown(application, schedule))["next_at"])
    await step(application)
    mended = datetime.fromisoformat((await shown(application, schedule))["next_at"])
    assert mended < datetime.now(UTC) + timedelta(days=1) < ahead
    clock.advance(DAY_SECONDS)
    await step(application)
    clock.advance(-3600)
    await step(application)
    assert len(await jobs(application)) == 1


@pytest.mark.feature("M1.permissions")
async def test_a_schedule_starts_nothing_that_its_changer_may_not_start_now(
    application: Application, clock: ShiftedClock
) -> None:
    await tree(application)
    ann = await application.person("ann", "operator", "team")
    schedule = await made(ann)
    assert (await shown(application, schedule))["changed_by_name"] == "ann"
    roles = await application.admin.listed("/api/v1/roles", principal="ann")
    assert (await application.admin.delete(f"/api/v1/roles/{roles[0]['id']}")).status_code == 204
    clock.advance(HOUR_SECONDS)
    await step(application)
    found = await shown(application, schedule)
    assert (found["is_last_problem"], await jobs(application)) == (True, [])
    assert found["last_outcome"].startswith("nothing was started: there is no group or module")
    await change_users(application.server.db, "ann", is_disabled=True)
    clock.advance(HOUR_SECONDS)
    await step(application)
    found = await shown(application, schedule)
    assert "ann, who changed the schedule last, may not run jobs any more" in found["last_outcome"]
    answer = await application.admin.patch(f"/api/v1/schedules/{schedule}", json={"late_minutes": 60})
    assert answer.json()["changed_by_name"] == "admin"
    clock.advance(HOUR_SECONDS)
    await step(application)
    assert len(await jobs(application)) == 1


@pytest.mark.feature("M1.once")
async def test_the_jobs_of_a_schedule_do_not_pile_up(application: Application, clock: ShiftedClock) -> None:
    await tree(application)
    schedule = await made(application.admin)
    for _ in range(3):
        clock.advance(HOUR_SECONDS)
        await step(application)
    [job] = await jobs(application)
    assert (
        f"job #{job['number']}, which it queued last time, is QUEUED"
        in (await shown(application, schedule))["last_outcome"]
    )


@pytest.mark.feature("M1.kinds")
async def test_a_group_gets_one_run_and_never_a_second_beside_it(application: Application, clock: ShiftedClock) -> None:
    await tree(application)
    schedule = await made(application.admin, "team", kind="APPLY")
    clock.advance(HOUR_SECONDS)
    await step(application)
    [run] = await application.admin.listed("/api/v1/groups/team/runs")
    found = await shown(application, schedule)
    assert (run["type"], found["last_group_run_id"], found["last_outcome"]) == (
        "APPLY",
        run["id"],
        "began to apply all modules",
    )
    clock.advance(HOUR_SECONDS)
    await step(application)
    assert len(await application.admin.listed("/api/v1/groups/team/runs")) == 1
    found = await shown(application, schedule)
    assert found["is_last_problem"]
    assert "which has not ended" in found["last_outcome"]


@pytest.mark.feature("M1.kinds")
async def test_a_destroy_keeps_the_approvals_of_its_module(runner: SimulatedRunner, clock: ShiftedClock) -> None:
    application = runner.app
    await tree(application)
    await application.admin.patch("/api/v1/modules/team%2Fone", json={"needs_approval": True})
    await made(application.admin, kind="DESTROY")
    clock.advance(HOUR_SECONDS)
    await step(application)
    [job] = await jobs(application)
    whole = (await application.admin.get(f"/api/v1/jobs/{job['id']}")).json()
    assert (whole["type"], whole["needs_approval"], whole["created_by"]) == (
        "DESTROY",
        True,
        application.admin.principal.id,
    )


@pytest.mark.feature("M1.kinds")
async def test_run_now_starts_as_the_one_who_asks_and_keeps_the_next_time(application: Application) -> None:
    await tree(application)
    schedule = await made(application.admin, cron="0 3 * * *")
    before = await shown(application, schedule)
    bob = await application.person("bob", "operator", "team")
    answer = await bob.post(f"/api/v1/schedules/{schedule}/run", json={})
    assert answer.status_code == 200, answer.text
    after = await shown(application, schedule)
    assert (after["next_at"], after["changed_by_name"]) == (before["next_at"], "admin")
    whole = (await application.admin.get(f"/api/v1/jobs/{answer.json()['job_id']}")).json()
    assert whole["created_by"] == bob.principal.id
    assert await bob.refused("POST", f"/api/v1/schedules/{schedule}/run", 409, json={})


@pytest.mark.feature("M1.kinds")
async def test_a_deleted_module_takes_its_schedules_with_it(application: Application, clock: ShiftedClock) -> None:
    await tree(application)
    await made(application.admin)
    assert (await application.admin.delete("/api/v1/modules/team%2Fone")).status_code == 204
    clock.advance(HOUR_SECONDS)
    await step(application)
    assert (await application.admin.listed("/api/v1/schedules"), await jobs(application)) == ([], [])


@pytest.mark.feature("M1.times")
async def test_a_change_of_its_name_loses_no_start_that_is_only_delayed(
    application: Application, clock: ShiftedClock
) -> None:
    """The next start was computed again, from a moment at which the time itself had passed and its delay had not."""
    await tree(application)
    schedule = await made(application.admin, cron="0 3 * * *", jitter_minutes=600)
    path = f"/api/v1/schedules/{schedule}"
    at = datetime.fromisoformat((await shown(application, schedule))["next_at"])
    planned = at.replace(hour=3, minute=0, second=0, microsecond=0)
    assert planned < at
    now = datetime.fromisoformat((await application.admin.patch(path, json={"name": "a"})).json()["changed_at"])
    clock.advance(((planned - now) + (at - planned) / 2).total_seconds())
    changed = (await application.admin.patch(path, json={"name": "b"})).json()
    assert datetime.fromisoformat(changed["next_at"]) == at
    clock.advance((at - planned).total_seconds())
    changed = (await application.admin.patch(path, json={"name": "c"})).json()
    await step(application)
    assert len(await jobs(application)) == 1, "it was due, and its start was not lost either"
    changed = (await application.admin.patch(path, json={"cron": "0 4 * * *", "jitter_minutes": 0})).json()
    assert datetime.fromisoformat(changed["next_at"]).hour == 4


@pytest.fixture
async def small(
    database_url: str, memory_path: Path, database_clock: ShiftedClock | None
) -> AsyncIterator[Application]:
    """A server whose organizations may queue two jobs."""
    async with open_application(
        database_url,
        memory_path / "small",
        clock=database_clock,
        local_roots=(Path("/srv/sources"),),
        max_queued_jobs_per_organization=2,
    ) as opened:
        yield opened


@pytest.mark.feature("M1.kinds")
async def test_schedules_and_checks_queue_no_more_jobs_than_the_quota(small: Application, clock: ShiftedClock) -> None:
    """Only jobs that people asked for themselves were counted against it before they were queued."""
    await tree(small)
    for _ in range(2):
        await small.admin.made("/api/v1/modules/team%2Ftwo/jobs", {"type": "PLAN"})
    schedule = await made(small.admin)
    words = "this organization has 2 queued jobs, and its quota is 2"
    assert words in await small.admin.refused("POST", f"/api/v1/schedules/{schedule}/run", 409)
    clock.advance(HOUR_SECONDS)
    await step(small)
    found = await shown(small, schedule)
    assert found["last_outcome"].startswith(f"nothing was started: {words}")
    assert found["is_last_problem"]
    assert (await small.admin.post("/api/v1/drift/checks", json={"place": "team/one"})).status_code == 202
    server = small.server
    checks = DriftChecks(server.db, server.objects, server.keys, server.settings.local_roots, server.quotas, 25)
    await checks.step()
    assert len(await jobs(small)) == 2
    drift = (await small.admin.get("/api/v1/drift/modules/team%2Fone")).json()
    assert drift["problem"].startswith(words)
