"""Pages show and do only what the reader may see and do, and only with the token of the page."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in, visitor


async def test_a_viewer_is_shown_no_actions_and_refused_when_they_act(
    application: Application, jobs: dict[str, str]
) -> None:
    await application.person("vera", "viewer")
    someone = await logged_in(application, "vera")
    runners = await someone.see("/dashboard/runners")
    assert "/drain" not in runners
    assert "Add runner" not in runners
    assert ">Apply<" not in await someone.see("/dashboard/modules")
    page = await someone.see(f"/dashboard/jobs/{jobs['applying']}")
    assert 'id="cancel-job"' not in page
    answer = await someone.submit(f"/dashboard/jobs/{jobs['applying']}/cancel", mode="kill")
    assert answer.status_code == 403
    assert "Not allowed" in answer.text
    done = await someone.see(f"/dashboard/jobs/{jobs['done']}")
    assert "10.0.3.7" not in done, "a viewer may not read the state, so neither its outputs"


async def test_another_organization_sees_nothing_of_it(application: Application, jobs: dict[str, str]) -> None:
    await application.person("eve", "owner", organization="elsewhere")
    someone = await logged_in(application, "eve")
    for job in jobs.values():
        await someone.see(f"/dashboard/jobs/{job}", 404)
    assert "ledger" not in await someone.see("/dashboard/modules")
    assert "ledger" not in await someone.see("/dashboard/jobs")
    assert ">frankfurt-prod<" not in await someone.see("/dashboard/runners")


async def test_a_form_without_its_token_changes_nothing(application: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(application)
    assert (await someone.submit(f"/dashboard/jobs/{jobs['applying']}/cancel", mode="kill")).status_code == 403
    assert await application.scalar("SELECT cancel_mode FROM jobs WHERE id = :id", id=jobs["applying"]) is None


@pytest.mark.feature("U5.page")
@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_who_may_not_decide_is_shown_no_buttons_and_refused(
    application: Application, jobs: dict[str, str], role: str, long_listening: None
) -> None:
    await application.person("otto", role)
    someone = await logged_in(application, "otto")
    pages = {name: await someone.see_job(jobs[name]) for name in ("asking", "lost", "held")}
    assert "approve-job" not in pages["asking"]
    assert "approver" in pages["asking"]
    assert "An owner can decide." in pages["held"]
    assert ("gone-job" in pages["lost"]) is (role == "operator")
    state = await application.scalar("SELECT id FROM states WHERE status = 'quarantined' LIMIT 1")
    refused = {
        f"/dashboard/jobs/{jobs['asking']}/approve": {"plan": "1"},
        f"/dashboard/jobs/{jobs['asking']}/decline": {"plan": "1"},
        f"/dashboard/states/{state}/adopt": {},
        f"/dashboard/states/{state}/discard": {},
        f"/dashboard/states/{state}/restore": {},
    }
    if role == "viewer":
        refused[f"/dashboard/jobs/{jobs['lost']}/gone"] = {"attempt": "1", "confirm": "408"}
    await someone.see("/dashboard/runners")
    for path, form in refused.items():
        assert (await someone.submit(path, **form)).status_code == 403, path


@pytest.mark.feature("U5.page")
async def test_without_the_token_of_the_page_nothing_is_decided(application: Application, jobs: dict[str, str]) -> None:
    someone, state = (
        await logged_in(application),
        await application.scalar("SELECT id FROM states WHERE status = 'quarantined' LIMIT 1"),
    )
    for path in (
        f"/dashboard/jobs/{jobs['asking']}/approve",
        f"/dashboard/jobs/{jobs['asking']}/decline",
        f"/dashboard/jobs/{jobs['lost']}/gone",
        f"/dashboard/states/{state}/adopt",
        f"/dashboard/states/{state}/discard",
        f"/dashboard/states/{state}/restore",
    ):
        assert (await someone.post(path, data={"plan": "1", "attempt": "1", "confirm": "408"})).status_code == 403
        assert (await visitor(application).post(path, data={"plan": "1"})).status_code in (303, 403)
