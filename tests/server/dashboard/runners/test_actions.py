"""People drain, disable and remove runners in the dashboard."""

import re

import pytest

from terracrew.server.connections import store as connections
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.runners.connected import connect, having_a_job


@pytest.mark.feature("U1", "R7")
async def test_drain_undo_and_remove_work_from_the_page(application: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(application)
    await someone.see("/dashboard/runners")
    runner = await application.scalar("SELECT id FROM runners WHERE path = 'frankfurt-prod'")
    for on in ("true", "false"):
        assert (await someone.submit(f"/dashboard/runners/{runner}/drain", on=on)).status_code == 303
        assert bool(await application.scalar("SELECT is_draining FROM runners WHERE id = :id", id=runner)) is (
            on == "true"
        )
    gone = await application.scalar("SELECT id FROM runners WHERE path = 'data/warehouse'")
    refused = await someone.submit(f"/dashboard/runners/{gone}/remove")
    assert (refused.status_code, "data/warehouse/buckets" in refused.text) == (409, True)
    await application.server.db.write(lambda tx: tx.run("UPDATE modules SET runner_id = NULL"))
    assert (await someone.submit(f"/dashboard/runners/{gone}/remove")).status_code == 303
    assert await application.scalar("SELECT count(*) FROM runners WHERE id = :id", id=gone) == 0


@pytest.mark.feature("R7")
async def test_a_runner_is_disabled_and_enabled_from_its_menu(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    someone, page = await logged_in(application), f"/dashboard/runners/{made['id']}"
    assert f"{page}/disable" in await someone.see("/dashboard/runners")
    assert (await someone.submit(f"{page}/disable", on="true")).status_code == 303
    shown = await someone.see(page)
    assert "<b>Disabled.</b>" in shown
    assert re.search(r"Enable\s*<small>It gets new jobs again", shown)
    assert (await someone.submit(f"{page}/disable", on="false")).status_code == 303
    assert "<b>Disabled.</b>" not in await someone.see(page)
    for form in ({}, {"on": "perhaps"}):
        assert (await someone.submit(f"{page}/disable", **form)).status_code == 400


@pytest.mark.feature("R7")
async def test_an_offline_runner_with_a_lost_job_is_removed_by_force_and_the_job_page_keeps_its_name(
    application: Application,
) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    instance = await connect(application, made["id"], "one")
    job = await having_a_job(application, made["id"], instance)
    await application.server.db.write(lambda tx: connections.disconnect(tx, made["id"], instance, 1))
    visitor = await logged_in(application)
    listed = await visitor.see("/dashboard/runners/")
    assert "It has 1 unfinished job: what still runs is delivered" in listed
    assert (await visitor.submit(f"/dashboard/runners/{made['id']}/remove", force="true")).status_code == 303
    assert await application.scalar("SELECT count(*) FROM runners") == 0
    shown = await visitor.see(f"/dashboard/jobs/{job}")
    assert re.search(r">r</a>\s*·\s*one", shown) or "r · one" in shown
