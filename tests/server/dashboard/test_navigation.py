"""Every page is reached by links, from the first one or from a group: nobody has to know its address."""

import re

import pytest

from tests.server.application import Application, on_one
from tests.server.dashboard.browser.every_page import page_paths
from tests.server.dashboard.visitor import logged_in

ELSEWHERE = {
    "/dashboard/hold": "is linked on every page of a server that is held",
    "/dashboard/releases/notes": "is linked where a release was published",
    "/dashboard/releases/update": "is linked where a runner is outdated",
    "/login": "is where people log in",
    "/api": "is linked in the frame, and links to itself",
    "/dashboard/device": "is the address that `terracrew login` prints",
}
LINK = re.compile(r'href="(/[\w/-]*)')


@pytest.mark.feature("P4.pages")
@pytest.mark.usefixtures("jobs")
@on_one
async def test_links_lead_to_every_page_that_is_about_no_single_thing(application: Application) -> None:
    """The list of policies was linked on the pages of policies only."""
    someone = await logged_in(application)
    wanted = {path for path in page_paths() if "{" not in path} - ELSEWHERE.keys()
    found, waiting = {"/dashboard"}, ["/dashboard", "/dashboard/groups/platform"]
    while waiting:
        page = waiting.pop()
        links = {each for each in LINK.findall(await someone.see(page)) if not page.startswith(each)} & wanted
        waiting += sorted(links - found)
        found |= links
    assert wanted - found == set()
