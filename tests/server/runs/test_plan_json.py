"""The JSON of a plan that a command line has saved: encrypted, shown to those who may read states, and removed with its job."""

import hashlib
import json
import zlib

import msgspec
import pytest

from terracrew.plan_diff import plan_json
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.protocol.events import PlanShown
from terracrew.server.jobs.plans import json_store
from terracrew.server.state.model import LargeOutputs
from tests.builders.deliveries import DONE, RUNNING, delivery, fact
from tests.builders.job_rows import change_jobs
from tests.server.application import Application
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

PLAN = {"format_version": "1.2", "variables": {"a": {"value": 1}}, "resource_changes": [{"address": "a.b"}]}
SCHEMAS = {"registry/x/y": {"resource_schemas": {"a": {"version": 0}}}}
CONTENT = plan_json.pack(
    PlanJson(msgspec.Raw(json.dumps(PLAN).encode()), "1.0", msgspec.Raw(json.dumps(SCHEMAS).encode()))
)
NOTHING = "nothing is kept of the plan of job"


def shown(content: bytes) -> PlanShown:
    return PlanShown(hashlib.sha256(content).hexdigest(), content)


def path(attempt: SimulatedAttempt, form: str = "json-output") -> str:
    return f"/api/tfe/v2/plans/{attempt.ref.job_id}/{form}"


async def _saved(runner: SimulatedRunner) -> SimulatedAttempt:
    """An attempt of a job whose plan was asked for with `-out`."""
    job_id = await runner.rows.job(await runner.rows.module())
    await change_jobs(runner.rows.db, job_id, needs_plan_json=True)
    attempt, spec = await runner.granted(job_id)
    assert spec.needs_plan_json
    return attempt


async def test_both_forms_are_read_from_one_document_that_is_encrypted(
    application: Application, runner: SimulatedRunner
) -> None:
    attempt = await _saved(runner)
    await attempt.deliver(RUNNING, fact(shown(CONTENT)))
    stored = bytes(await application.scalar("SELECT content FROM plan_json WHERE job_id = :id", id=attempt.ref.job_id))
    assert CONTENT not in stored
    assert (await application.admin.get(path(attempt))).json() == PLAN
    answer = await application.admin.get(path(attempt, "json-output-redacted"))
    assert (answer.headers["Content-Type"], answer.headers["Cache-Control"]) == ("application/json", "no-store")
    assert answer.json() == {
        "plan_format_version": "1.2",
        "resource_changes": [{"address": "a.b"}],
        "provider_format_version": "1.0",
        "provider_schemas": SCHEMAS,
    }


async def test_it_takes_the_right_to_read_states(application: Application, runner: SimulatedRunner) -> None:
    attempt = await _saved(runner)
    await attempt.deliver(RUNNING, fact(shown(CONTENT)))
    for form in ("json-output", "json-output-redacted"):
        viewer = await application.person(f"viewer-{form}", "viewer")
        refused = await viewer.get(path(attempt, form))
        assert refused.status_code == 403
        assert "read states" in refused.json()["errors"][0]["title"]
        assert (await (await application.person(f"operator-{form}", "operator")).get(path(attempt, form))).is_success
        assert (await (await application.person(f"nobody-{form}")).get(path(attempt, form))).status_code == 404


async def test_a_plan_of_which_nothing_is_kept_says_so(application: Application, runner: SimulatedRunner) -> None:
    """What a runner sends for policies alone is not shown."""
    attempt = await runner.run()
    await attempt.deliver(RUNNING, fact(shown(CONTENT)))
    answer = await application.admin.get(path(attempt, "json-output-redacted"))
    assert answer.status_code == 404
    assert NOTHING in answer.json()["errors"][0]["title"]


@pytest.mark.parametrize(
    "content",
    [
        b"no zlib",
        CONTENT[:-9],
        zlib.compress(b"[]"),
        zlib.compress(b'{"plan":[1]}'),
        zlib.compress(b" " * (plan_json.MAX_PLAN_JSON_BYTES + 1)),
    ],
)
async def test_content_that_cannot_be_read_is_an_error_with_words(
    application: Application, runner: SimulatedRunner, content: bytes
) -> None:
    attempt = await _saved(runner)
    await attempt.deliver(RUNNING, fact(shown(content)))
    answer = await application.admin.get(path(attempt, "json-output-redacted"))
    assert answer.status_code == 400
    assert "the JSON of this plan" in answer.json()["errors"][0]["title"]


async def test_a_large_one_comes_by_http_and_is_removed_with_its_job(
    application: Application, runner: SimulatedRunner
) -> None:
    attempt = await _saved(runner)
    await attempt.deliver(RUNNING)
    number, sha256 = attempt.next, hashlib.sha256(CONTENT).hexdigest()
    sent = await attempt.executor.put(f"{attempt.path}/states/{number}", content=attempt.seal(CONTENT))
    assert sent.status_code == 204, sent.text
    names = await application.server.objects.names(f"states/{attempt.ref.job_id}/1")
    made = delivery(attempt.ref, number, fact(PlanShown(sha256)))
    made.diffs[number] = LargeOutputs(names[0])
    await runner.rows.take(made)
    assert (await application.admin.get(path(attempt))).json() == PLAN
    kept = await application.server.db.read(lambda tx: json_store.object_names(tx, [attempt.ref.job_id]))
    assert kept == set(names), "an orphan would be removed"
    gone = await application.server.db.write(lambda tx: json_store.delete_of_job(tx, attempt.ref.job_id))
    assert gone == names


async def test_one_that_did_not_come_is_noted(application: Application, runner: SimulatedRunner) -> None:
    attempt = await _saved(runner)
    await attempt.deliver(RUNNING, fact(PlanShown("0" * 64)), DONE)
    notes = (await application.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()["notes"]
    assert "the JSON of its plan was not kept: it did not come" in notes[0]["text"]
