"""The page of the tokens for one job of a runner makes one, shows it once, and revokes it."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("P4.pages")


async def runner_page(application: Application) -> str:
    made = await application.admin.made("/api/v1/runners", {"name": "vms"})
    return f"/dashboard/runners/{made['id']}"


async def test_a_token_is_shown_once_and_revoked(application: Application) -> None:
    someone, runner = await logged_in(application), await runner_page(application)
    assert f"{runner}/once-tokens" in await someone.see(runner)
    here = f"{runner}/once-tokens"
    assert "None." in await someone.see(here)
    made = await someone.submit(here, seconds="600")
    assert made.status_code == 200
    [token] = set(re.findall(r"tco_\w+", made.text))
    assert "terracrew runner start --once" in made.text
    page = await someone.see(here)
    assert token not in page
    assert "Waiting" in page
    [token_id] = set(re.findall(r"onc_\w+", page))
    assert (await someone.submit(f"{here}/{token_id}/revoke")).status_code == 303
    page = await someone.see(here)
    assert "Revoked" in page
    assert f"{token_id}/revoke" not in page
    actions = [each["action"] for each in await application.admin.listed("/api/v1/audit")]
    assert {"runner.once_token_create", "runner.once_token_revoke"} <= set(actions)


async def test_only_who_may_change_the_runner_sees_and_makes_its_tokens(application: Application) -> None:
    admin, runner = await logged_in(application), await runner_page(application)
    here = f"{runner}/once-tokens"
    await admin.see(here)
    assert (await admin.submit(here)).status_code == 200
    [token_id] = set(re.findall(r"onc_\w+", await admin.see(here)))
    await application.person("otto", "operator")
    otto = await logged_in(application, "otto")
    assert "once-tokens" not in await otto.see(runner)
    await otto.see(here, 403)
    assert (await otto.submit(here)).status_code == 403
    assert (await otto.submit(f"{here}/{token_id}/revoke")).status_code == 403
    assert "Waiting" in await admin.see(here)


async def test_no_token_is_made_for_a_runner_that_is_being_removed_or_for_longer_than_a_day(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    busy = await application.scalar("SELECT runner_id FROM attempts WHERE ended_at IS NULL LIMIT 1")
    here = f"/dashboard/runners/{busy}/once-tokens"
    await someone.see(here)
    assert (await someone.submit(here, seconds="86401")).status_code == 400
    assert (await application.admin.delete(f"/api/v1/runners/{busy}")).json()["is_removed"] is False
    refused = await someone.submit(here, seconds="600")
    assert refused.status_code == 409
    assert "is being removed" in refused.text
    assert "tco_" not in refused.text
