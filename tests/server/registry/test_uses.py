"""Which modules use a published module is known from what their jobs fetch, and told to those who see these modules."""

from typing import Any

import pytest

from tests.server.application import Person
from tests.server.registry.publisher import address, download, job_of, published
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("P7.uses")
PATH = "common/vpc/aws"
ADDRESS = PATH


async def uses(who: Person, **query: Any) -> list[tuple[str, str]]:
    answer = await who.get(f"{address(PATH)}/uses", params=query)
    assert answer.status_code == 200, answer.text
    return [(each["module"], each["version"]) for each in answer.json()["items"]]


async def test_what_a_job_fetches_is_kept_by_module_and_version(runner: SimulatedRunner) -> None:
    app = runner.app
    await published(app, PATH, "1.0.0", "1.1.0", readers="organization")
    assert await uses(app.admin) == []
    first = await job_of(runner, "team/app")
    for version in ("1.0.0", "1.0.0", "9.9.9"):
        await download(first, ADDRESS, version)
    await download(app.admin, ADDRESS, "1.1.0")
    assert await uses(app.admin) == [("team/app", "1.0.0")], "of a person, nothing is kept"
    second = await job_of(runner, "other/app")
    await download(second, ADDRESS, "1.1.0")
    assert await uses(app.admin) == [("other/app", "1.1.0"), ("team/app", "1.0.0")]
    assert await uses(app.admin, version="1.0.0") == [("team/app", "1.0.0")]
    page = (await app.admin.get(f"{address(PATH)}/uses", params={"limit": 1})).json()
    assert [each["module"] for each in page["items"]] == ["other/app"]
    assert await uses(app.admin, limit=1, after=page["next"]) == [("team/app", "1.0.0")]
    await app.admin.refused("GET", f"{address(PATH)}/uses?version=9.9.9", 404)
    await app.admin.patch(f"{address(PATH)}/versions/1.0.0", json={"is_withdrawn": True})
    found = (await app.admin.get(f"{address(PATH)}/uses")).json()["items"]
    assert [each["is_withdrawn"] for each in found] == [False, True]
    assert found[1]["first_at"] == found[1]["fetched_at"]


async def test_only_modules_that_the_reader_sees_are_named(runner: SimulatedRunner) -> None:
    app = runner.app
    await published(app, PATH, "1.0.0", readers="organization")
    for path in ("team/app", "other/app"):
        await download(await job_of(runner, path), ADDRESS, "1.0.0")
    team = await app.person("tim", "viewer", "team")
    assert await uses(team) == [("team/app", "1.0.0")]
    page = (await team.get(f"/dashboard/registry/{await app.scalar('SELECT id FROM published_modules')}")).text
    assert "team/app" in page
    assert "other/app" not in page
    engine = await job_of(runner, "team/second")
    assert await uses(engine) == []
    stranger = await app.person("eve", "owner", organization="elsewhere")
    await stranger.refused("GET", f"{address(PATH)}/uses", 404)


async def test_a_use_is_forgotten_with_its_module_and_with_the_version(runner: SimulatedRunner) -> None:
    app = runner.app
    await published(app, PATH, "1.0.0", readers="organization")
    attempts = [await job_of(runner, path) for path in ("team/app", "other/app")]
    for each in attempts:
        await download(each, ADDRESS, "1.0.0")
    assert await app.scalar("SELECT count(*) FROM published_uses") == 2
    await app.admin.patch(f"{address(PATH)}/versions/1.0.0", json={"is_withdrawn": True})
    assert (await app.admin.delete(address(PATH))).status_code == 204
    assert await app.scalar("SELECT count(*) FROM published_uses") == 0
