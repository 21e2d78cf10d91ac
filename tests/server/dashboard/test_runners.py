"""People find, add, configure, drain and remove runners in the dashboard."""

import re
from typing import Any

import pytest

from terracrew.server.connections import store as connections
from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in
from tests.server.runners.connected import connect, having_a_job

OWN: dict[str, Any] = {"heartbeat_seconds": None, "log_level": {}, "batch_size_limit": None, "period_seconds": None}


async def configured(application: Application) -> object:
    return (await application.admin.get("/api/v1/runners/r")).json()["configuration"]


@pytest.mark.feature("U1", "U2")
async def test_the_runners_page_filters_searches_and_says_why_jobs_wait(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    page = await someone.see("/dashboard/runners")
    for word in (
        "platform/network/runner",
        "net-a",
        "net-b",
        "Online",
        "Draining",
        "Offline",
        "eu-central-1",
        "Undo drain",
    ):
        assert word in page
    assert "No runner available" in page
    offline = await someone.see("/dashboard/runners?status=OFFLINE")
    assert "data/warehouse" in offline
    assert ">frankfurt-prod<" not in offline
    found = await someone.see("/dashboard/runners?q=NET-B")
    assert "platform/network/runner" in found
    assert ">frankfurt-prod<" not in found
    assert "No runner matches" in await someone.see("/dashboard/runners?q=nothing-like-it")
    assert jobs["waiting"] in page


@pytest.mark.feature("U3", "R5")
async def test_registering_shows_the_token_once_and_a_taken_name_is_said_in_the_form(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    await someone.see("/dashboard/runners/add")
    made = await someone.submit("/dashboard/runners/add", name="fresh", group="platform")
    assert made.status_code == 200
    token = re.search(r'id="worker-token">(tcw_[^<]+)<', made.text)
    assert token
    assert f"WORKER_TOKEN={token[1]}" in made.text
    assert token[1] not in await someone.see("/dashboard/runners")
    again = await someone.submit("/dashboard/runners/add", name="fresh", group="platform")
    assert "There is a runner `platform/fresh` already" in again.text
    assert 'value="fresh"' in again.text


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


@pytest.mark.feature("C2", "V1")
async def test_a_runner_is_configured_by_a_form_and_an_empty_one_gives_it_back(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    visitor: Visitor = await logged_in(application)
    page = f"/dashboard/runners/{made['id']}/configure"
    assert page in await visitor.see("/dashboard/runners/")
    await visitor.see(page)
    levels = "terracrew.runner = debug\r\nDefault=Warning\r\n"
    saved = await visitor.submit(
        page, heartbeat_seconds="2.5", log_level=levels, batch_size_limit="9", period_seconds=""
    )
    assert saved.status_code == 303
    wanted = OWN | {
        "heartbeat_seconds": 2.5,
        "log_level": {"Default": "Warning", "terracrew.runner": "Debug"},
        "batch_size_limit": 9,
    }
    assert await configured(application) == wanted
    assert ">configured<" in await visitor.see("/dashboard/runners/")
    shown = await visitor.see(page)
    assert 'value="2.5"' in shown
    assert "Default=Warning\nterracrew.runner=Debug</textarea>" in shown

    refused = await visitor.submit(page, heartbeat_seconds="99", log_level="<b>=Debug")
    assert refused.status_code == 200
    assert "These settings are not valid" in refused.text
    assert 'value="99"' in refused.text, "what was typed is not lost"
    assert "<b>" not in refused.text
    assert await configured(application) == wanted

    await visitor.submit(page, heartbeat_seconds="2.5", log_level="Default=Warning")
    assert await configured(application) == OWN | {"heartbeat_seconds": 2.5, "log_level": {"Default": "Warning"}}
    await visitor.submit(page)
    assert await configured(application) == OWN


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
    assert re.search(r'name="force" value="true"', listed)
    assert (await visitor.submit(f"/dashboard/runners/{made['id']}/remove", force="true")).status_code == 303
    assert await application.scalar("SELECT count(*) FROM runners") == 0
    shown = await visitor.see(f"/dashboard/jobs/{job}")
    assert re.search(r">r</a>\s*·\s*one", shown) or "r · one" in shown
