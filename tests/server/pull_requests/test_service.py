"""People look at pull requests and ask for plans and applies here, each with their own rights."""

from typing import Any

import pytest

from terracrew.api.jobs import JobStatus
from tests.server.application import Application, Person
from tests.server.pull_requests.world import NAME, World

PULL_REQUESTS = "/api/v1/pull-requests"
pytestmark = pytest.mark.feature("F3.shown")


def at(number: int, action: str = "") -> str:
    return f"{PULL_REQUESTS}/{NAME.replace('/', '%2F')}%23{number}{action}"


async def ask(who: Person, path: str, **body: Any) -> dict[str, Any]:
    answer = await who.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_pull_request_is_shown_with_the_modules_that_the_reader_may_see(world: World) -> None:
    found = world.forge.open(world.on_forge, "both")
    world.branch("both", "app")
    world.push(found, world.branch("both", "vpc", "# changed\n"))
    await world.step()
    await world.plan(found, "team/app")
    admin = world.app.admin
    [listed] = await admin.listed(PULL_REQUESTS)
    assert (listed["repository"], listed["number"], listed["modules"]) == (
        NAME,
        found.number,
        {"changes": 1, "waiting": 1},
    )
    shown = (await admin.get(at(found.number))).json()
    assert [each["path"] for each in shown["touched"]] == ["team/app", "team/vpc"]
    app = shown["touched"][0]
    assert (app["state"], app["counts"], app["apply"]) == ("changes", "1 to add, 0 to change, 0 to destroy", "never")
    assert app["plan_number"] is not None

    some = await world.app.person("sam", "viewer", "team")
    assert len((await some.get(at(found.number))).json()["touched"]) == 2
    nobody = await world.app.person("nora")
    assert await nobody.listed(PULL_REQUESTS) == []
    await nobody.refused("GET", at(found.number), 404)
    other = await world.app.person("olga", "owner", organization="other")
    assert await other.listed(PULL_REQUESTS) == []
    await other.refused("GET", f"{PULL_REQUESTS}/{listed['id']}", 404)
    assert await admin.listed(PULL_REQUESTS, only="merged") == []


async def test_commands_here_need_the_same_rights_as_those_in_comments(world: World) -> None:
    await world.app.admin.patch("/api/v1/groups/team", json={"pull_request_apply": "on_command"})
    found = await world.planned()
    viewer, operator = await world.app.person("vera", "viewer"), await world.app.person("otto", "operator")
    await viewer.refused("POST", at(found.number, "/apply"), 403, json={"head_commit": found.head_commit, "plans": []})
    await viewer.refused("POST", at(found.number, "/plan"), 403, json={})
    await operator.refused("POST", at(found.number, "/apply"), 409, json={"head_commit": "0" * 40, "plans": []})
    shown = [(await world.show(found))[1]["team/app"].plan_job_id]
    seen = {"head_commit": found.head_commit, "modules": ["team/app"]}
    said = await ask(operator, at(found.number, "/apply"), **seen, plans=["another"])
    assert said["refused"] == {"team/app": "it was planned again: look at the new plan"}
    said = await ask(operator, at(found.number, "/apply"), **seen, plans=shown)
    assert said == {"message": "applied: `team/app`", "done": ["team/app"], "refused": {}}
    job_id = (await world.show(found))[1]["team/app"].apply_job_id
    assert (await world.job(job_id)).created_by == operator.principal.id
    await world.step()
    assert (await ask(operator, at(found.number, "/cancel")))["done"] == ["team/app"]
    assert (await world.job(job_id)).status is JobStatus.CANCELED
    await world.step()
    said = await ask(operator, at(found.number, "/plan"))
    assert said["done"] == ["team/app"]
    await world.step()
    assert await world.states(found) == {"team/app": "waiting"}
    entries = [(each["actor_name"], each["action"]) for each in await world.app.admin.listed("/api/v1/audit")]
    for action in ("job.run", "job.cancel", "pull_request.plan"):
        assert ("otto", action) in entries
    words = await operator.refused("POST", at(found.number, "/plan"), 400, json={"modules": ["team/none"]})
    assert "touches no module `team/none`" in words


async def test_nothing_is_applied_of_a_commit_that_was_not_seen(world: World) -> None:
    await world.app.admin.patch("/api/v1/groups/team", json={"pull_request_apply": "on_command"})
    found = await world.planned()
    seen = found.head_commit
    world.push(found, world.branch("change", "app", 'output "app" { value = 3 }\n'))
    await world.poll()
    words = await world.app.admin.refused(
        "POST", at(found.number, "/apply"), 409, json={"head_commit": seen, "plans": []}
    )
    assert "the newest commit of the pull request is" in words
    await world.app.admin.refused(
        "POST", at(found.number, "/apply"), 409, json={"head_commit": found.head_commit, "plans": []}
    )


@pytest.mark.feature("F5.fork")
async def test_a_commit_of_a_fork_is_allowed_by_who_may_change_the_modules(world: World) -> None:
    found = world.open_on_forge("change", "app", is_fork=True)
    await world.step()
    operator, owner = await world.app.person("otto", "operator"), await world.app.person("olga", "owner")
    assert not (await operator.get(at(found.number))).json()["may_allow"]
    assert (await owner.get(at(found.number))).json()["may_allow"]
    await operator.refused("POST", at(found.number, "/allow"), 403, json={"commit": found.head_commit})
    await owner.refused("POST", at(found.number, "/allow"), 400, json={"commit": "1234567" + found.head_commit[7:]})
    await ask(owner, at(found.number, "/allow"), commit=found.head_commit)
    [entry] = [each for each in await world.app.admin.listed("/api/v1/audit") if each["action"] == "pull_request.allow"]
    assert (entry["actor_name"], entry["details"]["commit"]) == ("olga", found.head_commit)
    await world.step()
    assert await world.states(found) == {"team/app": "waiting"}


@pytest.mark.feature("F3.commands")
async def test_users_of_the_forge_are_linked_by_who_may_take_over_the_account(world: World) -> None:
    found = world.open_on_forge("change", "app")
    await world.step()
    owner, otto = await world.app.person("olga", "owner"), await world.app.person("otto", "operator")
    await world.app.person("elsewhere", "owner", organization="other")
    users = "/api/v1/forges/forge/users"
    await otto.refused("POST", users, 403, json={"forge_user": "ada", "user": "otto"})
    await owner.refused("POST", users, 400, json={"forge_user": "ada", "user": "elsewhere"})
    await owner.refused("POST", users, 400, json={"forge_user": "nobody", "user": "otto"})
    await owner.refused("POST", users, 403, json={"forge_user": "ada", "user": "admin"})
    made = await owner.made(users, {"forge_user": "ada", "user": "otto"})
    assert (made["forge_user_id"], made["user"]) == (str(found.author.id), "otto")
    assert [each["user"] for each in (await owner.get(users)).json()["items"]] == ["otto"]
    assert (await owner.delete(f"{users}/{made['forge_user_id']}")).status_code == 204
    assert (await owner.get(users)).json()["items"] == []
    await owner.refused("DELETE", f"{users}/{made['forge_user_id']}", 404)


async def test_without_a_connection_there_is_nothing(application: Application) -> None:
    assert await application.admin.listed(PULL_REQUESTS) == []
    await application.admin.refused("GET", at(1), 404)
