"""The list of modules is limited by the newest job, the engine, the runner, and to what needs a person."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("U6.tree")
SOURCE = {"kind": "local", "path": "/srv/sources"}


def names(page: str) -> set[str]:
    return set(re.findall(r'<div class="name"><a href="/dashboard/modules/mod_\w+">([^<]+)</a>', page))


async def test_modules_are_filtered_by_status_engine_runner_and_doubt(
    application: Application, jobs: dict[str, str]
) -> None:
    """514 modules were 11 pages, and the one that was in doubt could be found by reading all of them."""
    someone = await logged_in(application)
    everything = names(await someone.see("/dashboard/modules"))
    await application.admin.made("/api/v1/modules", {"path": "idle", "source": SOURCE, "engine": "terraform"})
    failed = names(await someone.see("/dashboard/modules?status=FAILED"))
    assert failed
    assert failed < everything
    assert names(await someone.see("/dashboard/modules?status=none")) == {"idle"}
    assert names(await someone.see("/dashboard/modules?engine=terraform")) == {"idle"}
    page = await someone.see("/dashboard/modules?attention=true")
    assert "vpn" in names(page)
    assert "hello" not in names(page)
    assert page.count("<tr id=") == len(re.findall(r"In doubt: |waits for your decision|Lock orphaned", page))
    active = await someone.see("/dashboard/modules?status=open")
    badges = re.findall(r'aria-label="([^":]+): \w+ #\d+"', active)
    assert badges
    assert not {"Succeeded", "Failed", "Canceled", "Declined"} & set(badges)
    assert names(await someone.see("/dashboard/modules?runner=nothing")) == set()
    runner = await application.scalar(
        "SELECT runners.path FROM jobs JOIN runners ON runners.id = jobs.runner_id WHERE jobs.id = :id",
        id=jobs["applying"],
    )
    assert names(await someone.see(f"/dashboard/modules?runner={runner}"))
    assert "Nothing with these filters." in await someone.see("/dashboard/modules?engine=pulumi")
    await application.person("vera", "viewer", "platform")
    vera = await logged_in(application, "vera")
    assert names(await vera.see("/dashboard/modules?attention=true")) <= names(page)


@pytest.mark.usefixtures("jobs")
async def test_a_row_offers_the_dangerous_in_a_menu(application: Application) -> None:
    """`Destroy…` stood in red in every row."""
    page = await (await logged_in(application)).see("/dashboard/modules")
    assert 'class="btn quiet danger"' not in page
    assert re.search(r'<a class="entry danger" id="destroy-mod_\w+" href="/dashboard/modules/mod_\w+/destroy">', page)
    await application.person("vera", "viewer")
    assert "destroy-mod_" not in await (await logged_in(application, "vera")).see("/dashboard/modules")
