"""The page of a group shows what is in it and which settings apply, and owners create, change and delete groups there."""

import pytest

from terracrew.server.db.seam import Tx
from tests.server.application import Application
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = pytest.mark.feature("U6.tree")


async def group_id(application: Application, path: str) -> str:
    return await application.scalar("SELECT id FROM groups WHERE path = :path AND organization_id <> ''", path=path)


async def page_of(application: Application, someone: Visitor, path: str, status: int = 200) -> str:
    return await someone.see(f"/dashboard/groups/{await group_id(application, path)}", status)


@pytest.mark.usefixtures("jobs")
async def test_a_group_shows_its_groups_modules_runners_and_settings(application: Application) -> None:
    someone = await logged_in(application)
    root = await someone.see("/dashboard/groups")
    for name in ("platform", "payments", "data"):
        assert f">{name}</a>" in root
    assert ">hello</a>" in root, "a module of the organization itself"
    platform = await page_of(application, someone, "platform")
    assert ">network</a>" in platform
    assert ">dns</a>" in platform
    assert ">vpc-eu</a>" not in platform, "that is a level below"
    assert "platform/network/runner" in platform
    assert "data/warehouse" not in platform
    assert 'href="/dashboard/runners?group=platform"' in platform
    assert "ask a person" in platform


@pytest.mark.usefixtures("jobs")
async def test_modules_and_their_lists_lead_to_their_groups(application: Application) -> None:
    someone = await logged_in(application)
    assert 'href="/dashboard/groups/payments%2Fprod"' in await someone.see("/dashboard/modules")
    module = await application.scalar("SELECT id FROM modules WHERE path = 'payments/prod/ledger'")
    page = await someone.see(f"/dashboard/modules/{module}")
    for path in ("", "payments", "payments/prod"):
        assert f'href="/dashboard/groups/{await group_id(application, path)}"' in page
    assert ">ledger</a>" in await someone.see("/dashboard/groups/payments%2Fprod")


@pytest.mark.usefixtures("jobs")
async def test_an_owner_creates_changes_and_deletes_a_group(application: Application) -> None:
    someone = await logged_in(application)
    platform = await group_id(application, "platform")
    await someone.see(f"/dashboard/groups/{platform}/create")
    answer = await someone.submit(f"/dashboard/groups/{platform}/create", name="storage", description="Buckets")
    assert answer.status_code == 303, answer.text
    here = answer.headers["location"]
    assert "Buckets" in await someone.see(here)
    again = await someone.submit(f"/dashboard/groups/{platform}/create", name="storage")
    assert "There is a group <code>platform/storage</code> already." in again.text
    assert "lowercase letters" in (await someone.submit(f"/dashboard/groups/{platform}/create", name="No no")).text

    for section, fields in (
        ("general", {"description": "Old"}),
        ("approval", {"interrupted": "retry", "max_destroy": "3", "self_approval": "no"}),
        ("placement", {"max_running_jobs": "7"}),
    ):
        answer = await someone.submit(f"{here}/settings/{section}", **fields)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{here}/settings#section-{section}")
    page = await someone.see(here)
    assert "at most 3" in page
    assert "This group" in page
    form = await someone.see(f"{here}/settings")
    assert 'value="3"' in form
    assert "7 in this group" in page
    assert 'name="max_running_jobs" value="7"' in form
    wrong = await someone.submit(f"{here}/settings/placement", max_running_jobs="0")
    assert 'id="max-running-jobs-wrong" role="alert">Write a number of at least 1.' in wrong.text
    wrong = await someone.submit(f"{here}/settings/approval", max_destroy="-1")
    assert 'id="max-destroy-wrong" role="alert">Write a number of at least 0.' in wrong.text
    assert 'value="-1"' in wrong.text, "what was typed is still there"

    assert (await someone.submit(f"/dashboard/groups/{platform}/delete")).status_code == 409
    assert (await someone.submit(f"{here}/delete")).status_code == 303
    await someone.see(here, 404)


