"""The pages of schedules: the panel of a place, the form with its mistakes, and the buttons."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.schedules.schedule_rows import jobs, made, tree

HERE = "/dashboard/schedules"
FORM = {"name": "nightly", "kind": "PLAN", "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "is_enabled": "true"}
pytestmark = pytest.mark.feature("M1.kinds")


async def test_a_schedule_is_added_on_the_page_of_a_module_changed_run_and_deleted(application: Application) -> None:
    await tree(application)
    someone = await logged_in(application)
    module = await application.scalar("SELECT id FROM modules WHERE path = 'team/one'")
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "Nothing starts by itself here." in page
    assert f"{HERE}/create?place={module}" in page
    await someone.see(f"{HERE}/create?place={module}")
    numbers = {"jitter_minutes": "0", "late_minutes": "60"}
    answer = await someone.submit(f"{HERE}/create", place=module, **FORM, **numbers)
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    page = await someone.see(address)
    assert re.search(r"Next</dt><dd>(today|tomorrow) at 03:00 CES?T</dd>", page)
    assert "at 03:00 every day, Europe/Berlin" in page
    assert (await someone.submit(f"{address}/run")).status_code == 303
    [job] = await jobs(application)
    assert f"Queued job #{job['number']}: plan (run by admin)." in await someone.see(address)
    assert "nightly" in await someone.see(f"/dashboard/modules/{module}")
    answer = await someone.submit(address, **(FORM | numbers | {"is_enabled": ""}))
    assert answer.status_code == 303
    assert "<dd>not enabled</dd>" in await someone.see(address)
    answer = await someone.submit(f"{address}/delete")
    assert answer.headers["location"] == f"/dashboard/modules/{module}"
    await someone.see(address, 404)


async def test_a_mistake_is_shown_beside_its_field_with_what_was_typed(application: Application) -> None:
    await tree(application)
    someone = await logged_in(application)
    group = await application.scalar("SELECT id FROM groups WHERE path = 'team'")
    await someone.see(f"{HERE}/create?place={group}")
    for change, field, words in (
        ({"cron": "61 * * * *"}, "cron", "bad minute"),
        ({"time_zone": "Berlin"}, "time-zone", "Europe/Berlin"),
        ({"jitter_minutes": "-1"}, "jitter-minutes", "at least 0"),
        ({"jitter_minutes": "soon"}, "jitter-minutes", "whole number"),
        ({"name": ""}, "name", "1 to 100 characters"),
    ):
        typed = {"jitter_minutes": "0", "late_minutes": "60", **FORM, **change}
        answer = await someone.submit(f"{HERE}/create", place=group, **typed)
        assert answer.status_code == 200
        found = re.search(rf'id="{field}-wrong"[^>]*>(.*?)</span>', answer.text)
        assert found, answer.text
        assert words in found[1]


@pytest.mark.feature("M1.permissions")
async def test_who_may_only_look_gets_no_buttons(application: Application) -> None:
    await tree(application)
    schedule = await made(application.admin)
    await application.person("vera", "viewer", "team")
    vera = await logged_in(application, "vera")
    page = await vera.see(f"{HERE}/{schedule}")
    assert "disabled" in page
    for button in ("run-schedule", "save-schedule", "delete-schedule"):
        assert button not in page
    assert "nightly" in await vera.see(HERE)
    await vera.see(f"{HERE}/create?place=team", 403)
    module = await application.scalar("SELECT id FROM modules WHERE path = 'team/two'")
    assert 'id="schedules"' not in await vera.see(f"/dashboard/modules/{module}")


async def test_a_schedule_of_the_organization_is_added_from_the_list_by_who_may_run_jobs_there(
    application: Application,
) -> None:
    await tree(application)
    someone = await logged_in(application)
    assert f'href="{HERE}/create"' in await someone.see(HERE)
    assert "A schedule of" in await someone.see(f"{HERE}/create")
    await application.person("oleg", "operator", "team")
    oleg = await logged_in(application, "oleg")
    assert "add-schedule" not in await oleg.see(HERE)
    await oleg.see(f"{HERE}/create", 403)
