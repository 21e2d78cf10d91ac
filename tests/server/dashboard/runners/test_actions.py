"""People drain, disable, assign, re-register and remove runners in the dashboard; others are refused."""

import re

import pytest

from terracrew.server.connections import store as connections
from tests.builders.job_rows import change_modules
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.declarations import FILE, declared_runner
from tests.server.runners.connected import connect, having_a_job


@pytest.mark.feature("R7.drain", "R7.remove", "U1.actions")
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
    await change_modules(application.server.db, runner_id=None)
    assert (await someone.submit(f"/dashboard/runners/{gone}/remove")).status_code == 303
    assert await application.scalar("SELECT count(*) FROM runners WHERE id = :id", id=gone) == 0


@pytest.mark.feature("R7.disable")
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


@pytest.mark.feature("R1.fields", "S1.assigned")
async def test_a_runner_is_assigned_and_unassigned_on_its_page(application: Application) -> None:
    for path in ("team", "team/a", "elsewhere"):
        await application.admin.made("/api/v1/groups", {"path": path})
    made = await application.admin.made("/api/v1/runners", {"name": "r", "group": "team", "assign": False})
    someone, page = await logged_in(application), f"/dashboard/runners/{made['id']}"
    shown = await someone.see(page)
    assert "Nothing may use it" in shown
    assert f"{page}/assign-all" in shown
    assert (await someone.submit(f"{page}/assign", place=" /team/a/ ")).status_code == 303
    assert (await someone.submit(f"{page}/assign-all", on="true")).status_code == 303
    shown = await someone.see(page)
    place = re.search(r'id="place-(grp_[^"]+)"><span><a[^>]*>team/a<', shown)
    assert place
    assert f"{page}/assign-all" not in shown, "it serves the whole group already"
    outside = await someone.submit(f"{page}/assign", place="elsewhere")
    assert (outside.status_code, "outside of <code>team</code>" in outside.text) == (400, True)
    assert (await someone.submit(f"{page}/assign", place="nothing-like-it")).status_code == 404
    assert (await someone.submit(f"{page}/unassign", place=place[1], kind="group")).status_code == 303
    assert (await someone.submit(f"{page}/unassign", place=place[1], kind="group")).status_code == 404
    assert (await someone.submit(f"{page}/assign-all", on="false")).status_code == 303
    assert "Nothing may use it" in await someone.see(page)


@pytest.mark.feature("U6.assignments")
async def test_the_form_suggests_the_groups_and_modules_that_the_runner_can_be_assigned_to(
    application: Application,
) -> None:
    for path in ("team", "team/a", "team-b", "elsewhere", "elsewhere/team"):
        await application.admin.made("/api/v1/groups", {"path": path})
    source = {"kind": "local", "path": "/srv/sources"}
    for path in ("team/a/network", "team/shop", "team-b/shop", "elsewhere/network", "elsewhere/team/shop"):
        await application.admin.made("/api/v1/modules", {"path": path, "source": source})
    made = await application.admin.made("/api/v1/runners", {"name": "r", "group": "team"})
    someone, page = await logged_in(application), f"/dashboard/runners/{made['id']}"

    def offered(html: str) -> list[str]:
        return re.findall(r'<option value="([^"]*)"></option>', html)

    assert offered(await someone.see(page)) == ["team", "team/a", "team/a/network", "team/shop"]
    assert offered(await someone.see(f"{page}/places?place=NET")) == ["team/a/network"]
    assert offered(await someone.see(f"{page}/places?place={'x' * 5000}")) == []
    await application.person("otto", "operator", "team")
    await (await logged_in(application, "otto")).see(f"{page}/places", 403)
    await application.person("olga", "owner", "team")
    await application.admin.made("/api/v1/roles", {"principal": "olga", "role": "owner", "path": "elsewhere"})
    olga = await logged_in(application, "olga")
    assert offered(await olga.see(page)) == ["team", "team/a", "team/a/network", "team/shop"]
    assert offered(await olga.see(f"{page}/places?place=shop")) == ["team/shop"]


