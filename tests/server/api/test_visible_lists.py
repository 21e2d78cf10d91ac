"""Lists and pages hold what their reader may see, and counts count nothing else."""

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from terracrew.server.db import open_database
from terracrew.server.db.sqlite.background import MAX_THREADS
from tests.server.application import Application, Person

SLOW = """WITH RECURSIVE n (i) AS (SELECT CAST(1 AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
SELECT count(*) AS numbers FROM n"""

SOURCE = {"kind": "local", "path": "/srv/sources/x"}


async def _fill(application: Application) -> None:
    for group in ("a", "a/x", "ab"):
        await application.admin.made("/api/v1/groups", {"path": group}, parents=True)
    for module in ("a/one", "a/x/two", "ab/three"):
        await application.admin.made("/api/v1/modules", {"path": module, "source": SOURCE})
    for runner, group in (("one", "a"), ("two", "a/x"), ("three", "ab"), ("four", "")):
        await application.admin.made("/api/v1/runners", {"name": runner, "group": group})


async def _paths(person: Person, address: str, **params: Any) -> list[str]:
    return sorted(each["path"] for each in await person.listed(address, limit=2, **params))


@pytest.mark.feature("X3.roles")
async def test_every_list_holds_exactly_what_its_reader_may_see(application: Application) -> None:
    await _fill(application)
    reader = await application.person("rita", "owner", "a")
    assert await _paths(reader, "/api/v1/modules") == ["a/one", "a/x/two"]
    assert await _paths(reader, "/api/v1/modules", group="a") == ["a/one"]
    assert await _paths(reader, "/api/v1/modules", group="a", recursive=True) == ["a/one", "a/x/two"]
    assert await _paths(reader, "/api/v1/modules", group="a/x", recursive=True) == ["a/x/two"]
    assert await _paths(reader, "/api/v1/groups") == ["a", "a/x"]
    assert await _paths(reader, "/api/v1/runners") == ["a/one", "a/x/two"]
    assert await _paths(reader, "/api/v1/runners", status="OFFLINE", group="a/x") == ["a/x/two"]
    assert await _paths(reader, "/api/v1/roles") == ["a"]
    assert await _paths(application.admin, "/api/v1/modules", group="a", recursive=True) == ["a/one", "a/x/two"]
    assert await _paths(application.admin, "/api/v1/runners") == ["a/one", "a/x/two", "ab/three", "four"]
    assert await _paths(application.admin, "/api/v1/groups", parent="a") == ["a/x"]
    deep = await application.person("dora", "viewer", "a/x")
    assert await _paths(deep, "/api/v1/groups") == ["a", "a/x"], "the group on the way to it is shown, too"
    nobody = await application.person("nora")
    for address in ("/api/v1/modules", "/api/v1/groups", "/api/v1/runners", "/api/v1/roles", "/api/v1/jobs"):
        assert (await nobody.get(address)).json() == {"items": [], "next": None}


def _count(page: str, of: str) -> str:
    found = re.search(rf">{of} <span class=\"count\">([^<]*)<", page)
    assert found is not None, page
    return found[1]


@pytest.mark.feature("X3.roles")
async def test_counts_beside_the_menu_are_of_what_the_reader_may_see(application: Application) -> None:
    """A user without any role saw "Modules 10 · 1 to approve" beside the menu."""
    await _fill(application)
    for person, modules, runners in (
        (await application.person("nora"), "0", "0"),
        (await application.person("rita", "viewer", "a"), "2", "2"),
        (application.admin, "3", "4"),
    ):
        page = (await person.get("/dashboard/modules")).text
        assert (_count(page, "Modules"), _count(page, "Runners")) == (modules, runners)
        assert ("ab/three" in page or ">three<" in page) is (person is application.admin)


async def test_the_modules_page_shows_a_part_of_many_and_leads_to_the_rest(application: Application) -> None:
    """The page read and showed every module of the organization, whoever asked: 20,000 of them took seconds."""
    await _fill(application)
    for number in range(110):
        await application.admin.made("/api/v1/modules", {"path": f"ab/m{number:03}", "source": SOURCE})
    first = (await application.admin.get("/dashboard/modules")).text
    assert (">m040<" in first, ">m060<" in first) == (True, False)
    following = re.search(r'rel="next" href="([^"]*)"', first)
    assert following is not None
    second = (await application.admin.get(following[1].replace("&amp;", "&"))).text
    assert (">m040<" in second, ">m060<" in second, ">m109<" in second) == (False, True, False)
    found = (await application.admin.get("/dashboard/modules", params={"q": "AB m05"})).text
    assert (">m055<" in found, ">m060<" in found) == (True, False)
    assert ">m0" not in (await application.admin.get("/dashboard/modules", params={"q": "m_5%"})).text


async def test_the_server_answers_while_a_large_list_is_read(application: Application) -> None:
    """`/healthz` was not answered for as long as somebody's list was read: minutes."""
    reading = [asyncio.create_task(application.server.db.read_in_background(lambda tx: tx.one(SLOW))) for _ in range(2)]
    await asyncio.sleep(0)
    assert (await application.stranger().get("/healthz")).status_code == 200
    assert not any(task.done() for task in reading)
    assert [row and row["numbers"] for row in await asyncio.gather(*reading)] == [1_000_000] * 2


async def test_reads_in_the_background_have_a_bounded_number_of_threads_and_end_when_nobody_waits(
    tmp_path: Path,
) -> None:
    db = await open_database(f"sqlite:///{tmp_path / 'terracrew.db'}")
    tasks = [asyncio.create_task(db.read_in_background(lambda tx: tx.one(SLOW))) for _ in range(3 * MAX_THREADS)]
    first = await tasks[0]
    assert first is not None
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("sqlite-read")]
    assert len(threads) == MAX_THREADS
    for task in tasks[1:]:
        task.cancel()
    await asyncio.gather(*tasks[1:], return_exceptions=True)
    async with asyncio.timeout(5):
        row = await db.read_in_background(lambda tx: tx.one("SELECT 1 AS one"))
    assert row == {"one": 1}
    await db.close()
