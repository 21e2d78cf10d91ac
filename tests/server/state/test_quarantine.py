"""A state that arrives too late waits for a person, who adopts or discards it."""

import asyncio

import pytest

from terracrew.protocol.messages import AttemptRef, BeginRefused
from tests.builders.deliveries import DONE, RUNNING
from tests.builders.job_rows import begin, begin_code, change_attempts
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner
from tests.server.state.stored_states import content, written


async def quarantined(runner: SimulatedRunner) -> tuple[SimulatedAttempt, str]:
    """A module with a current state (serial 2) and one of another lineage in quarantine."""
    attempt = await lost(runner)
    return attempt, await late(runner, attempt)


async def lost(runner: SimulatedRunner) -> SimulatedAttempt:
    """An apply that wrote two states and was lost before its result arrived; its job was canceled."""
    attempt = await written(runner, content(1), content(2))
    admin = runner.app.admin
    await admin.post(f"/api/v1/jobs/{attempt.ref.job_id}/cancel", json={"mode": "kill"})
    await attempt.lose()
    return attempt


async def late(runner: SimulatedRunner, attempt: SimulatedAttempt) -> str:
    await attempt.write(b'{"late": true}', serial=9, lineage="other")
    state_id = await runner.app.scalar("SELECT id FROM states WHERE status = 'quarantined'")
    assert state_id is not None
    return state_id


@pytest.mark.feature("J15.kept", "O3.lease")
async def test_an_attempt_that_finds_a_state_in_quarantine_gives_its_lock_back_and_the_job_waits(
    runner: SimulatedRunner,
) -> None:
    """A person's adoption needs the lock, so an attempt that waited with it would wait for ever."""
    attempt = await lost(runner)
    again = await runner.run(attempt.module_id, kind="APPLY")
    await again.deliver(RUNNING)
    state_id = await late(runner, attempt)
    assert await begin_code(runner.server.db, again.ref, 2) == "quarantine"
    job = (await runner.app.admin.get(f"/api/v1/jobs/{again.ref.job_id}")).json()
    assert (job["status"], job["attempt"], job["losses"], job["lock"]) == ("QUEUED", 2, 0, None)
    assert job["reason"]["code"] == "quarantine"
    assert job["attempts"][0]["outcome"] == "waiting"
    assert (await runner.app.admin.post(f"/api/v1/states/{state_id}/adopt")).status_code == 200
    assert (await runner.instance.has(again.ref.job_id, 2)).spec.state.version == 3


