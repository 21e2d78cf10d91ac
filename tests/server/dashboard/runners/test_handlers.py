"""People register runners in a sheet that shows the token once."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.runners.connected import connect


@pytest.mark.feature("R5.token", "U3.register")
async def test_registering_shows_the_token_once_and_a_taken_name_is_said_in_the_form(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    await someone.see("/dashboard/runners/add")
    made = await someone.submit("/dashboard/runners/add", name="fresh", group="platform")
    assert made.status_code == 200
    token = re.search(r"export TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN=(tcw_\S+)", made.text)
    assert token
    assert "Waiting for fresh…" in made.text
    assert "works only on the server&#39;s machine" in made.text or "works only on the server's machine" in made.text
    for command in ("docker run -d --name fresh", "systemctl enable --now", "helm install fresh"):
        assert command in made.text
    assert token[1] not in await someone.see("/dashboard/runners")
    again = await someone.submit("/dashboard/runners/add", name="fresh", group="platform")
    assert "There is a runner <code>platform/fresh</code> already" in again.text
    assert 'value="fresh"' in again.text


@pytest.mark.feature("R1.fields", "R3.users", "S1.default", "U3.register")
async def test_the_sheet_sets_every_field_of_the_record(application: Application) -> None:
    someone = await logged_in(application)
    await someone.see("/dashboard/runners/add")
    fields = {"description": "Big ones", "tags": "gpu, eu gpu", "max_jobs": "7", "allow_multiple_instances": "true"}
    made = await someone.submit("/dashboard/runners/add", name="big", **fields)
    assert "big is registered" in made.text
    found = (await application.admin.get("/api/v1/runners/big")).json()
    assert (found["description"], found["tags"], found["max_jobs"]) == ("Big ones", ["eu", "gpu"], 7)
    assert found["allow_multiple_instances"] is True
    assert found["is_assigned_to_all_modules"] is False, "the box was not checked"
    await someone.submit("/dashboard/runners/add", name="all", assign="true")
    assert (await application.admin.get("/api/v1/runners/all")).json()["is_assigned_to_all_modules"] is True
    for wrong in ({"max_jobs": "many"}, {"max_jobs": "0"}, {"tags": "a<b>"}, {"name": "a/b"}):
        refused = await someone.submit("/dashboard/runners/add", **({"name": "other"} | wrong))
        assert 'class="wrong"' in refused.text, wrong
        assert "<b>" not in refused.text
    assert (await application.admin.get("/api/v1/runners/other")).status_code == 404


@pytest.mark.feature("U3.register", "U4.live")
async def test_the_sheet_waits_for_the_first_process_and_says_when_it_has_come(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners/register", {"name": "edge"})
    someone, here = await logged_in(application), f"/dashboard/runners/{made['id']}/started"
    htmx = {"HX-Request": "true"}
    waiting = await someone.get(here, headers=htmx)
    assert "Waiting for edge…" in waiting.text
    assert 'hx-trigger="refresh"' in waiting.text
    await connect(application, made["id"], "one")
    come = (await someone.get(here, headers=htmx)).text
    assert "Online" in come
    assert "one is connected." in come
    assert "hx-get" not in come, "it has ended to ask"
    later = await someone.get(here, params={"since": "9999999999"}, headers=htmx)
    assert "Waiting for edge…" in later.text, "a process that came before a new token used the old one"
    assert (await someone.get(here)).status_code == 303