@pytest.mark.feature("R6.place")
async def test_a_service_account_is_bound_and_unbound_on_the_page(application: Application) -> None:
    for path in ("team", "team/a", "other"):
        await application.admin.made("/api/v1/groups", {"path": path})
    accounts = {
        name: (await application.admin.made("/api/v1/service-accounts", {"name": name, "group": group}))["id"]
        for name, group in (("above", "team"), ("root", ""), ("foreign", "other"))
    }
    made = await application.admin.made("/api/v1/runners", {"name": "r", "group": "team/a"})
    someone, page = await logged_in(application), f"/dashboard/runners/{made['id']}"
    shown = await someone.see(page)
    assert ">team/above</option>" in shown
    assert ">root</option>" in shown
    assert "other/foreign" not in shown, "only accounts of its group and above may serve it"
    assert (await someone.submit(f"{page}/service-account", account=accounts["above"])).status_code == 303
    shown = await someone.see(page)
    assert 'hx-confirm="Unbind team/above from team/a/r?"' in shown
    assert "no process can connect as it then" in shown, "it has no worker token, so the consequence says so"
    assert (await someone.submit(f"{page}/service-account", account=accounts["foreign"])).status_code == 400
    assert (await someone.submit(f"{page}/service-account", account="sac_nothing")).status_code == 400
    assert (await application.admin.get(f"/api/v1/runners/{made['id']}")).json()["service_account_id"] == accounts[
        "above"
    ]
    assert (await someone.submit(f"{page}/service-account", account="")).status_code == 303
    assert "It has no credential." in await someone.see(page)


@pytest.mark.feature("R6.place", "X2.enforced")
async def test_an_owner_of_one_group_sees_no_accounts_of_the_groups_above(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "team"})
    account = await application.admin.made("/api/v1/service-accounts", {"name": "above", "group": ""})
    made = await application.admin.made("/api/v1/runners", {"name": "r", "group": "team"})
    await application.admin.patch(f"/api/v1/runners/{made['id']}", json={"service_account": account["id"]})
    await application.person("owen", "owner", path="team")
    shown = await (await logged_in(application, "owen")).see(f"/dashboard/runners/{made['id']}")
    assert ">above<" not in shown
    assert account["id"] in shown, "the runner itself shows which account it has"


