"""The overview says what happened last and what comes next, as far as its reader may see it."""

from typing import Any, get_args

import pytest

from terracrew.api import fields
from terracrew.api.job_views import Reason
from terracrew.api.overview import ComingKind, NeedKind
from terracrew.server.dashboard import words
from terracrew.server.overview import selection
from terracrew.wording import overview_words
from tests.builders.deliveries import DONE, RUNNING
from tests.server.application import Application, Person
from tests.server.drift.checked import SOURCE
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("P2.activity")


async def overview(member: Person, **query: str) -> dict[str, Any]:
    answer = await member.get("/api/v1/overview", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def told(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["path"], each["text"]) for each in found["activity"]]


async def run(runner: SimulatedRunner, module: str) -> None:
    made = await runner.app.admin.made(f"/api/v1/modules/{module.replace('/', '%2F')}/jobs", {"type": "PLAN"})
    attempt, _ = await runner.granted(made["id"])
    await attempt.deliver(RUNNING, DONE)


async def places(admin: Person) -> None:
    for path in ("shop", "bank"):
        await admin.made("/api/v1/groups", {"path": path})
        await admin.made("/api/v1/modules", {"path": f"{path}/net", "source": SOURCE})


@pytest.mark.feature("P2.rights")
async def test_jobs_are_told_to_those_who_see_them_and_changes_to_those_who_read_the_audit_log(
    runner: SimulatedRunner,
) -> None:
    admin = runner.app.admin
    await places(admin)
    await run(runner, "shop/net")
    await run(runner, "bank/net")
    everything = told(await overview(admin))
    assert everything[:2] == [("bank/net", "plan #2 succeeded"), ("shop/net", "plan #1 succeeded")]
    assert ("bank/net", "created the module bank/net") in everything
    assert not any("queued" in text for _, text in everything), "a job shows itself"
    vera = await runner.app.person("vera", "viewer", "shop")
    assert told(await overview(vera)) == [("shop/net", "plan #1 succeeded")]
    olga = await runner.app.person("olga", "owner", "shop")
    assert told(await overview(olga))[0] == ("shop/net", "plan #1 succeeded")
    assert ("shop/net", "created the module shop/net") in told(await overview(olga))
    for found in (told(await overview(olga)), told(await overview(admin, place="shop"))):
        assert not any("bank" in f"{path} {text}" for path, text in found), found
    mona = await runner.app.person("mona")
    await admin.made("/api/v1/roles", {"principal": "mona", "role": "viewer", "kind": "module", "path": "bank/net"})
    assert told(await overview(mona)) == [("bank/net", "plan #2 succeeded")]
    assert told(await overview(await runner.app.person("nora"))) == []


@pytest.mark.feature("P2.rights")
async def test_dates_are_told_to_those_who_see_what_they_are_about(application: Application) -> None:
    admin = application.admin
    await places(admin)
    for path in ("shop", "bank"):
        schedule = {"name": f"night of {path}", "kind": "DRIFT", "cron": "0 6 * * *", "place": path}
        await admin.made("/api/v1/schedules", schedule)
    account = await admin.made("/api/v1/service-accounts", {"name": "ci", "group": "bank"})
    await admin.made(f"/api/v1/service-accounts/{account['id']}/secrets", {"expires_in_days": 5})
    await admin.made(f"/api/v1/service-accounts/{account['id']}/secrets", {"expires_in_days": 90})
    vera = await application.person("vera", "viewer", "shop")
    grant = {"principal": "vera", "role": "operator", "kind": "module", "path": "bank/net", "expires_in_days": 5}
    await admin.made("/api/v1/roles", grant)
    found = (await overview(admin))["coming_up"]
    assert [each["at"] for each in found] == sorted(each["at"] for each in found)
    assert {(each["kind"], each["path"]) for each in found} == {
        ("schedule", "shop"),
        ("schedule", "bank"),
        ("secret", "bank"),
        ("role", "bank/net"),
    }
    assert len(found) == 4, "what ends in three months is not near"
    assert {(each["kind"], each["path"]) for each in (await overview(vera))["coming_up"]} == {("schedule", "shop")}
    assert {each["path"] for each in (await overview(admin, place="shop"))["coming_up"]} == {"shop"}
    assert (await overview(await application.person("nora")))["coming_up"] == []


def test_the_reasons_that_need_nobody_are_those_that_the_dashboard_says() -> None:
    codes = fields.describe(Reason)["code"].choices
    assert codes
    calm = {code for code in codes if not words.needs_a_person(Reason(code, "it waits"))}  # type: ignore[arg-type]
    assert calm == selection.NEEDS_NOBODY_CODES


def test_every_kind_has_a_word() -> None:
    assert set(get_args(NeedKind)) == set(overview_words.NEEDS)
    assert set(get_args(ComingKind)) == {"schedule", "approval", "role", "secret", "trust_policy", "token"}
