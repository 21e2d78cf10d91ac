"""The runners page lists runners with their instances and current jobs, and why jobs wait."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in


@pytest.mark.feature("U1.list", "U2.jobs")
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


@pytest.mark.feature("U1.list", "U6.tree")
async def test_a_group_has_its_own_page_of_runners(application: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(application)
    page = await someone.see("/dashboard/runners?group=platform")
    assert re.search(r"<h1>platform</h1>", page)
    assert "platform/network/runner" in page
    for other in ("built-in", "frankfurt-prod", "data/warehouse"):
        assert f">{other}</a>" not in page
    assert re.search(r'All\s*<span class="faint num">1</span>', page), "the counts are those of the group"
    assert "group=platform&amp;status=OFFLINE" in page, "a filter stays in the group"
    assert '<option value="platform" selected>' in page, "a runner is added to the group of the page"
    await application.admin.made("/api/v1/groups", {"path": "empty"})
    assert "No runners in this group" in await someone.see("/dashboard/runners?group=empty")


@pytest.mark.feature("U1.list")
async def test_the_page_of_a_group_is_for_those_who_may_see_the_group(
    application: Application, jobs: dict[str, str]
) -> None:
    await application.person("vera", "viewer", path="payments")
    someone = await logged_in(application, "vera")
    assert ">payments/prod<" in await someone.see("/dashboard/runners?group=payments")
    for hidden in ("platform", "nothing-like-it"):
        assert "platform/network" not in await someone.see(f"/dashboard/runners?group={hidden}", 404)


@pytest.mark.feature("U1.actions")
async def test_each_menu_is_about_its_own_runner(application: Application) -> None:
    ids = {
        name: (await application.admin.made("/api/v1/runners", {"name": name}))["id"]
        for name in ("drained", "first", "second")
    }
    someone = await logged_in(application)
    await someone.see("/dashboard/runners")  # with the token for its forms
    assert (await someone.submit(f"/dashboard/runners/{ids['drained']}/drain", on="true")).status_code == 303
    page = await someone.see("/dashboard/runners")
    for name, runner_id in ids.items():
        row = re.search(rf'<tr id="{runner_id}">.*?</tr>', page, re.DOTALL)
        assert row, name
        assert set(re.findall(r"rnr_\w+", row[0])) == {runner_id}
        assert f'aria-label="Actions for {name}"' in row[0]
        assert ("Undo drain" in row[0]) == (name == "drained")
    assert "of-the-runner" not in page, "every placeholder is replaced"


@pytest.mark.feature("R1.created", "U1.actions", "U1.instances", "U1.list")
async def test_a_row_has_all_columns_its_current_jobs_and_a_menu(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    page = await someone.see("/dashboard/runners")
    for column in ("Name", "Type", "Region", "Status", "Version", "Last seen", "Created", "Actions"):
        assert re.search(rf"<th[^>]*>(<span[^>]*>)?{column}<", page), column
    row = re.search(r'<a href="(/dashboard/runners/rnr_[^"]+)">payments/prod</a>.*?</tr>', page, re.DOTALL)
    assert row
    assert f'href="/dashboard/jobs/{jobs["applying"]}"' in row[0]
    assert "1 job left" in row[0], "the progress of the drain"
    assert 'aria-label="Actions for payments/prod"' in row[0]
    for word in ("Edit settings", "Undo drain", "Disable", "Remove…", "Remove now…"):
        assert word in row[0], word
    await application.person("elsa", "viewer", path="platform")
    other = await (await logged_in(application, "elsa")).see("/dashboard/runners")
    assert "Actions for" not in other
    assert ">payments/prod<" not in other
