"""What people set, ask for and see of a pull request."""

from terracrew.server.pull_requests.model import TouchedModule
from tests.forges.fake_forge import FakePullRequest
from tests.server.application import Person
from tests.server.pull_requests.world import World


async def rule(world: World, apply: str, **more: object) -> None:
    answer = await world.app.admin.patch("/api/v1/groups/team", json={"pull_request_apply": apply, **more})
    assert answer.status_code == 200, answer.text


async def operator(world: World, name: str = "bob", role: str = "operator") -> Person:
    person = await world.app.person(f"{name}-here", role, "team")
    await world.link(name, person)
    return person


async def changing_jobs(world: World) -> list[str]:
    return [each["id"] for each in await world.app.admin.listed("/api/v1/jobs") if each["type"] != "PLAN"]


async def app(world: World, found: FakePullRequest) -> TouchedModule:
    return (await world.show(found))[1]["team/app"]


def push_to_main(world: World, content: str, name: str = "main.tf") -> None:
    world.repository.git("checkout", "-q", "main")
    world.write("app", content, name=name)
    world.on_forge.branches["main"] = world.repository.commit("pushed to the branch")


async def later(world: World, times: int = 1, seconds: float = 301) -> None:
    for _ in range(times):
        world.clock.advance(seconds)
        await world.step()
