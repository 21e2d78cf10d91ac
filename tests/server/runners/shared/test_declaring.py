"""Shared runners follow the declaration of a server's settings file: created, changed, retired, restored, and nothing is lost."""

import asyncio

import msgspec
import pytest

from terracrew import ids
from terracrew.api.runners import Runner
from terracrew.errors import Invalid
from terracrew.server.runners.removal.service import Removals
from terracrew.server.runners.shared import declaration, declaring
from terracrew.server.runners.shared.declaration import DeclaredRunner
from terracrew.server.secrets import credentials
from tests.builders.deliveries import DONE, delivery
from tests.builders.job_rows import Instance, change_runners, insert_instance
from tests.server.application import Application
from tests.server.declarations import FILE, declare, remote
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("R3.declared")
TOKEN = credentials.new("tcw")
NEAR = DeclaredRunner(name="near", kind="built-in", max_jobs=2, allow_multiple_instances=True)


async def _runner(application: Application, name: str) -> Runner | None:
    return await application.server.db.read(lambda tx: declaring.find(tx, name))


async def _token(application: Application, runner: Runner) -> str:
    return await application.scalar("SELECT worker_token_sha256 FROM runners WHERE id = :id", id=runner.id)


async def test_a_declaration_creates_changes_and_retires_runners(application: Application) -> None:
    db = application.server.db
    far = remote("far", TOKEN, tags=("gpu",), description="Far away.")
    made = await declare(db, [NEAR, far])
    assert (made.before, sorted(made.created)) == (None, ["far", "near"])
    found = await _runner(application, "far")
    assert found is not None
    assert (found.organization_id, found.tags, found.max_jobs, found.description) == (None, ["gpu"], 100, "Far away.")
    assert (found.is_declared, found.declared_in) == (True, FILE)
    assert await _token(application, found) == TOKEN.sha256

    again = await declare(db, [NEAR, far])
    assert [again.created, again.changed, again.retired, again.restored] == [[], [], [], []]
    assert again.before is not None

    changed = await declare(db, [NEAR, msgspec.structs.replace(far, max_jobs=7, tags=("a", "b"))])
    assert changed.changed == ["far"]
    after = await _runner(application, "far")
    assert after == msgspec.structs.replace(found, max_jobs=7, tags=["a", "b"])

    assert (await declare(db, [NEAR])).retired == ["far"]
    entries = await application.admin.listed("/api/v1/audit")
    mine = [(each["action"], each["target_id"]) for each in entries if each["action"].startswith("runner.")]
    assert [action for action, target in reversed(mine) if target == found.id] == [
        "runner.create",
        "runner.change",
        "runner.retire",
    ]


async def test_a_new_token_ends_the_old_one_and_an_equal_one_disturbs_nobody(application: Application) -> None:
    db, other = application.server.db, credentials.new("tcw")
    await declare(db, [remote("far", TOKEN)])
    found = await _runner(application, "far")
    assert found is not None
    with db.listen("access") as woken:
        await declare(db, [remote("far", TOKEN)])
        await declare(db, [remote("far", other)])
        assert await woken.get(5) == {("access", found.id)}
    assert await _token(application, found) == other.sha256


async def test_two_runners_never_have_one_token(application: Application) -> None:
    db = application.server.db
    registered = await application.admin.made("/api/v1/runners/register", {"name": "crew"})
    stolen = credentials.Secret(registered["worker_token"], credentials.digest(registered["worker_token"]))
    with pytest.raises(Invalid, match="the runner `crew` has the same worker token"):
        await declare(db, [remote("far", stolen)])
    assert await _runner(application, "far") is None
    assert await db.read(declaration.current) is None, "a declaration is applied whole or not at all"


async def _instance(crew: SimulatedRunner, runner: Runner) -> Instance:
    made = await crew.server.db.write(lambda tx: insert_instance(tx, runner.id, capacity=2))
    return Instance(crew.rows, runner.id, made)


async def test_a_retired_runner_finishes_its_job_before_it_is_removed(runner: SimulatedRunner) -> None:
    db = runner.server.db
    await declare(db, [remote("far", TOKEN)])
    found = await _runner(runner.app, "far")
    assert found is not None
    instance = await _instance(runner, found)
    await change_runners(db, runner.instance.runner_id, is_disabled=True)
    job = await runner.rows.job(await runner.rows.module())
    ref = await instance.start(job)
    await declare(db, [])
    await Removals(db).step()
    retired = await _runner(runner.app, "far")
    assert retired is not None
    assert (retired.is_declared, retired.is_draining) == (False, True)
    assert retired.removing_since is not None
    other = await runner.rows.job(await runner.rows.module())
    assert await instance.claim(other) is None, "a retired runner takes nothing new"
    await runner.rows.take(delivery(ref, 2, DONE))
    assert (await runner.rows.load(job)).status == "SUCCEEDED"
    await Removals(db).step()
    assert await _runner(runner.app, "far") is None


async def test_a_runner_that_is_declared_again_comes_back_with_its_id_and_its_pins(runner: SimulatedRunner) -> None:
    db, admin = runner.server.db, runner.app.admin
    await declare(db, [remote("far", TOKEN)])
    first = await _runner(runner.app, "far")
    assert first is not None
    assert first.id == ids.of_name("rnr", "far"), "what `terracrew server worker-token` prints"
    module = await runner.rows.module("app")
    await admin.patch(f"/api/v1/modules/{module}", json={"runner": "far"})

    await declare(db, [])
    assert (await declare(db, [remote("far", TOKEN)])).restored == ["far"]
    restored = await _runner(runner.app, "far")
    assert restored == first

    for _ in range(2):  # its name is kept for old jobs, once
        await declare(db, [])
        await Removals(db).step()
        assert await _runner(runner.app, "far") is None
        assert (await declare(db, [remote("far", TOKEN)])).created == ["far"]
    again = await _runner(runner.app, "far")
    assert again is not None
    assert again.id == first.id
    instance = await _instance(runner, again)
    await instance.start(await runner.rows.job(module))