@pytest.mark.feature("R5.replace")
async def test_re_registering_asks_first_and_shows_the_new_token_once(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners/register", {"name": "r"})
    someone, page = await logged_in(application), f"/dashboard/runners/{made['id']}"
    assert f"{page}/reregister" in await someone.see(page)
    before = await application.scalar("SELECT worker_token_sha256 FROM runners")
    assert "The old token ends at once." in await someone.see(f"{page}/reregister")
    assert await application.scalar("SELECT worker_token_sha256 FROM runners") == before, "a page changes nothing"
    shown = (await someone.submit(f"{page}/reregister")).text
    token = re.search(r"WORKER_TOKEN=(tcw_\S+)", shown)
    assert token
    assert token[1] != made["worker_token"]
    assert await application.scalar("SELECT worker_token_sha256 FROM runners") != before
    assert token[1] not in await someone.see(page)


@pytest.mark.feature("R7.remove")
async def test_a_runner_drains_before_its_removal_and_its_page_shows_what_is_left(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    await having_a_job(application, made["id"], await connect(application, made["id"], "one"))
    someone, page = await logged_in(application), f"/dashboard/runners/{made['id']}"
    asked = await someone.see(f"{page}/remove")
    assert "It finishes its job first" in asked
    assert "1 module has no other enabled runner</b>: m." in asked
    answer = await someone.submit(f"{page}/remove")
    assert (answer.status_code, answer.headers["location"]) == (303, page)
    shown = await someone.see(page)
    assert "Being removed: 1 job is left." in shown
    assert "Keep the runner" in shown
    assert ">being removed<" in await someone.see("/dashboard/runners")
    assert (await someone.submit(f"{page}/drain", on="false")).status_code == 303
    assert "Being removed" not in await someone.see(page)
    forced = await someone.see(f"{page}/remove?force=true")
    assert "the rest counts as lost" in forced
    answer = await someone.submit(f"{page}/remove", force="true")
    assert answer.headers["location"] == "/dashboard/runners"
    await someone.see(page, 404)


@pytest.mark.feature("R3.refused")
async def test_a_declared_runner_offers_no_removal_and_only_settings_of_its_processes(application: Application) -> None:
    runner, _ = await declared_runner(application.server.db, "from-file", 5)
    page = f"/dashboard/runners/{runner.id}"
    someone = await logged_in(application)
    shown = await someone.see(page)
    assert f"{page}/remove" not in shown
    assert f"{page}/reregister" not in shown
    for each in (page, f"{page}/edit", "/dashboard/runners"):
        assert f"It is declared as shared_runners.from-file in {FILE}" in await someone.see(each)
    assert (
        await someone.submit(f"{page}/edit", **{"configuration.heartbeat_seconds": "5"}, max_jobs="7")
    ).status_code == 303
    found = (await application.admin.get("/api/v1/runners/from-file")).json()
    assert (found["max_jobs"], found["configuration"]["heartbeat_seconds"]) == (5, 5)
    assert (await someone.submit(f"{page}/remove", force="true")).status_code == 409
    assert "cannot get a new token" in (await someone.submit(f"{page}/reregister")).text


ACTIONS = {
    "drain": {"on": "true"},
    "disable": {"on": "true"},
    "assign": {"place": ""},
    "unassign": {"place": "", "kind": "group"},
    "assign-all": {"on": "false"},
    "service-account": {"account": ""},
    "remove": {"force": "true"},
    "reregister": {},
    "edit": {"max_jobs": "1"},
}


@pytest.mark.feature("X2.enforced", "X3.roles")
@pytest.mark.parametrize("who", ["viewer", "approver", "foreign owner", "no token of the page"])
async def test_who_may_not_change_a_runner_is_refused_every_action(application: Application, who: str) -> None:
    made = await application.admin.made("/api/v1/runners/register", {"name": "r"})
    before = await application.server.db.read(lambda tx: tx.one("SELECT * FROM runners"))
    if who == "no token of the page":
        someone = await logged_in(application)
    else:
        place = {"organization": "elsewhere"} if who == "foreign owner" else {}
        await application.person("eve", who.split()[-1], **place)
        someone = await logged_in(application, "eve")
        await someone.see("/dashboard/account")
        assert someone.csrf
    for action, form in ACTIONS.items():
        answer = await someone.submit(f"/dashboard/runners/{made['id']}/{action}", **form)
        assert answer.status_code == (404 if who == "foreign owner" else 403), action
        if action in ("remove", "reregister", "edit") and who != "no token of the page":
            await someone.see(f"/dashboard/runners/{made['id']}/{action}", answer.status_code)
    assert await application.server.db.read(lambda tx: tx.one("SELECT * FROM runners")) == before
    assert await application.scalar("SELECT count(*) FROM assignments") == 1


@pytest.mark.feature("R7.force")
async def test_an_offline_runner_with_a_lost_job_is_removed_by_force_and_the_job_page_keeps_its_name(
    application: Application,
) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    instance = await connect(application, made["id"], "one")
    job = await having_a_job(application, made["id"], instance)
    await application.server.db.write(lambda tx: connections.disconnect(tx, made["id"], instance, 1))
    visitor = await logged_in(application)
    asked = await visitor.see(f"/dashboard/runners/{made['id']}/remove?force=true")
    assert "It has 1 unfinished job. What still runs is delivered" in asked
    assert (await visitor.submit(f"/dashboard/runners/{made['id']}/remove", force="true")).status_code == 303
    assert await application.scalar("SELECT count(*) FROM runners") == 0
    shown = await visitor.see(f"/dashboard/jobs/{job}")
    assert re.search(r">r</a>\s*·\s*one", shown) or "r · one" in shown
