"""An executor transfers by HTTP only what belongs to its attempt, whole, and with one effect however often it repeats."""

import hashlib
import json

import pytest

from terracrew.errors import Forbidden
from terracrew.protocol.events import MAX_OUTPUT_LEVELS, Output, OutputsRead, Result
from terracrew.server.hub.transfer import uploads
from terracrew.server.jobs.attempts.ingest import MAX_NOTES
from terracrew.server.state.model import MAX_INLINE_BYTES
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, fact, log
from tests.builders.job_rows import change_jobs
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.stored_states import applied, content

LARGE = content(1, 3 << 20)


@pytest.mark.feature("J15.kept")
async def test_a_large_state_goes_by_http_and_counts_when_its_event_arrives(runner: SimulatedRunner) -> None:
    attempt = await runner.begun()
    assert await attempt.write(LARGE, is_inline=False) == 1  # the mark does not pass a state that is not stored
    path = f"{attempt.path}/states/2"
    for _ in range(2):
        answer = await attempt.executor.put(path, content=attempt.seal(LARGE))
        assert (answer.status_code, answer.content) == (204, b"")
    await runner.app.admin.refused("GET", f"/api/v1/modules/{attempt.module_id}/state", 404)
    assert await attempt.write(LARGE, is_inline=False) == 2
    assert (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")).content == LARGE
    assert (await attempt.executor.put(path, content=attempt.seal(LARGE))).status_code == 204
    other = attempt.seal(content(2, 3 << 20))
    assert "no other state is accepted" in await attempt.executor.refused("PUT", path, 409, content=other)
    assert (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")).content == LARGE
    assert list(runner.server.settings.uploads.iterdir()) == []


async def test_a_salvaged_state_comes_in_plain_and_is_kept_encrypted(runner: SimulatedRunner) -> None:
    attempt = await runner.begun()
    put = await attempt.executor.put(f"{attempt.path}/states/2", content=content(1), headers={"X-Plain": "1"})
    assert put.status_code == 204
    assert await attempt.write(content(1), is_inline=False) == 2
    stored = await runner.app.scalar("SELECT object FROM states")
    assert b"lineage" not in await runner.server.objects.get(stored)
    assert (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")).content == content(1)


async def test_what_is_no_upload_of_a_state_is_refused(runner: SimulatedRunner) -> None:
    attempt = await runner.run(kind="APPLY")
    await attempt.executor.refused("PUT", f"{attempt.path}/states/1", 400, content=b"")
    await attempt.executor.refused("PUT", f"{attempt.path}/states/0", 400, content=attempt.seal(LARGE))
    await attempt.executor.refused("PUT", f"{attempt.path}/states/x", 404, content=attempt.seal(LARGE))


@pytest.mark.feature("X4.executor")
async def test_no_credential_is_good_for_anything_but_its_own_attempt(runner: SimulatedRunner) -> None:
    attempt, other = await runner.run(), await runner.run()
    sibling = await runner.run()
    await sibling.deliver(RUNNING)
    await sibling.lose()
    second = await runner.again(sibling.ref.job_id, 2)
    for method, place in (("GET", "archive"), ("GET", "state"), ("PUT", "states/1")):
        path = f"{attempt.path}/{place}"
        await runner.app.stranger().refused(method, path, 401)
        for who in (runner.app.admin, other.executor, other.engine, attempt.engine):
            await who.refused(method, path, 403)
        await sibling.executor.refused(method, f"{second.path}/{place}", 403)
        await second.executor.refused(method, f"{sibling.path}/{place}", 403)
    assert await runner.app.scalar("SELECT count(*) FROM states") == 0


async def test_an_executor_fetches_the_current_state_with_its_version(runner: SimulatedRunner) -> None:
    first = await runner.run()
    nothing = await first.executor.get(f"{first.path}/state")
    assert (nothing.status_code, nothing.headers["X-State-Version"]) == (204, "0")
    await first.deliver(RUNNING, DONE)
    await applied(runner, content(1), content(2, MAX_INLINE_BYTES), module_id=first.module_id)
    last = await runner.run(first.module_id)
    answer = await last.executor.get(f"{last.path}/state")
    assert (answer.content, answer.headers["X-State-Version"]) == (content(2, MAX_INLINE_BYTES), "2")


async def test_a_fenced_attempt_may_still_deliver_its_state_but_reads_nothing_more(runner: SimulatedRunner) -> None:
    first = await runner.begun()
    await first.lose()
    await runner.again(first.ref.job_id, 2)
    await first.executor.refused("GET", f"{first.path}/state", 409)
    assert (await first.executor.put(f"{first.path}/states/2", content=first.seal(LARGE))).status_code == 204
    assert await first.write(LARGE, is_inline=False) == 2
    assert await runner.app.scalar("SELECT count(*) FROM states") == 1


async def test_an_executor_fetches_its_jobs_archive(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.executor.refused("GET", f"{attempt.path}/archive", 404)
    source = json.dumps({"kind": "archive", "archive_id": "arc_1", "size": 3_000_000})
    await change_jobs(runner.rows.db, attempt.ref.job_id, source=source)
    await attempt.executor.refused("GET", f"{attempt.path}/archive", 404)
    packed = hashlib.shake_128(b"archive").digest(3_000_000)
    await runner.server.objects.put("archives/arc_1", packed)
    answer = await attempt.executor.get(f"{attempt.path}/archive")
    assert (answer.content, answer.headers["Content-Type"]) == (packed, "application/gzip")


async def test_a_state_in_an_event_that_is_not_what_it_says_is_kept_with_the_problem(runner: SimulatedRunner) -> None:
    attempt, other = await runner.run(kind="APPLY"), await runner.run()
    whole = await attempt.prepared(content(1))
    assert whole is not None
    assert whole.problem == ""
    foreign = await attempt.prepared(content(1), sealed=other.seal(content(1)))
    assert foreign is not None
    assert "cannot be decrypted" in foreign.problem
    another = await attempt.prepared(content(1), sealed=attempt.seal(content(2)))
    assert another is not None
    assert "not what its event says" in another.problem


@pytest.mark.feature("J15.kept")
async def test_nothing_that_was_stored_is_replaced_by_a_later_delivery_of_the_same_number(
    runner: SimulatedRunner,
) -> None:
    attempt = await runner.begun()
    large = content(1, MAX_INLINE_BYTES)
    assert await attempt.write(large) == 2
    await attempt.deliver(log("more\n"), DONE)
    attempt.next = 2
    await attempt.write(content(7, MAX_INLINE_BYTES), serial=7)
    assert (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")).content == large
    assert await runner.app.scalar("SELECT count(*) FROM states") == 1


# ---- what an attempt may leave here


@pytest.mark.feature("X4.bounded")
async def test_an_attempt_keeps_one_plan_however_many_it_uploads(runner: SimulatedRunner) -> None:
    """Each upload was an object for ever: one executor could fill the disk of all."""
    attempt = await runner.run(kind="APPLY")
    for body in (b"first", b"second", b"third", b"third"):
        assert (await attempt.executor.put(f"{attempt.path}/plan", content=body)).status_code == 204
    kept = await runner.server.objects.names(f"plans/{attempt.ref.job_id}")
    assert kept == [f"plans/{attempt.ref.job_id}/1/{hashlib.sha256(b'third').hexdigest()}"]


@pytest.mark.feature("X4.bounded")
async def test_an_attempt_has_so_many_states_ahead_of_its_events_and_one_for_each_number(
    runner: SimulatedRunner,
) -> None:
    attempt = await runner.run(kind="APPLY")
    for number in range(1, uploads.MAX_STATES_AHEAD + 1):
        for size in (10, 20):
            put = await attempt.executor.put(f"{attempt.path}/states/{number}", content=attempt.seal(content(1, size)))
            assert put.status_code == 204
    far = f"{attempt.path}/states/{1 << 50}"
    assert "wait for their events" in await attempt.executor.refused("PUT", far, 429, content=attempt.seal(content(1)))
    assert len(await runner.server.objects.names(f"states/{attempt.ref.job_id}/1")) == uploads.MAX_STATES_AHEAD
    await attempt.deliver(RUNNING, log("x\n"))  # the mark moves on
    assert (await attempt.executor.put(far, content=attempt.seal(content(1)))).status_code == 204


@pytest.mark.feature("X4.executor")
@pytest.mark.parametrize("form", ["sealed", "raw", "plain"])
async def test_no_other_content_is_stored_for_an_event_that_has_arrived(runner: SimulatedRunner, form: str) -> None:
    """One executor filled the object store: 80 uploads to the number of an event that had arrived left 80 objects."""
    attempt = await runner.begun()
    path, delivered = f"{attempt.path}/states/2", attempt.seal(LARGE)
    assert (await attempt.executor.put(path, content=delivered)).status_code == 204
    assert await attempt.write(LARGE, is_inline=False) == 2
    stored = await runner.server.objects.names(f"states/{attempt.ref.job_id}")
    headers = {"X-Plain": "1"} if form == "plain" else {}
    for number in (1, 2):
        for size in (10, 20):
            body = attempt.seal(content(1, size)) if form == "sealed" else content(1, size)
            answer = await attempt.executor.put(f"{attempt.path}/states/{number}", content=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert (await attempt.executor.put(path, content=delivered)).status_code == 204  # its first answer may be lost
    assert await runner.server.objects.names(f"states/{attempt.ref.job_id}") == stored


@pytest.mark.feature("X4.bounded")
async def test_an_attempt_uploads_one_thing_at_a_time(runner: SimulatedRunner) -> None:
    attempt, other = await runner.run(kind="APPLY"), await runner.run(kind="APPLY")
    with uploads.alone(attempt.ref):
        for path in ("plan", "states/1"):
            await attempt.executor.refused("PUT", f"{attempt.path}/{path}", 429, content=b"x")
        assert (await other.executor.put(f"{other.path}/plan", content=b"x")).status_code == 204
    assert (await attempt.executor.put(f"{attempt.path}/plan", content=b"x")).status_code == 204


@pytest.mark.feature("X4.bounded")
async def test_late_results_leave_a_few_notes_and_no_more(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING)
    await attempt.lose()
    unreadable = DONE._replace(payload=b"{")
    for _ in range(3):
        await attempt.deliver(*[unreadable] * 20)
    assert await runner.app.scalar("SELECT count(*) FROM notes") == MAX_NOTES


@pytest.mark.feature("J2.terminal", "X4.executor")
async def test_nothing_is_accepted_after_a_result(runner: SimulatedRunner) -> None:
    """After an apply had SUCCEEDED, its credential was used to send another state, which became the current one."""
    attempt = await applied(runner, content(1))
    for record in (DONE, RUNNING, fact(Result("FAILED", "no, it failed"))):
        with pytest.raises(Forbidden, match="its result has arrived"):
            await attempt.deliver(record)
    with pytest.raises(Forbidden, match="its result has arrived"):
        await attempt.write(content(2), serial=2)
    path = f"/runnerhub/attempts/{attempt.ref.job_id}/{attempt.ref.attempt}/states/{attempt.next}"
    assert "its result has arrived" in await attempt.executor.refused(
        "PUT", path, 403, content=attempt.seal(content(2))
    )
    listed = (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/states")).json()
    assert [each["version"] for each in listed["items"]] == [1]
    view = (await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()
    assert (view["status"], view["notes"]) == ("SUCCEEDED", [])


@pytest.mark.feature("O3.fenced", "X4.bounded")
async def test_a_lost_attempt_delivers_for_a_week_and_no_longer(runner: SimulatedRunner, clock: ShiftedClock) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING)
    await attempt.lose()
    clock.advance(6 * 86_400)
    for _ in range(2):
        await attempt.deliver(log("late\n"))
    audited = "SELECT count(*) FROM audit WHERE action = 'attempt.deliver_late' AND target_id = :id"
    assert await runner.app.scalar(audited, id=f"{attempt.ref.job_id}.1") == 1
    clock.advance(2 * 86_400)
    with pytest.raises(Forbidden, match="more than 7 days ago"):
        await attempt.deliver(log("too late\n"))


@pytest.mark.feature("X4.bounded")
async def test_outputs_that_could_not_be_read_back_are_not_kept_and_the_job_ends(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    deep: list[object] = []
    for _ in range(MAX_OUTPUT_LEVELS + 1):
        deep = [deep]
    await attempt.deliver(RUNNING, fact(OutputsRead({"a": Output(deep)}, "ab")), DONE)
    view = (await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()
    assert view["status"] == "SUCCEEDED"
    assert "nested more than" in view["notes"][0]["text"]
    assert await runner.app.scalar("SELECT count(*) FROM outputs") == 0