async def test_a_setting_says_which_group_it_comes_from(application: Application) -> None:
    for path, body in (("top", {"max_destroy": 7}), ("top/middle", {}), ("top/middle/low", {"max_destroy": 2})):
        await application.admin.made("/api/v1/groups", {"path": path, **body})
    someone = await logged_in(application)
    top = await group_id(application, "top")
    middle = await page_of(application, someone, "top/middle")
    assert "at most 7" in middle
    assert f'Group <a class="link" href="/dashboard/groups/{top}">top</a>' in middle
    low = await page_of(application, someone, "top/middle/low")
    assert "at most 2" in low
    assert '<s class="faint">at most 7</s>' in low, "what it overrides"


@pytest.mark.feature("X3.roles")
@pytest.mark.usefixtures("jobs")
async def test_a_viewer_of_one_group_sees_the_way_to_it_and_nothing_beside_it(application: Application) -> None:
    await application.person("vera", "viewer", "payments/prod")
    someone = await logged_in(application, "vera")
    root = await someone.see("/dashboard/groups")
    assert ">payments</a>" in root
    for hidden in ("platform", "data", "hello"):
        assert f">{hidden}</a>" not in root
    above = await page_of(application, someone, "payments")
    assert ">prod</a>" in above
    assert ">test</a>" not in above
    own = await page_of(application, someone, "payments/prod")
    assert ">ledger</a>" in own
    assert "Create group" not in own
    await page_of(application, someone, "platform", 404)
    here = f"/dashboard/groups/{await group_id(application, 'payments/prod')}"
    settings = await someone.see(f"{here}/settings")
    assert "<form" not in settings.partition("<main")[2].partition("<dialog")[0]
    for path, fields in (
        ("create", {"name": "x"}),
        ("settings/general", {"description": "mine"}),
        ("delete", {}),
    ):
        assert (await someone.submit(f"{here}/{path}", **fields)).status_code == 403, path
    assert (await someone.get(f"{here}/create")).status_code == 403


@pytest.mark.feature("X3.roles")
@pytest.mark.usefixtures("jobs")
async def test_another_organization_reaches_no_group_and_a_form_without_its_token_changes_nothing(
    application: Application,
) -> None:
    platform = await group_id(application, "platform")
    await application.person("eve", "owner", organization="elsewhere")
    eve = await logged_in(application, "eve")
    assert "platform" not in await eve.see("/dashboard/groups")
    for path in ("", "/create", "/settings"):
        await eve.see(f"/dashboard/groups/{platform}{path}", 404)
    for path in ("create", "settings/general", "delete"):
        assert (await eve.submit(f"/dashboard/groups/{platform}/{path}", name="x")).status_code == 404
    admin = await logged_in(application)
    for path in ("create", "settings/general", "delete"):
        answer = await admin.post(f"/dashboard/groups/{platform}/{path}", data={"name": "x", "description": "x"})
        assert answer.status_code == 403
    assert await application.scalar("SELECT count(*) AS n FROM groups WHERE description = 'x' OR name = 'x'") == 0


async def test_a_level_of_many_groups_and_modules_is_shown_in_pages(application: Application) -> None:
    async def work(tx: Tx) -> None:
        made = Company(tx, application.server.organization_id, application.admin.principal.id)
        for number in range(53):
            await made.group(f"many/group-{number:02}")
            await made.module(f"many/module-{number:02}")

    await application.server.db.write(work)
    someone = await logged_in(application)
    first = await page_of(application, someone, "many")
    assert ">group-49</a>" in first
    assert ">group-50</a>" not in first
    assert ">module-49</a>" in first
    assert ">module-50</a>" not in first
    here = f"/dashboard/groups/{await group_id(application, 'many')}"
    second = await someone.see(f"{here}?groups_after=group-49")
    assert ">group-50</a>" in second
    assert ">module-49</a>" in second, "the other list stays where it is"
    assert ">module-52</a>" in await someone.see(f"{here}?modules_after=module-49")
