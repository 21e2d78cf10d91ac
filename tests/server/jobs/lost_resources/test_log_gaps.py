"""The list of what an attempt changed never claims to be complete while the end of its log may be missing."""

from typing import Any

import msgspec
import pytest

from terracrew.protocol.events import OutputMissing, PlanSummary, ResourceChange
from terracrew.server.jobs import decide
from terracrew.server.jobs.set_back import detection
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import RUNNING, fact
from tests.builders.job_rows import change_attempts
from tests.server.jobs.lost_resources.cut_short_attempts import lose_contact, printed
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

pytestmark = pytest.mark.feature("J15.lost")
PLAN = PlanSummary(
    add=3,
    destroy=2,
    replace=1,
    resources=[
        ResourceChange("a.x", "create"),
        ResourceChange("a.y", "create"),
        ResourceChange("a.kept", "create"),
        ResourceChange("a.old", "delete"),
        ResourceChange("a.gone", "delete"),
        ResourceChange("a.new", "replace"),
        ResourceChange("a.changed", "update"),
    ],
)
LINES = "a.x: Creating...\na.x: Creation complete after 0s [id=x-1]\n"
FROM_PLAN = [
    ("a.y", "planned_create", "look"),
    ("a.old", "planned_destroy", "refresh"),
    ("a.new", "planned_replace", "look"),
]


def state(*names: str) -> bytes:
    found: list[dict[str, Any]] = [
        {"mode": "managed", "type": "a", "name": each, "instances": [{"attributes": {}}]} for each in names
    ]
    return msgspec.json.encode({"version": 4, "serial": 1, "lineage": "a", "resources": found})


async def begun(runner: SimulatedRunner, lines: str = LINES) -> SimulatedAttempt:
    """An apply in a module whose state has three resources, with lines of its log that have arrived."""
    attempt = await runner.run(kind="APPLY")
    await attempt.deliver(RUNNING, fact(PLAN))
    await attempt.begin()
    await attempt.write(state("kept", "old", "new"), serial=1)
    if lines:
        await attempt.deliver(printed(lines))
    return attempt


async def give_up(attempt: SimulatedAttempt) -> None:
    answer = await attempt.crew.app.admin.post(f"/api/v1/jobs/{attempt.ref.job_id}/attempts/1/gone")
    assert answer.status_code == 200, answer.text


async def listed(attempt: SimulatedAttempt, **params: Any) -> dict[str, Any]:
    answer = await attempt.crew.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/lost-resources", params=params)
    return answer.json()


def rows(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["address"], each["action"], each["remedy"]) for each in found["items"]]


async def test_the_list_of_a_lost_attempt_says_from_when_on_nothing_is_known(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    """The list of a machine that was lost with its disk was empty, and nothing said that its log ended four seconds too early."""
    attempt = await begun(runner, lines="")
    await lose_contact(attempt, clock, after=4.0)
    found = await listed(attempt)
    [gap] = found["gaps"]
    assert not found["is_complete"]
    assert "the log of attempt 1 ends 4 s before the last contact with it" in gap["explanation"]
    assert gap["log_ends_at"] < gap["heard_at"]
    assert rows(found) == [("a.x", "planned_create", "look"), *FROM_PLAN]
    report = (await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/attempts/1")).json()
    assert (report["is_complete"], report["gap"]) == (False, gap)


async def test_the_list_of_an_attempt_whose_begin_is_not_known_after_a_set_back_is_not_complete(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    """It had applied its plan in the time that the database lost. Its list was empty and claimed to be complete."""
    attempt = await runner.run(kind="APPLY")
    await attempt.deliver(RUNNING, fact(PLAN))
    await runner.server.db.write(lambda tx: detection.start(tx, "it was restored"))
    await lose_contact(attempt, clock, after=4.0)
    found = await listed(attempt)
    [gap] = found["gaps"]
    assert not found["is_complete"]
    assert "the database was set back, and has lost what attempt 1 did after its log ends" in gap["explanation"]
    assert ("a.x", "planned_create", "look") in rows(found)
    report = (await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/attempts/1")).json()
    assert (report["may_have_begun"], report["may_miss_state"], report["gap"]) == (True, True, gap)


async def test_what_the_log_mentions_is_not_listed_a_second_time_as_planned(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    attempt = await begun(runner)
    await lose_contact(attempt, clock, after=4.0)
    found = await listed(attempt)
    assert rows(found) == [("a.x", "created", "import"), *FROM_PLAN]
    pages, after = list[tuple[str, str, str]](), None
    while page := await listed(attempt, limit=1, **({"after": after} if after else {})):
        assert not page["is_complete"]
        pages += rows(page)
        if (after := page["next"]) is None:
            break
    assert pages == rows(found)


async def test_the_plan_is_still_known_after_the_job_was_queued_again(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    attempt = await begun(runner)
    await lose_contact(attempt, clock, after=0.0)
    await give_up(attempt)
    job = (await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()
    assert (job["status"], job["plan"]) == ("QUEUED", None)
    found = await listed(attempt)
    assert rows(found) == [("a.x", "created", "import"), *FROM_PLAN]
    assert "ends with the last contact" in found["gaps"][0]["explanation"]
    [doubt] = job["doubts"]
    assert (doubt["is_complete"], doubt["gap"]) == (False, found["gaps"][0])
    await change_attempts(runner.server.db, is_in_doubt=False)
    found = await listed(attempt)
    assert (rows(found), found["is_complete"]) == ([("a.x", "created", "import")], False), "a person has looked"


async def test_nobody_is_told_to_plan_without_imports_while_something_is_unknown(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    """`--import-lost` said that nothing was left to import and to run the job without it, which made six things twice."""
    attempt = await begun(runner, lines="")
    await lose_contact(attempt, clock, after=4.0)
    await give_up(attempt)
    path = f"/api/v1/modules/{attempt.module_id}/jobs"
    for job in ("", attempt.ref.job_id):
        asked: dict[str, Any] = {"type": "APPLY", "import_lost": {"job": job}}
        said = await runner.app.admin.refused("POST", path, 409, json=asked)
        assert "ends 4 s before the last contact" in said
        assert "Look whether these exist, which its plan was to make: a.x, a.y, a.new" in said
        assert "without" not in said


async def test_a_report_that_everything_was_delivered_completes_the_list(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    attempt = await begun(runner)
    await lose_contact(attempt, clock, after=4.0)
    await give_up(attempt)
    assert not (await listed(attempt))["is_complete"]
    await runner.rows.gone(attempt.ref, decide.Report("killed", last=attempt.next + 4, is_delivered=True))
    assert not (await listed(attempt))["is_complete"], "the server does not have the last event"
    await attempt.lose()
    found = await listed(attempt)
    assert (found["is_complete"], found["gaps"]) == (True, [])
    assert rows(found) == [("a.x", "created", "import")]
    asked: dict[str, Any] = {"type": "PLAN", "import_lost": {"leave_out": ["a.x"]}}
    path = f"/api/v1/modules/{attempt.module_id}/jobs"
    said = await runner.app.admin.refused("POST", path, 409, json=asked)
    assert "left nothing to import: let the job plan without imports" in said


async def test_a_machine_that_crashed_may_have_lost_the_end_of_the_log(runner: SimulatedRunner) -> None:
    attempt = await begun(runner)
    await attempt.deliver(fact(OutputMissing()))
    await attempt.lose()
    found = await listed(attempt)
    assert not found["is_complete"]
    assert "the machine of attempt 1 crashed" in found["gaps"][0]["explanation"]