@pytest.mark.feature("J15.kept")
async def test_an_adopted_state_becomes_the_current_one_with_a_version_of_its_own(runner: SimulatedRunner) -> None:
    attempt, state_id = await quarantined(runner)
    assert (await runner.app.admin.get(f"/api/v1/states/{state_id}")).json() == {"late": True}
    answer = await runner.app.admin.post(f"/api/v1/states/{state_id}/adopt")
    assert (answer.status_code, answer.json()["status"], answer.json()["version"]) == (200, "current", 3)
    assert (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")).json() == {"late": True}
    assert await runner.app.scalar("SELECT state_version FROM modules WHERE id = :id", id=attempt.module_id) == 3
    assert await runner.app.scalar("SELECT count(*) FROM states WHERE status = 'current'") == 1
    assert await runner.app.scalar("SELECT target_id FROM audit WHERE action = 'state.adopt'") == state_id


@pytest.mark.feature("J15.kept", "O3.fenced")
async def test_a_module_tells_what_stands_in_the_way_of_its_jobs(runner: SimulatedRunner) -> None:
    """`module show` said nothing of a doubt or of a state in quarantine."""
    attempt, state_id = await quarantined(runner)
    await change_attempts(runner.rows.db, attempt.ref.job_id, is_in_doubt=True)
    shown = (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}")).json()
    assert [(each["id"], each["attempt"]) for each in shown["quarantined"]] == [(state_id, attempt.ref.attempt)]
    assert [(each["job_id"], each["attempt"]) for each in shown["doubts"]] == [
        (attempt.ref.job_id, attempt.ref.attempt)
    ]
    assert shown["lock"] is None


@pytest.mark.feature("J15.kept")
async def test_a_discarded_state_changes_nothing_and_stands_in_nobodys_way(runner: SimulatedRunner) -> None:
    attempt, state_id = await quarantined(runner)
    again = await runner.rows.job(attempt.module_id, kind="APPLY")
    assert await runner.instance.claim(again) is None
    assert (await runner.app.admin.post(f"/api/v1/states/{state_id}/discard")).json()["status"] == "discarded"
    after = await runner.again(again)
    await after.deliver(RUNNING)
    assert not isinstance(await begin(runner.server.db, after.ref, 2), BeginRefused)
    assert (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")).content == content(2)
    assert await runner.app.scalar("SELECT target_id FROM audit WHERE action = 'state.discard'") == state_id


async def test_a_state_is_not_adopted_while_a_job_has_the_lock(runner: SimulatedRunner) -> None:
    attempt = await lost(runner)
    again = await runner.run(attempt.module_id)
    state_id = await late(runner, attempt)
    assert "has the module's lock" in await runner.app.admin.refused("POST", f"/api/v1/states/{state_id}/adopt", 409)
    assert await runner.app.scalar("SELECT state_version FROM modules WHERE id = :id", id=attempt.module_id) == 2
    await again.deliver(RUNNING, DONE)
    assert (await runner.app.admin.post(f"/api/v1/states/{state_id}/adopt")).status_code == 200


async def test_a_state_is_decided_on_once(runner: SimulatedRunner) -> None:
    attempt, state_id = await quarantined(runner)
    answers = await asyncio.gather(*(runner.app.admin.post(f"/api/v1/states/{state_id}/adopt") for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    await runner.app.admin.refused("POST", f"/api/v1/states/{state_id}/discard", 409)
    assert await runner.app.scalar("SELECT state_version FROM modules WHERE id = :id", id=attempt.module_id) == 3
    current = await runner.app.scalar("SELECT id FROM states WHERE version = 1")
    await runner.app.admin.refused("POST", f"/api/v1/states/{current}/adopt", 409)


async def test_a_plan_from_before_the_adoption_is_not_applied(runner: SimulatedRunner) -> None:
    attempt, state_id = await quarantined(runner)
    await runner.app.admin.post(f"/api/v1/states/{state_id}/adopt")
    again = await runner.run(attempt.module_id, kind="APPLY")
    await again.deliver(RUNNING)
    refused = await begin(runner.server.db, AttemptRef(again.ref.job_id, 1), 2)
    assert isinstance(refused, BeginRefused)
    assert refused.code == "state_moved"


async def test_only_an_owner_decides(runner: SimulatedRunner) -> None:
    attempt = await lost(runner)
    engine = (await runner.run(attempt.module_id)).engine
    state_id = await late(runner, attempt)
    approver = await runner.app.person("anna", "approver")
    foreign = await runner.app.person("fred", "owner", organization="elsewhere")
    for verb in ("adopt", "discard"):
        await approver.refused("POST", f"/api/v1/states/{state_id}/{verb}", 403)
        await engine.refused("POST", f"/api/v1/states/{state_id}/{verb}", 403)
        await foreign.refused("POST", f"/api/v1/states/{state_id}/{verb}", 404)
    owner = await runner.app.person("olga", "owner")
    assert (await owner.post(f"/api/v1/states/{state_id}/discard")).status_code == 200


@pytest.mark.feature("J15.own", "J15.kept")
async def test_a_state_of_a_module_that_keeps_its_states_elsewhere_can_only_be_downloaded_and_discarded(
    runner: SimulatedRunner,
) -> None:
    """Adopting it here changes nothing that an engine of the module reads."""
    attempt, state_id = await quarantined(runner)
    admin = runner.app.admin
    assert (await admin.patch(f"/api/v1/modules/{attempt.module_id}", json={"backend": "own"})).status_code == 200
    refused = await admin.post(f"/api/v1/states/{state_id}/adopt")
    assert refused.status_code == 409
    assert "keeps its state in a backend of its own" in refused.json()["detail"]
    page = (await admin.get(f"/dashboard/modules/{attempt.module_id}")).text
    assert f"adopt-{state_id}" not in page
    assert f"download-{state_id}" in page
    assert "if it is needed, push it there, and then discard it here" in page
    job_id = await runner.rows.job(attempt.module_id)
    reason = (await admin.get(f"/api/v1/jobs/{job_id}")).json()["reason"]
    assert reason["code"] == "quarantine"
    assert "has to be discarded" in reason["text"]
    assert (await admin.get(f"/api/v1/states/{state_id}")).json() == {"late": True}
    assert (await admin.post(f"/api/v1/states/{state_id}/discard")).json()["status"] == "discarded"
