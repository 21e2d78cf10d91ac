"""A module gets another path with everything that it has, and only by people who own both groups."""

import asyncio
from collections.abc import Awaitable

import httpx
import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.group_runs import service
from terracrew.server.identity.access import role_store
from tests.server.application import Application, Person

pytestmark = pytest.mark.feature("U6.move")
SOURCE = {"kind": "local", "path": "/srv/sources/vpc"}
API = "/api/v1"


async def made(application: Application) -> None:
    for path in ("old", "new"):
        await application.admin.made(f"{API}/groups", {"path": path})
        await given(application.admin, {"place": path, "name": "region", "value": f"of {path}"})
    await application.admin.made(f"{API}/modules", {"path": "old/net", "source": SOURCE, "description": "kept"})
    await application.admin.made(f"{API}/modules", {"path": "old/user", "source": SOURCE})


async def given(admin: Person, body: dict[str, object]) -> None:
    answer = await admin.post(f"{API}/inputs", json=body)
    assert answer.is_success, answer.text


async def moved(application: Application, to: str, module: str = "old/net") -> dict[str, object]:
    answer = await application.admin.post(f"{API}/modules/{module.replace('/', '%2F')}/move", json={"path": to})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_moved_module_keeps_what_it_has_and_gets_what_its_new_groups_say(application: Application) -> None:
    await made(application)
    admin = application.admin
    await given(admin, {"place": "old/net", "name": "size", "value": 3})
    output = {"module": "old/net", "output": "id"}
    await given(admin, {"place": "old/user", "name": "net_id", "output": output})
    hook = {"flags": {"tofu": ["-parallelism=5"]}}
    assert (await admin.put(f"{API}/modules/old%2Fnet/steps/plan", json=hook)).is_success
    job = await admin.made(f"{API}/modules/old%2Fnet/jobs", {"type": "PLAN"})
    assert (await admin.post(f"{API}/jobs/{job['id']}/cancel", json={})).is_success
    guest = await application.person("guest")

    async def let_see(tx: object) -> None:
        place = (application.server.organization_id, "user", guest.principal.id, "viewer", "module", "old/net", "test")
        await role_store.bind_role(tx, *place)  # pyright: ignore[reportArgumentType]

    await application.server.db.write(let_see)
    before = (await admin.get(f"{API}/modules/old%2Fnet")).json()

    after = await moved(application, "new/core")
    assert (after["id"], after["path"], after["name"], after["description"]) == (
        before["id"],
        "new/core",
        "core",
        "kept",
    )
    assert (await admin.get(f"{API}/modules/old%2Fnet")).status_code == 404
    assert (await guest.get(f"{API}/modules/new%2Fcore")).is_success, "a role at the module is a role at its new path"
    values = {each["name"]: each["value"] for each in await admin.listed(f"{API}/inputs", place="new/core")}
    assert values == {"size": 3, "region": "of new"}
    assert (await admin.get(f"{API}/jobs/{job['id']}")).json()["module_path"] == "new/core"
    uses = await admin.listed(f"{API}/modules/old%2Fuser/dependencies")
    assert [(each["path"], each["output"]) for each in uses] == [("new/core", "id")]
    steps = (await admin.get(f"{API}/modules/new%2Fcore/steps")).json()
    assert "-parallelism=5" in str(steps)
    await admin.made(f"{API}/modules", {"path": "old/net", "source": SOURCE})
    assert (await guest.get(f"{API}/modules/old%2Fnet")).status_code == 404, "the old path means another module now"
    assert "-parallelism=5" not in str((await admin.get(f"{API}/modules/old%2Fnet/steps")).json())


@pytest.mark.parametrize(
    ("to", "status", "words"),
    [
        ("old/user", 409, "there is a module `old/user` already"),
        ("new", 409, "there is a group `new` already"),
        ("nowhere/net", 404, "there is no group `nowhere`"),
        ("", 400, "needs a name"),
        ("new/No Name", 400, "No Name"),
    ],
)
async def test_a_path_that_is_not_possible_is_refused(
    application: Application, to: str, status: int, words: str
) -> None:
    await made(application)
    answer = await application.admin.post(f"{API}/modules/old%2Fnet/move", json={"path": to})
    assert (answer.status_code, words in answer.text) == (status, True), answer.text
    assert (await application.admin.get(f"{API}/modules/old%2Fnet")).is_success


async def test_a_module_does_not_move_under_its_jobs_or_a_run_of_its_group(application: Application) -> None:
    await made(application)
    admin = application.admin
    await given(admin, {"place": "old/net", "name": "id", "output": {"module": "old/user", "output": "id"}})
    run = await admin.made(f"{API}/groups/old/runs", {"type": "APPLY"})
    answer = await admin.post(f"{API}/modules/old%2Fnet/move", json={"path": "new/net"})
    assert (answer.status_code, "a run of its group" in answer.text) == (409, True), answer.text
    assert (await admin.post(f"{API}/groups/old/runs/{run['id']}/stop")).is_success
    await admin.made(f"{API}/modules/old%2Fnet/jobs", {"type": "PLAN"})
    answer = await admin.post(f"{API}/modules/old%2Fnet/move", json={"path": "new/net"})
    assert (answer.status_code, "has 1 unfinished job" in answer.text) == (409, True), answer.text
    assert (await admin.post(f"{API}/jobs/cancel", json={"module": "old/net"})).is_success
    await moved(application, "new/net")


