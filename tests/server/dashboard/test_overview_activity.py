"""Each row of what happened last and of what comes next leads to its page, and a program learns what the page lists."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("P2.activity")


async def test_every_row_of_the_page_leads_somewhere(application: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(application)
    page = await someone.see("/dashboard")
    for title in ("activity", "coming"):
        rows = re.findall(r"<li>.*?</li>", page[page.index(f'id="{title}"') :].partition("</section>")[0], re.DOTALL)
        assert rows
        for row in rows:
            for address in re.findall(r'href="([^"]+)"', row):
                assert (await someone.get(address.replace("&amp;", "&"))).status_code in (200, 303), address


async def test_a_program_learns_of_jobs_that_wait_for_a_person(application: Application, jobs: dict[str, str]) -> None:
    found = (await application.admin.get("/api/v1/overview")).json()["needs"]
    waiting = [each for each in found if each["kind"] == "waiting"]
    assert [each["path"] for each in waiting] == ["data/warehouse/buckets"]
    assert waiting[0]["text"]
    lost = [each["path"] for each in found if each["kind"] == "lost"]
    assert lost == ["platform/edge/firewall"], "only what its reason calls lost"
