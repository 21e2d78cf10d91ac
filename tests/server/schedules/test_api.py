"""Schedules over HTTP: what is refused, who sees and changes them, and what the audit log has."""

import pytest

from tests.server.application import Application
from tests.server.schedules.schedule_rows import made, tree

pytestmark = pytest.mark.feature("M1.kinds")


async def test_a_schedule_is_made_shown_changed_and_deleted(application: Application) -> None:
    await tree(application)
    admin = application.admin
    schedule = await made(admin, "team", cron="0  6 * * 1-5", time_zone="Europe/Berlin", kind="DRIFT")
    found = (await admin.get(f"/api/v1/schedules/{schedule}")).json()
    assert (found["path"], found["cron"]) == ("team", "0 6 * * 1-5")
    assert found["times"] == "at 06:00 on Monday through Friday, Europe/Berlin"
    assert "at 06:00 CE" in found["next_words"]
    answer = await admin.patch(f"/api/v1/schedules/{schedule}", json={"is_enabled": False, "name": "workdays"})
    assert (answer.json()["next_at"], answer.json()["next_words"]) == (None, "not enabled")
    assert [each["name"] for each in await admin.listed("/api/v1/schedules", place="team")] == ["workdays"]
    assert (await admin.delete(f"/api/v1/schedules/{schedule}")).status_code == 204
    assert await admin.listed("/api/v1/schedules") == []
    entries = await admin.listed("/api/v1/audit")
    actions = [each["action"] for each in entries if each["action"].startswith("schedule.")]
    assert sorted(actions) == ["schedule.change", "schedule.create", "schedule.delete"]


async def test_what_could_never_start_is_refused_beside_its_field(application: Application) -> None:
    await tree(application)
    plain = {"place": "team", "name": "nightly", "kind": "PLAN", "cron": "0 3 * * *"}
    for change, words in (
        ({"cron": "0 0 30 2 *"}, "cron: "),
        ({"time_zone": "Berlin"}, "time_zone: "),
        ({"name": " "}, "name: "),
    ):
        assert words in await application.admin.refused("POST", "/api/v1/schedules", 400, json=plain | change)
    await application.admin.made("/api/v1/schedules", plain)
    assert "has a schedule `nightly` already" in await application.admin.refused(
        "POST", "/api/v1/schedules", 409, json=plain
    )


@pytest.mark.feature("M1.permissions")
async def test_who_may_not_run_jobs_changes_no_schedule_and_others_see_none(application: Application) -> None:
    await tree(application)
    schedule = await made(application.admin)
    viewer = await application.person("vera", "viewer", "team")
    assert [each["id"] for each in await viewer.listed("/api/v1/schedules")] == [schedule]
    for method, path, body in (
        ("POST", "/api/v1/schedules", {"place": "team", "name": "x", "kind": "PLAN", "cron": "0 3 * * *"}),
        ("PATCH", f"/api/v1/schedules/{schedule}", {"late_minutes": 1}),
        ("DELETE", f"/api/v1/schedules/{schedule}", None),
        ("POST", f"/api/v1/schedules/{schedule}/run", {}),
    ):
        await viewer.refused(method, path, 403, json=body)
    stranger = await application.person("sam", "owner", "", organization="other")
    assert await stranger.listed("/api/v1/schedules") == []
    for method in ("GET", "DELETE"):
        await stranger.refused(method, f"/api/v1/schedules/{schedule}", 404)
