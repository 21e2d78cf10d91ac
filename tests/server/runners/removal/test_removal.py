"""A runner that is removed drains first; its record disappears when nothing remains, or at once by force."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from terracrew.api.jobs import Attempt, Job
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import store as connections
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs
from terracrew.server.runners.removal.service import Removals
from tests.builders.deliveries import DONE, delivery
from tests.builders.job_rows import Instance, JobRows
from tests.server.application import Application, on_one
from tests.server.declarations import FILE, declare, declared_runner
from tests.server.runners.connected import connect, having_a_job
from tests.server.simulated_runner import SimulatedRunner

R = "/api/v1/runners/r"


async def removed(application: Application, path: str = R, **params: Any) -> Any:
    """Ask for the removal, and return the answer."""
    answer = await application.admin.delete(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def step(application: Application) -> bool:
    return await Removals(application.server.db).step()


async def actions(application: Application, runner_id: str) -> list[str]:
    entries = await application.admin.listed("/api/v1/audit", target=runner_id)
    return sorted(each["action"] for each in entries)


async def busy(application: Application) -> tuple[str, str, str]:
    """A connected runner with job 17: the ids of the runner, the instance and the job."""
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    instance = await connect(application, made["id"], "one")
    return made["id"], instance, await having_a_job(application, made["id"], instance)


async def end(application: Application, job: str) -> None:
    """Let the executor of a job report that it has succeeded."""
    rows = await JobRows.of_organization(application.server.db, application.server.organization_id)
    await rows.take(delivery(AttemptRef(job, 1), 2, DONE))


def lost(job: Job, attempt: Attempt, now: datetime) -> decide.Decision | None:
    """Decide about an attempt that has been silent for a day."""
    contact = decide.LastContact(now - timedelta(days=1), is_closed=True)
    return decide.lost(job, attempt, contact, now, lease=timedelta(0))


@pytest.mark.feature("R7.remove")
async def test_a_runner_that_has_never_connected_is_removed_at_once(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    assert await removed(application) == {"path": "r", "is_removed": True, "remaining": None}
    await application.admin.refused("GET", R, 404)
    await application.admin.refused("DELETE", R, 404)
    assert await actions(application, made["id"]) == ["runner.create", "runner.delete", "runner.remove"]


@pytest.mark.feature("R7.remove")
async def test_an_idle_connected_runner_drains_and_is_removed_in_a_later_transaction(application: Application) -> None:
    """A claim that was being decided when the drain began may still win, so the record outlives the request."""
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    await connect(application, made["id"], "one")
    answer = await removed(application)
    assert (answer["is_removed"], answer["remaining"]["is_drained"]) == (False, True)
    shown = (await application.admin.get(R)).json()
    assert shown["removing_since"] == answer["remaining"]["removing_since"] is not None
    assert (shown["is_draining"], shown["status"]) == (True, "DRAINING")
    with application.server.db.listen("access") as woken:
        assert await step(application), "the loop looks again, because it found something"
        assert ("access", made["id"]) in await woken.get(5)
    await application.admin.refused("GET", R, 404)
    assert await application.scalar("SELECT count(*) FROM instances") == 0
    assert await application.scalar("SELECT count(*) FROM assignments") == 0
    assert not await step(application)


@pytest.mark.feature("R7.remove")
async def test_a_runner_with_a_job_is_shown_as_being_removed_until_the_job_has_ended(application: Application) -> None:
    runner_id, _, job = await busy(application)
    answer = await removed(application)
    assert answer["is_removed"] is False
    assert [(each["number"], each["module_path"]) for each in answer["remaining"]["jobs"]] == [(17, "m")]
    assert await removed(application) == answer, "a second request changes nothing"
    assert await step(application)
    listed = await application.admin.listed("/api/v1/runners")
    assert [each["removing_since"] for each in listed] == [answer["remaining"]["removing_since"]]
    await end(application, job)
    await step(application)
    assert await application.admin.listed("/api/v1/runners") == []
    assert (await application.admin.get(f"/api/v1/jobs/{job}")).json()["runner_path"] == "r"
    assert await actions(application, runner_id) == ["runner.create", "runner.delete", "runner.remove"]


@pytest.mark.feature("R7.remove")
async def test_the_end_of_the_drain_stops_a_removal(application: Application) -> None:
    runner_id, _, job = await busy(application)
    await removed(application)
    back = (await application.admin.post(f"{R}/drain", json={"on": False})).json()
    assert (back["removing_since"], back["is_draining"]) == (None, False)
    await end(application, job)
    assert not await step(application)
    assert (await application.admin.get(R)).json()["id"] == runner_id


@pytest.mark.feature("R7.remove")
async def test_a_runner_that_is_being_removed_takes_nothing_new_and_nothing_new_is_made_of_it(
    application: Application,
) -> None:
    runner_id, instance, _ = await busy(application)
    await removed(application)
    rows = await JobRows.of_organization(application.server.db, application.server.organization_id)
    assert await Instance(rows, runner_id, instance).claim(await rows.job(await rows.module("other"))) is None
    words = await application.admin.refused("POST", f"{R}/reregister", 409)
    assert "is being removed: undrain it first" in words
    await application.admin.refused("POST", f"{R}/assignments", 409, json={"place": ""})
    source = {"kind": "local", "path": "/srv/sources/m"}
    pinned = {"path": "pinned", "source": source, "runner": "r"}
    words = await application.admin.refused("POST", "/api/v1/modules", 409, json=pinned)
    assert "`r` is being removed: name another one" in words
    # What concerns only the drain can still be changed.
    assert (await application.admin.patch(R, json={"is_draining": True})).json()["removing_since"] is not None


@pytest.mark.feature("O3.fenced", "R7.remove")
async def test_the_record_waits_for_a_lost_attempt_that_is_in_contact_and_still_delivers(
    runner: SimulatedRunner,
) -> None:
    attempt, path = await runner.begun(), f"/api/v1/runners/{runner.instance.runner_id}"
    for _ in range(2):  # it is lost, and then its lease ends
        await jobs.settle(runner.server.db, attempt.ref, lost)
    await runner.instance.heartbeat(attempt.ref)
    answer = await removed(runner.app, path)
    assert (answer["is_removed"], answer["remaining"]["delivering"]) == (False, 1)
    assert await step(runner.app)
    assert (await runner.app.admin.get(f"{path}/remaining")).json()["is_drained"] is False
    await attempt.lose()
    await step(runner.app)
    await runner.app.admin.refused("GET", path, 404)


async def test_two_removals_at_once_and_a_forced_one_leave_one_record_of_the_removal(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    await connect(application, made["id"], "one")
    loops = asyncio.gather(step(application), step(application))
    answers = await asyncio.gather(
        *(application.admin.delete(R, params={"force": force}) for force in (False, True, False, True))
    )
    await loops
    assert {each.status_code for each in answers} <= {200, 404}
    await application.admin.refused("GET", R, 404)
    assert (await actions(application, made["id"])).count("runner.delete") == 1


@pytest.mark.feature("R7.force")
async def test_force_deletes_a_busy_runner_at_once_and_its_job_keeps_its_name(application: Application) -> None:
    runner_id, _, job = await busy(application)
    with application.server.db.listen("access") as woken:
        assert (await removed(application, force=True))["is_removed"] is True
        assert ("access", runner_id) in await woken.get(5)
    await application.admin.refused("GET", R, 404)
    found = (await application.admin.get(f"/api/v1/jobs/{job}")).json()
    assert (found["status"], found["runner_path"], found["instance_name"]) == ("PROCESSING", "r", "one")
    entries = await application.admin.listed("/api/v1/audit", target=runner_id)
    assert [each["details"] for each in entries if each["action"] == "runner.delete"] == [
        {"path": "r", "is_forced": True, "unfinished": [17]}
    ]


@pytest.mark.feature("R7.force")
async def test_force_ends_the_wait_of_a_removal_that_has_begun(application: Application) -> None:
    runner_id, instance, _ = await busy(application)
    await removed(application)
    await application.server.db.write(lambda tx: connections.disconnect(tx, runner_id, instance, 1))
    assert await step(application), "the job of a runner without contact is not over"
    assert (await removed(application, force=True))["is_removed"] is True


@pytest.mark.feature("R7.force")
async def test_the_only_runner_of_a_module_is_removed_by_force_and_nothing_else_runs_the_module(
    application: Application,
) -> None:
    """A pinned module blocked even the forced removal of a runner.

    The module stays pinned: whatever else ran its jobs would do so with credentials that nobody meant for it.
    """
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    source = {"kind": "local", "path": "/srv/sources"}
    await application.admin.made("/api/v1/modules", {"path": "m", "source": source, "runner": made["id"]})
    words = await application.admin.refused("DELETE", R, 409)
    assert "is the only runner that m may use: change that first, or ask for force=true" in words
    assert (await application.admin.get(R)).json()["removing_since"] is None
    await removed(application, force=True)
    assert (await application.admin.get("/api/v1/modules/m")).json()["runner_id"] == made["id"]
    await application.admin.made("/api/v1/runners", {"name": "other"})
    job = await application.admin.made("/api/v1/modules/m/jobs", {"type": "PLAN"})
    assert job["status"] == "QUEUED"
    shown = await application.admin.get(f"/api/v1/jobs/{job['id']}")
    assert shown.json()["reason"], "it says why it waits"
    freed = (await application.admin.patch("/api/v1/modules/m", json={"runner": None})).json()
    assert freed["runner_id"] is None
    entries = await application.admin.listed("/api/v1/audit", target=made["id"])
    assert [each["details"] for each in entries if each["action"] == "runner.delete"] == [
        {"path": "r", "is_forced": True, "pinned_modules": 1}
    ]


@pytest.mark.feature("X3.roles", "X4.tenants")
async def test_modules_that_the_owner_of_a_runner_may_not_see_are_counted_and_not_named(
    application: Application,
) -> None:
    """The refusal named modules of groups that the caller may not see."""
    for path in ("team", "secret"):
        await application.admin.made("/api/v1/groups", {"path": path})
    made = await application.admin.made("/api/v1/runners", {"name": "r", "group": "team", "assign": False})
    source = {"kind": "local", "path": "/srv/sources"}
    for path in ("team/a", "secret/b", "secret/c"):
        await application.admin.made("/api/v1/modules", {"path": path, "source": source, "runner": made["id"]})
    owner = await application.person("olga", "owner", "team")
    words = await owner.refused("DELETE", f"/api/v1/runners/{made['id']}", 409)
    assert "the only runner that team/a and 2 other modules may use" in words
    assert "secret" not in words


@pytest.mark.feature("X3.roles")
async def test_nobody_without_the_right_removes_a_runner_or_learns_that_it_exists(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    stranger = await application.person("mallory", "owner", "", "other")
    viewer = await application.person("vera", "viewer")
    operator = await application.person("otto", "operator")
    for force in (False, True):
        query = {"force": force}
        await stranger.refused("DELETE", f"/api/v1/runners/{made['id']}", 404, params=query)
        for person in (viewer, operator):
            await person.refused("DELETE", R, 403, params=query)
    await stranger.refused("GET", f"/api/v1/runners/{made['id']}/remaining", 404)
    await viewer.refused("GET", f"{R}/dependents", 403)
    assert (await application.admin.get(R)).json() == made


@on_one
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "/api/v1/runners/r?force=perhaps", 400),
        ("DELETE", "/api/v1/runners/r?now=true", 400),
        ("DELETE", "/api/v1/runners/R%00", 400),
        ("DELETE", "/api/v1/runners/a%2F..%2Fr", 400),
        ("DELETE", "/api/v1/runners/rnr_" + "0" * 32, 404),
        ("GET", "/api/v1/runners/none/remaining", 404),
        ("GET", "/api/v1/runners/none/dependents", 404),
        ("POST", "/api/v1/runners/job_" + "0" * 32 + "/reregister", 400),
    ],
)
async def test_a_request_that_makes_no_sense_removes_nothing(
    application: Application, method: str, path: str, status: int
) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    await application.admin.refused(method, path, status)
    assert (await application.admin.get(R)).json() == made


@pytest.mark.feature("R3.refused")
async def test_what_the_configuration_declares_is_changed_and_removed_there_only(application: Application) -> None:
    await declared_runner(application.server.db, "r")
    for body in ({"max_jobs": 9}, {"tags": ["x"]}, {"allow_multiple_instances": True}, {"description": "mine"}):
        words = await application.admin.refused("PATCH", R, 409, json=body)
        assert (
            f"cannot be changed here ({next(iter(body))}): it is shared, and the server's settings file {FILE}" in words
        )
    for force in (False, True):
        assert "Change it there" in await application.admin.refused("DELETE", R, 409, params={"force": force})
    assert "get a new token" in await application.admin.refused("POST", f"{R}/reregister", 409)
    # What an operator does with a running fleet is not declared.
    assert (await application.admin.patch(R, json={"is_disabled": True, "is_draining": True})).status_code == 200
    await declare(application.server.db, [])
    assert (await removed(application, force=True))["is_removed"] is True, (
        "a runner that is not declared any more can be removed"
    )