async def test_what_an_operator_has_disabled_stays_disabled_through_a_retirement(application: Application) -> None:
    db = application.server.db
    await declare(db, [remote("far", TOKEN)])
    assert (await application.admin.patch("/api/v1/runners/far", json={"is_disabled": True})).status_code == 200
    await declare(db, [])
    await declare(db, [remote("far", TOKEN)])
    found = await _runner(application, "far")
    assert found is not None
    assert (found.is_disabled, found.is_draining) == (True, False)


async def test_the_last_of_two_different_declarations_is_in_effect_whole(application: Application) -> None:
    """Invariant: the shared runners are always those of exactly one declaration, never a mixture of two."""
    db, other = application.server.db, credentials.new("tcw")
    left = [NEAR, remote("far", TOKEN)]
    right = [remote("far", other, max_jobs=5), remote("third", credentials.new("tcw"))]
    await asyncio.gather(
        *(declare(db, left, file="/left", host="a") for _ in range(3)),
        *(declare(db, right, file="/right", host="b") for _ in range(3)),
    )
    current = await db.read(declaration.current)
    assert current is not None
    won, names = (left, {"near", "far"}) if current.file == "/left" else (right, {"far", "third"})
    assert current.digest == declaration.digest(won)
    found = await application.admin.listed("/api/v1/runners")
    assert {each["name"] for each in found if each["is_declared"]} == names
    assert {each["declared_in"] for each in found if each["is_declared"]} == {current.file}
    assert {each["max_jobs"] for each in found if each["name"] == "far"} == {100 if won is left else 5}


async def test_without_a_declaration_the_default_runner_is_made_and_nothing_is_retired(
    application: Application,
) -> None:
    db = application.server.db
    await declare(db, [remote("far", TOKEN)])
    made = await db.write(lambda tx: declaring.ensure_default(tx, 4, "ab" * 32))
    assert (made.name, made.max_jobs, made.is_declared, made.declared_in) == ("built-in", 4, True, None)
    again = await db.write(lambda tx: declaring.ensure_default(tx, 8, "ab" * 32))
    assert again.max_jobs == 8
    assert await _runner(application, "far") is not None
    own = DeclaredRunner(name="built-in", kind="built-in", max_jobs=3, allow_multiple_instances=True)
    assert (await declare(db, [own])).changed == ["built-in"]
    assert (await db.write(lambda tx: declaring.ensure_default(tx, 8, "ab" * 32))).max_jobs == 3, "the file wins"


@pytest.mark.feature("R8.shared")
async def test_people_see_where_a_shared_runner_is_declared_and_only_operate_it(application: Application) -> None:
    db, admin = application.server.db, application.admin
    await declare(db, [remote("far", TOKEN)])
    foreigner = await application.person("mallory", "owner", "", "other")
    seen = (await foreigner.get("/api/v1/runners/far")).json()
    assert (seen["is_declared"], seen["declared_in"], seen["organization_id"]) == (True, FILE, None)
    account = await admin.made("/api/v1/service-accounts", {"name": "ci", "group": ""})
    for change in (
        {"max_jobs": 1},
        {"description": "mine"},
        {"tags": ["a"]},
        {"allow_multiple_instances": True},
        {"max_jobs": 1, "is_disabled": True},
    ):
        words = await admin.refused("PATCH", "/api/v1/runners/far", 409, json=change)
        assert FILE in words, words
    words = await admin.refused("PATCH", "/api/v1/runners/far", 409, json={"service_account": account["id"]})
    assert "takes no service account" in words
    for force in (False, True):
        assert FILE in await admin.refused("DELETE", "/api/v1/runners/far", 409, params={"force": force})
    assert FILE in await admin.refused("POST", "/api/v1/runners/far/reregister", 409)
    for change in ({"is_disabled": True}, {"is_draining": True}, {"is_disabled": False, "is_draining": False}):
        answer = (await admin.patch("/api/v1/runners/far", json=change)).json()
        assert change.items() <= answer.items()
        await foreigner.refused("PATCH", "/api/v1/runners/far", 403, json=change)
    await declare(db, [NEAR])
    words = await admin.refused("POST", "/api/v1/runners/far/drain", 409, json={"on": False})
    assert "declare it again" in words
    assert FILE in words


async def test_a_shared_runner_is_declared_nowhere_but_in_the_file(application: Application) -> None:
    admin = application.admin
    for path in ("/api/v1/runners", "/api/v1/runners/register"):
        words = await admin.refused("POST", path, 409, json={"name": "far", "group": None})
        assert "shared_runners in the server's settings file" in words
    await declare(application.server.db, [NEAR])
    words = await admin.refused("POST", "/api/v1/runners", 409, json={"name": "far", "group": None})
    assert f"shared_runners in {FILE}" in words
    await admin.made("/api/v1/runners", {"name": "mine"})
    words = await admin.refused("PATCH", "/api/v1/runners/mine", 409, json={"group": None})
    assert f"shared_runners in {FILE}" in words
    assert (await admin.get("/api/v1/runners/mine")).json()["organization_id"] is not None
