"""A pull request shows the modules that its merge makes by discovery rules, and makes none itself."""

import os
import re
from typing import Any

import pytest

from terracrew.server.discovery import reads as discovery_reads
from terracrew.server.discovery.loop import Discovery
from terracrew.server.discovery.tools import DiscoveryTools
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.git.program import GitProgram
from terracrew.server.pull_requests import service
from tests.forges.fake_forge import FakePullRequest
from tests.server.application import on_one
from tests.server.pull_requests.world import NAME, World

ROOT = 'terraform {\n  backend "s3" {}\n}\n'


async def rule(world: World, **settings: Any) -> Discovery:
    """Make a rule for the repository, and return the loop that looks at it."""
    asked = {"name": "all", "group": "team", "url": f"ssh://git@127.0.0.1/{NAME}", "module_path": "{flat}"}
    await world.app.admin.made("/api/v1/discovery-rules", asked | {"plans_new": False} | settings)
    program = GitProgram(world.folder / "discovery" / "home", dict(os.environ) | world.git.environment)
    tools = DiscoveryTools(
        db=world.db,
        keys=world.server.keys,
        forges=world.forges,
        mirrors=RepositoryMirrors(world.folder / "discovery" / "repositories", world.outgoing, program),
        quotas=world.server.quotas,
        roots=(),
        server_id="srv_0",
    )
    loop = Discovery(tools)
    await loop.step()
    return loop


async def paths(world: World) -> set[str]:
    return {each["path"] for each in (await world.app.admin.get("/api/v1/modules")).json()["items"]}


async def pending(world: World, found: FakePullRequest) -> list[tuple[str, str, str]]:
    facts = await world.facts(found)
    view = await world.db.read(lambda tx: service.show(tx, world.app.admin.principal, facts.id))
    return [(each.path, each.folder, each.reason) for each in view.pending]


def opened(world: World, branch: str = "new", folder: str = "prod/db", **facts: Any) -> FakePullRequest:
    found = world.forge.open(world.on_forge, branch, **facts)
    world.push(found, world.branch(branch, folder, ROOT))
    return found


@pytest.mark.feature("F6.pending")
async def test_a_new_folder_is_pending_in_a_pull_request_and_real_when_it_is_merged(world: World) -> None:
    discovery = await rule(world)
    before = await paths(world)
    found = opened(world)
    await world.step()
    assert await pending(world, found) == [("team/prod-db", "prod/db", "")]
    assert await paths(world) == before, "a pull request makes no module"
    assert world.status["terracrew"] == ("success", "1 new module")
    [comment] = world.own_comments
    assert "New modules, pending until this is merged:" in comment
    assert "- `team/prod-db` of the folder `prod/db`" in comment
    assert await world.app.scalar("SELECT count(*) FROM jobs") == 0
    await discovery.step()
    assert await paths(world) == before
    world.merge_on_forge(found)
    await world.poll()
    await discovery.step()
    assert await paths(world) == before | {"team/prod-db"}
    assert await discovery_reads_rules(world) == 1


async def discovery_reads_rules(world: World) -> int:
    return len(await world.db.read(lambda tx: discovery_reads.of_repository(tx, world.watched, "main")))


@on_one
@pytest.mark.feature("F6.pending")
async def test_what_would_not_be_made_says_why_and_what_exists_is_left_out(world: World) -> None:
    await rule(world, exclude=["test/**"])
    found = world.forge.open(world.on_forge, "new")
    world.push(found, world.branch("new", "größe", ROOT))
    world.push(found, world.branch("new", "test/x", ROOT))
    world.push(found, world.branch("new", "app", 'output "app" { value = 3 }\n'))
    world.push(found, world.branch("new", "a_b", ROOT))
    world.push(found, world.branch("new", "a-b", ROOT))
    await world.step()
    assert [(path, folder, bool(reason)) for path, folder, reason in await pending(world, found)] == [
        ("", "größe", True),
        ("team/a-b", "a-b", True),
        ("team/a-b", "a_b", True),
    ]
    assert await world.states(found) == {"team/app": "waiting"}
    assert "2 folders would be the module" in world.own_comments[0]


@on_one
@pytest.mark.feature("F6.pending")
@pytest.mark.feature("F5.fork")
async def test_nothing_of_a_fork_is_looked_at_before_it_is_allowed(world: World) -> None:
    await rule(world)
    found = opened(world, is_fork=True)
    await world.step()
    assert await pending(world, found) == []
    assert not any("prod-db" in each for each in world.own_comments)
    facts = await world.facts(found)
    allowed = await world.app.admin.post(f"/api/v1/pull-requests/{facts.id}/allow", json={"commit": facts.head_commit})
    assert allowed.status_code == 200, allowed.text
    world.clock.advance(61)
    await world.step()
    assert await pending(world, found) == [("team/prod-db", "prod/db", "")]


@on_one
@pytest.mark.feature("F6.hostile")
async def test_many_new_modules_fit_into_the_comment_and_mention_nobody(world: World) -> None:
    await rule(world)
    found = world.forge.open(world.on_forge, "new")
    world.branch("new", "0@everyone/</code><script>", ROOT)
    world.repository.git("checkout", "-q", "new")
    for number in range(600):
        world.write(f"many/a{number}", ROOT)
    world.push(found, world.repository.commit("many"))
    world.repository.git("checkout", "-q", "main")
    await world.step()
    [comment] = world.own_comments
    assert "it would make 600 modules at once" in comment
    world.repository.git("checkout", "-q", "new")
    world.repository.git("rm", "-r", "-q", *(f"many/a{number}" for number in range(200)))
    world.push(found, world.repository.commit("fewer"))
    world.repository.git("checkout", "-q", "main")
    world.clock.advance(61)
    await world.step()
    [comment] = world.own_comments
    assert "371 more: [the page of this pull request]" in comment
    outside_of_code = re.sub(r"`[^`\n]*`", "", comment)
    assert "everyone" in outside_of_code
    assert "@everyone" not in outside_of_code
    assert "<script>" not in outside_of_code
    assert len(comment) < 20_000


@on_one
@pytest.mark.feature("F6.pending")
async def test_who_does_not_see_the_group_does_not_see_what_is_pending_in_it(world: World) -> None:
    await world.app.admin.made("/api/v1/groups", {"path": "other"})
    await world.module("modules/net")
    await rule(world, group="other", name="others")
    found = opened(world)
    world.push(found, world.branch("new", "app"))
    await world.step()
    facts = await world.facts(found)
    viewer = await world.app.person("vera", "viewer", "team")
    view = await world.db.read(lambda tx: service.show(tx, viewer.principal, facts.id))
    assert [each.path for each in view.touched] == ["team/app"]
    assert view.pending == []
    assert await pending(world, found) == [("other/prod-db", "prod/db", "")]