async def test_who_moves_a_module_owns_both_groups(application: Application) -> None:
    """Otherwise the owner of one module could take it out of the rules of its group, or into a group of others."""
    await made(application)
    for name, path in (("olga", "old"), ("nina", "new")):
        person = await application.person(name, "owner", path)
        answer = await person.post(f"{API}/modules/old%2Fnet/move", json={"path": "new/net"})
        assert answer.status_code in (403, 404), answer.text
    owner = await application.person("mona")

    async def own_it(tx: object) -> None:
        for kind, path in (("module", "old/net"), ("group", "new")):
            place = (application.server.organization_id, "user", owner.principal.id, "owner", kind, path, "test")
            await role_store.bind_role(tx, *place)  # pyright: ignore[reportArgumentType]

    await application.server.db.write(own_it)
    answer = await owner.post(f"{API}/modules/old%2Fnet/move", json={"path": "new/net"})
    assert answer.status_code in (403, 404), answer.text
    assert (await owner.get(f"{API}/modules/old%2Fnet")).is_success


async def test_who_takes_a_module_out_of_a_group_owns_the_group_whose_rules_end(application: Application) -> None:
    """A rule of a group applies to everything below it, and nobody weakens it from there."""
    admin = application.admin
    for path in ("strict", "strict/team", "strict/other", "lax"):
        await admin.made(f"{API}/groups", {"path": path})
    await admin.made(f"{API}/modules", {"path": "strict/team/net", "source": SOURCE})
    owner = await application.person("olga", "owner", "strict/team")

    async def own_others(tx: Tx) -> None:
        for path in ("strict/other", "lax"):
            place = (application.server.organization_id, "user", owner.principal.id, "owner", "group", path, "test")
            await role_store.bind_role(tx, *place)

    await application.server.db.write(own_others)
    answer = await owner.post(f"{API}/modules/strict%2Fteam%2Fnet/move", json={"path": "lax/net"})
    assert (answer.status_code, "`strict`" in answer.text) == (403, True), answer.text
    answer = await owner.post(f"{API}/modules/strict%2Fteam%2Fnet/move", json={"path": "strict/other/net"})
    assert answer.status_code == 200, "the rules of `strict` still apply"


async def test_a_module_does_not_leave_the_group_of_a_runner_or_service_account_of_its_own(
    application: Application,
) -> None:
    """Otherwise a runner of the old group would be given the secrets of the new one, and an account of it would have rights there."""
    await made(application)
    admin = application.admin
    runner = await admin.made(f"{API}/runners", {"name": "r", "group": "old"})
    await admin.made(f"{API}/runners/{runner['id']}/assignments", {"place": "old/net"})
    account = await admin.made(f"{API}/service-accounts", {"name": "ci", "group": "old"})
    role = {"principal": account["id"], "role": "operator", "path": "old/net", "kind": "module"}
    bound = await admin.made(f"{API}/roles", role)
    answer = await admin.post(f"{API}/modules/old%2Fnet/move", json={"path": "new/net"})
    assert (answer.status_code, "runner `old/r`, service account ci" in answer.text) == (409, True), answer.text
    await moved(application, "old/core")
    assert (await admin.delete(f"{API}/roles/{bound['id']}")).is_success
    answer = await admin.post(f"{API}/modules/old%2Fcore/move", json={"path": "new/net"})
    assert (answer.status_code, "of runner `old/r`, which" in answer.text) == (409, True), answer.text


async def during_a_move(application: Application, *requests: Awaitable[httpx.Response]) -> list[httpx.Response]:
    """Move `old/net` to `new/net`, and send requests that come before the move is committed, where a database allows that."""
    db = application.server.db

    async def work(tx: Tx) -> None:
        await service.move_module(tx, application.admin.principal, "old/net", "new/net")
        if db.kind == "postgres":
            await tx.run("SELECT pg_sleep(0.5)")

    moving = asyncio.ensure_future(db.write(work))
    await asyncio.sleep(0.2)
    answers = await asyncio.gather(*requests)
    await moving
    return answers


async def test_what_is_kept_with_a_path_is_not_added_at_the_old_one_while_a_module_moves(
    application: Application,
) -> None:
    await made(application)
    admin = application.admin
    runner = await admin.made(f"{API}/runners", {"name": "r"})
    guest = await application.person("guest")
    role = {"principal": guest.principal.id, "role": "viewer", "path": "old/net", "kind": "module"}
    answers = await during_a_move(
        application,
        admin.post(f"{API}/roles", json=role),
        admin.post(f"{API}/runners/{runner['id']}/assignments", json={"place": "old/net"}),
        admin.put(f"{API}/modules/old%2Fnet/steps/plan", json={"flags": {"tofu": ["-parallelism=5"]}}),
    )
    assert [each.status_code for each in answers] == [404, 404, 404], [each.text for each in answers]


async def test_a_job_is_not_created_with_what_the_old_groups_say_while_its_module_moves(
    application: Application,
) -> None:
    await made(application)
    admin = application.admin
    for path, seconds in (("old", 100), ("new", 200)):
        answer = await admin.patch(f"{API}/groups/{path}", json={"limits": {"job_seconds": seconds}})
        assert answer.is_success, answer.text
    module = (await admin.get(f"{API}/modules/old%2Fnet")).json()["id"]
    operator = await application.person("oscar", "operator", "old")
    refused, made_job = await during_a_move(
        application,
        operator.post(f"{API}/modules/{module}/jobs", json={"type": "PLAN"}),
        admin.post(f"{API}/modules/{module}/jobs", json={"type": "PLAN"}),
    )
    assert refused.status_code in (403, 404), refused.text
    assert made_job.json()["limits"]["job_seconds"] == 200, made_job.text
