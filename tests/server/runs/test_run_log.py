"""The log of a whole run has every event once and in order, from wherever a reader continues."""

import re

import msgspec
import pytest

from terracrew.protocol.events import KeptPlan, Result
from terracrew.server.connections.registry import Registry
from terracrew.server.jobs import approvals
from terracrew.server.principals.model import Principal
from terracrew.server.runs import log as run_log
from tests.builders.deliveries import RUNNING, fact, log
from tests.server.simulated_runner import SimulatedRunner, watching

pytestmark = pytest.mark.feature("L4.late")
WAITING = fact(Result("WAITING", "the module or the job requires an approval", kept=KeptPlan(0, "ab", 2, "/x")))


def timeless(text: str) -> str:
    return re.sub(r"[<.\d]+ s", "T", text)


async def approved(runner: SimulatedRunner) -> str:
    """A job whose first attempt planned, and whose second one went on after an approval."""
    first = await runner.run(kind="APPLY")
    await first.deliver(RUNNING, log("planned\n"), log("open line"), WAITING)
    admin = Principal("user", "usr_1", "olga", runner.rows.organization, is_system_admin=True)
    await approvals.approve(runner.server.db, Registry(), admin, first.ref.job_id, 1)
    second = await runner.again(first.ref.job_id, 2)
    await second.deliver(RUNNING, log("applied\n"), log("done\n"))
    return first.ref.job_id


async def events(runner: SimulatedRunner, job_id: str, **params: object) -> list[dict[str, object]]:
    answer = await runner.app.admin.get(f"/api/v1/jobs/{job_id}/log", params={"format": "events", **params})  # pyright: ignore[reportArgumentType]
    assert answer.status_code == 200, answer.text
    return [msgspec.json.decode(line) for line in answer.text.splitlines()]


async def test_plan_and_apply_are_one_log_with_the_approval_between_them(runner: SimulatedRunner) -> None:
    """An approved job lost its plan: only the apply was printed, and the plan was hidden behind a number."""
    job_id = await approved(runner)
    text = (await runner.app.admin.get(f"/api/v1/jobs/{job_id}/log")).text
    between = "── Planned in T · waited T for approval · approved by olga ──"
    assert timeless(text) == f"planned\nopen line\n{between}\napplied\ndone\n"
    view = (await runner.app.admin.get(f"/api/v1/jobs/{job_id}")).json()
    assert timeless(view["run"][0]["text"]) == between.strip("─ ")
    assert (view["run"][0]["is_over"], view["run"][1]["is_over"]) == (True, False)


async def test_whoever_goes_on_after_any_event_gets_each_of_the_others_once(runner: SimulatedRunner) -> None:
    job_id = await approved(runner)
    whole = await events(runner, job_id)
    assert [(each["attempt"], each["n"]) for each in whole] == [(1, 2), (1, 3), (2, 0), (2, 2), (2, 3)]
    for at, each in enumerate(whole):
        after = f"{each['attempt']}.{each['n']}"
        assert await events(runner, job_id, after=after) == whole[at + 1 :]
        assert await events(runner, job_id, after=after, limit=1) == whole[at + 1 : at + 2]
    assert [each["text"] for each in await events(runner, job_id, attempt=1)] == ["planned\n", "open line"]


async def test_the_steps_of_the_plan_are_those_of_the_attempt_that_made_it(runner: SimulatedRunner) -> None:
    """`job show` said `plan SKIPPED` of a plan that an earlier attempt had made."""
    job_id = await approved(runner)
    sql = "INSERT INTO steps (job_id, attempt, name, status) VALUES (:id, :attempt, 'init', :status)"
    for attempt, status in ((1, "SUCCEEDED"), (2, "SKIPPED")):
        await runner.rows.run(sql, id=job_id, attempt=attempt, status=status)
    steps = {each["name"]: each for each in (await runner.app.admin.get(f"/api/v1/jobs/{job_id}")).json()["steps"]}
    assert (steps["init"]["status"], steps["init"]["attempt"]) == ("SUCCEEDED", 1)
    assert steps["apply"]["attempt"] == 2


@pytest.mark.feature("J8.decline")
async def test_a_declined_plan_says_at_the_end_of_the_log_who_declined_it(runner: SimulatedRunner) -> None:
    first = await runner.run(kind="APPLY")
    await first.deliver(RUNNING, log("planned\n"), WAITING)
    admin = Principal("user", "usr_1", "olga", runner.rows.organization, is_system_admin=True)
    assert len(await events(runner, first.ref.job_id)) == 1, "nothing is said while it waits"
    await approvals.decline(runner.server.db, admin, first.ref.job_id, 1, "too early")
    whole = await events(runner, first.ref.job_id)
    assert timeless(str(whole[-1]["text"])) == "Planned in T · waited T for approval · declined by olga: too early\n"
    assert await events(runner, first.ref.job_id, after="2.0") == []
    path = f"/api/v1/jobs/{first.ref.job_id}/log/stream"
    async with runner.listening() as url, watching(url, runner.app.admin, path, "1.2") as viewer:
        told = await viewer.rest()
        assert [each.id for each in told if each.name == "log"] == ["2.0"]


@pytest.mark.feature("U5.log")
async def test_the_last_lines_of_a_run_begin_at_a_stored_chunk_and_know_how_many_come_before(
    runner: SimulatedRunner,
) -> None:
    first = await runner.run(kind="APPLY")
    await first.deliver(RUNNING, log("planned\n"), log("second line\n"), WAITING)
    admin = Principal("user", "usr_1", "olga", runner.rows.organization, is_system_admin=True)
    await approvals.approve(runner.server.db, Registry(), admin, first.ref.job_id, 1)
    job_id = first.ref.job_id
    second = await runner.again(job_id, 2)
    for at in range(4):
        await second.deliver(log(f"line {3 * at}\nline {3 * at + 1}\nline {3 * at + 2}\n"))

    async def end(attempt: int | None, count: int) -> run_log.LogEnd | None:
        return await runner.server.db.read(lambda tx: run_log.end(tx, job_id, attempt, count))

    assert await end(None, 12) is None
    assert await end(1, 2) is None
    found = await end(None, 4)
    assert found is not None
    rest = await events(runner, job_id, after=found.place)
    assert [each["text"] for each in rest] == ["line 6\nline 7\nline 8\n", "line 9\nline 10\nline 11\n"]
    assert found.line == 2 + 1 + 6, "two of the first attempt, one between them, six of the second"
    alone = await end(2, 4)
    assert alone is not None
    assert (alone.place, alone.line) == (found.place, 6)
