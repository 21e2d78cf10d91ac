"""The diff of a plan is stored with its job, encrypted, read by page, and removed with the job."""

import hashlib
from typing import Any

import pytest

from terracrew.plan_diff import document
from terracrew.plan_diff.document import PlanDescription
from terracrew.protocol.events import PlanDescribed, PlanSummary, ResourceChange
from terracrew.server.jobs.plans import diff_store
from terracrew.server.state.model import LargeOutputs
from tests.builders.deliveries import DONE, RUNNING, delivery, fact
from tests.plan_diff.plans import planned, unmasked
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

pytestmark = pytest.mark.feature("J11.diff")


def built(*resources: Any) -> bytes:
    return document.build(PlanDescription(resources), unmasked)


def described(content: bytes) -> PlanDescribed:
    return PlanDescribed(hashlib.sha256(content).hexdigest(), content)


CONTENT = built(
    planned(None, {"name": "<b>new</b>"}, action="create", address="a.made"),
    planned({"size": 1}, {"size": 2}, address="a.changed"),
    planned({"key": "x"}, None, action="delete", address='a.gone["<i>"]', key="<i>", reason="delete_because_each_key"),
)


async def _planned(runner: SimulatedRunner) -> SimulatedAttempt:
    attempt = await runner.run()
    summary = PlanSummary(add=1, change=1, destroy=1, resources=[ResourceChange("a.made", "create")])
    await attempt.deliver(RUNNING, fact(summary), fact(described(CONTENT)))
    return attempt


async def test_the_api_shows_the_diff_in_pages_and_searches_it(
    application: Application, runner: SimulatedRunner
) -> None:
    path = f"/api/v1/jobs/{(await _planned(runner)).ref.job_id}/diff"
    admin = application.admin
    whole = (await admin.get(path)).json()
    assert [each["address"] for each in whole["items"]] == ['a.gone["<i>"]', "a.changed", "a.made"]
    assert (whole["counts"], whole["attempt"]) == ({"delete": 1, "update": 1, "create": 1}, 1)
    first = (await admin.get(path, params={"limit": 2})).json()
    rest = (await admin.get(path, params={"limit": 2, "after": first["next"]})).json()
    assert ([each["address"] for each in rest["items"]], rest["next"]) == (["a.made"], None)
    assert (await admin.get(path, params={"q": "SIZE"})).json()["total"] == 1
    assert (await admin.get(path, params={"action": "create"})).json()["total"] == 1
    await admin.refused("GET", path, 400, params={"action": "melt"})
    await admin.refused("GET", path, 400, params={"after": "bm90IGEgbnVtYmVy"})
    await admin.refused("GET", path, 400, params={"q": "x" * 201})


async def test_a_job_without_a_diff_says_so(application: Application, runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    found = (await application.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/diff")).json()
    assert (found["attempt"], found["items"], found["total"]) == (None, [], 0)


async def test_the_diff_is_encrypted_and_the_last_plan_replaces_the_one_before(
    application: Application, runner: SimulatedRunner
) -> None:
    attempt = await _planned(runner)
    sql = "SELECT content FROM plan_diffs WHERE job_id = :id"
    stored = bytes(await application.scalar(sql, id=attempt.ref.job_id))
    assert CONTENT not in stored
    await attempt.deliver(fact(described(built(planned(action="read", address="a.read")))))
    found = (await application.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/diff")).json()
    assert [each["address"] for each in found["items"]] == ["a.read"]


async def test_a_large_diff_comes_by_http_before_its_event(application: Application, runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING, fact(PlanSummary(add=1)))
    number, sha256 = attempt.next, hashlib.sha256(CONTENT).hexdigest()
    answer = await attempt.executor.put(f"{attempt.path}/states/{number}", content=attempt.seal(CONTENT))
    assert answer.status_code == 204, answer.text
    names = await application.server.objects.names(f"states/{attempt.ref.job_id}/1")
    made = delivery(attempt.ref, number, fact(PlanDescribed(sha256)))
    made.diffs[number] = LargeOutputs(names[0])
    await runner.rows.take(made)
    found = (await application.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/diff")).json()
    assert found["total"] == 3
    kept = await application.server.db.read(lambda tx: diff_store.object_names(tx, [attempt.ref.job_id]))
    assert kept == set(names), "an orphan would be removed"
    gone = await application.server.db.write(lambda tx: diff_store.delete_of_job(tx, attempt.ref.job_id))
    assert gone == names


async def test_a_diff_that_did_not_come_is_noted(application: Application, runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING, fact(PlanDescribed("0" * 64)), DONE)
    notes = (await application.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()["notes"]
    assert "the diff of its plan was not kept: it did not come" in notes[0]["text"]


async def test_the_page_shows_the_diff_and_content_that_cannot_be_read_is_explained(
    application: Application, runner: SimulatedRunner
) -> None:
    attempt = await _planned(runner)
    someone = await logged_in(application)
    path = f"/dashboard/jobs/{attempt.ref.job_id}"
    page = await someone.see(path)
    assert "Destroyed because the key <code>&#34;&lt;i&gt;&#34;</code> is no longer in <code>for_each</code>." in page
    assert "&lt;b&gt;new&lt;/b&gt;" in page
    assert "<b>new</b>" not in page
    found = await someone.see(f"{path}?q=size&action=update")
    assert "a.<b>changed</b>" in found
    assert "a.<b>made</b>" not in found
    assert "No resource matches" in await someone.see(f"{path}?q=nothing-like-it")
    fragment = {"HX-Request": "true"}
    key = page.partition("known=")[2].partition('"')[0]
    assert (await someone.get(f"{path}/diff?known={key}", headers=fragment)).status_code == 204
    assert "a.<b>made</b>" in (await someone.get(f"{path}/diff?known=old", headers=fragment)).text
    assert (await someone.get(f"{path}/diff?q=size")).headers["location"] == f"{path}?q=size"
    await attempt.deliver(fact(PlanDescribed("1" * 64, b"this is not a diff")))
    assert "The changes by attribute cannot be shown" in await someone.see(path)
