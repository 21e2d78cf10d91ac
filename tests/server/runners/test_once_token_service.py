"""Once tokens over the API: who may make, list and revoke them, how long they last, and that only their hash is stored."""

from datetime import UTC, datetime
from typing import Any

import pytest

from terracrew.api.runners import DEFAULT_SECONDS
from terracrew.server.identity.people import service as people
from terracrew.server.retention.leftovers import Leftovers
from terracrew.server.runners.once_tokens import store
from terracrew.server.secrets import credentials
from tests.builders.clock import ShiftedClock
from tests.server.application import Application, on_one
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("A2.once")
API = "/api/v1"
DAY_SECONDS = 24 * 3600.0


async def registered(application: Application, **fields: Any) -> str:
    """The path of the tokens of a new runner."""
    made = await application.admin.made(f"{API}/runners/register", {"name": "vms", **fields})
    return f"{API}/runners/{made['id']}/once-tokens"


def seconds_left(made: dict[str, Any]) -> float:
    return (datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)).total_seconds()


async def test_it_is_shown_once_and_stored_as_a_hash(application: Application) -> None:
    path = await registered(application)
    made = await application.admin.made(path, {})
    assert made["token"].startswith("tco_")
    assert abs(seconds_left(made) - DEFAULT_SECONDS) < 60
    assert made["command"] == "terracrew runner start --once"
    assert made["environment"]["TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN"] == made["token"]
    row = await application.server.db.read(lambda tx: tx.one("SELECT * FROM once_tokens"))
    assert row is not None
    assert row["sha256"] == credentials.digest(made["token"])
    assert made["token"] not in str(row)
    (listed,) = await application.admin.listed(path)
    assert (listed["id"], listed["status"], listed["created_by"]) == (made["id"], "waiting", "admin")
    assert made["token"] not in str(listed)


async def test_each_one_names_an_instance_of_its_own(application: Application) -> None:
    path = await registered(application)
    names = {(await application.admin.made(path, {}))["environment"]["TERRACREW_RUNNER__INSTANCE"] for _ in range(3)}
    assert len(names) == 3


@on_one
@pytest.mark.parametrize("seconds", [0, 59, 24 * 3600 + 1, "1h", None])
async def test_the_time_has_bounds(application: Application, seconds: Any) -> None:
    path = await registered(application)
    await application.admin.refused("POST", path, 400, json={"seconds": seconds})
    for allowed in (60, 24 * 3600):
        assert abs(seconds_left(await application.admin.made(path, {"seconds": allowed})) - allowed) < 60


async def test_it_does_not_outlive_the_credential_that_made_it(application: Application, clock: ShiftedClock) -> None:
    path, who = await registered(application), application.admin.principal
    stored, secret = await people.create_token(application.server.db, who, "short", 1)
    clock.advance(DAY_SECONDS - 600)
    automation = application.stranger()
    automation.headers["Authorization"] = f"Bearer {secret.text}"
    made = await automation.made(path, {"seconds": 7200})
    assert datetime.fromisoformat(made["expires_at"]) == stored.expires_at


async def test_only_those_who_may_change_the_runner_may_have_its_tokens(application: Application) -> None:
    path = await registered(application)
    made = await application.admin.made(path, {})
    operator, owner = await application.person("olga", "operator"), await application.person("otto", "owner")
    for request in (("GET", path), ("POST", path), ("DELETE", f"{path}/{made['id']}")):
        await operator.refused(*request, 403, json={})
    assert (await owner.made(path, {}))["token"]
    assert (await owner.delete(f"{path}/{made['id']}")).status_code == 204


async def test_a_token_is_revoked_only_below_its_own_runner(application: Application) -> None:
    path, other = await registered(application), await registered(application, name="other")
    made = await application.admin.made(path, {})
    await application.admin.refused("DELETE", f"{other}/{made['id']}", 404)
    assert (await application.admin.listed(path))[0]["status"] == "waiting"
    for _ in range(2):  # the second time, it changes nothing
        assert (await application.admin.delete(f"{path}/{made['id']}")).status_code == 204
    assert (await application.admin.listed(path))[0]["status"] == "revoked"
    changes = "SELECT count(*) FROM audit WHERE action = 'runner.once_token_revoke'"
    assert await application.scalar(changes) == 1


@on_one
async def test_a_runner_has_a_bounded_number_of_them(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terracrew.server.runners.once_token_service.MAX_WAITING_TOKENS", 2)
    path = await registered(application)
    made = [await application.admin.made(path, {}) for _ in range(2)]
    assert "revoke some" in await application.admin.refused("POST", path, 409, json={})
    await application.admin.delete(f"{path}/{made[0]['id']}")
    await application.admin.made(path, {})


async def test_those_that_have_ended_are_removed_and_one_that_runs_is_kept(
    application: Application, clock: ShiftedClock
) -> None:
    path = await registered(application)
    _, runs = [await application.admin.made(path, {}) for _ in range(2)]
    crew = await SimulatedRunner.make(application)
    job = await crew.rows.job(await crew.rows.module())
    await crew.instance.has(job)
    await application.server.db.write(lambda tx: store.use(tx, runs["id"], job, 1, "ins_1"))
    clock.advance(32 * DAY_SECONDS)
    waits = await application.admin.made(path, {})
    removed = await Leftovers(application.server.db, "srv_1", 30.0).step()
    assert removed["once tokens"] == 1
    assert {each["id"]: each["status"] for each in await application.admin.listed(path)} == {
        runs["id"]: "running",
        waits["id"]: "waiting",
    }


async def test_the_tokens_of_a_removed_runner_are_removed_with_it(application: Application) -> None:
    path = await registered(application)
    await application.admin.made(path, {})
    await application.admin.delete(path.removesuffix("/once-tokens"), params={"force": "true"})
    assert await application.scalar("SELECT count(*) FROM once_tokens") == 0
