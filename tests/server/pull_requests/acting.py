"""What people set, ask for and see of a pull request."""

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
