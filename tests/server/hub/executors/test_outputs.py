"""Outputs that are too large for an event arrive by HTTP, and those of an older job are shown as such."""

import hashlib

import msgspec
import pytest

from terracrew.protocol.events import MAX_OUTPUT_LEVELS, MAX_OUTPUTS_BYTES, Output, OutputsRead, Result, StepStatus
from terracrew.protocol.spec import Step
from terracrew.server.hub.executors import event_contents
from terracrew.server.jobs.attempts.ingest import Delivery
from terracrew.server.logs import chunks
from terracrew.server.retention.deletion import remove_deleted
from tests.builders.deliveries import DONE, fact
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

pytestmark = pytest.mark.feature("J12.stored")
LARGE = {"large": Output(["x" * 1000] * 6000, "list"), "secret": Output("hunter2", "string", is_sensitive=True)}
APPLIED = fact(StepStatus(Step.APPLY, "SUCCEEDED", 0))


async def uploaded(attempt: SimulatedAttempt, content: bytes) -> None:
    """Deliver outputs by HTTP and then their event, as an executor and the hub do."""
    told = OutputsRead({}, hashlib.sha256(content).hexdigest(), is_inline=False)
    number, server = attempt.next, attempt.crew.server
    with pytest.raises(ValueError, match="not stored"):
        await event_contents.large_outputs(server.hub.executors, attempt.ref, attempt.module_id, number, told)
    put = await attempt.executor.put(f"{attempt.path}/states/{number}", content=attempt.seal(content))
    assert put.status_code == 204
    found = await event_contents.large_outputs(server.hub.executors, attempt.ref, attempt.module_id, number, told)
    records = [fact(told)]
    packed = chunks.pack(list(enumerate(records, number)))
    delivery = Delivery(*(attempt.ref.job_id, attempt.ref.attempt), number, records, {}, packed, {number: found})
    attempt.next = await server.ingest(delivery) + 1


async def test_outputs_that_came_by_http_are_read_back_and_lie_open_nowhere(runner: SimulatedRunner) -> None:
    attempt = await runner.begun()
    await uploaded(attempt, msgspec.json.encode(LARGE))
    await attempt.deliver(APPLIED, DONE)
    path = f"/api/v1/modules/{attempt.module_id}/outputs"
    told = (await runner.app.admin.get(f"{path}?sensitive=true")).json()
    assert told["outputs"]["large"]["value"] == ["x" * 1000] * 6000
    assert told["outputs"]["secret"]["value"] == "hunter2"
    assert told["outdated_since"] is None
    assert (await runner.app.admin.get(path)).json()["outputs"]["secret"]["value"] is None
    stored = await runner.app.scalar("SELECT object FROM outputs")
    assert b"hunter2" not in await runner.server.objects.get(stored)
    page = await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")
    assert page.json()["status"] == "SUCCEEDED"
    assert (await runner.app.admin.delete(f"/api/v1/modules/{attempt.module_id}?force=true")).status_code in (200, 204)
    await remove_deleted(runner.server.db)
    assert await runner.app.scalar("SELECT name FROM object_deletions") == stored, "they go with the module"


@pytest.mark.parametrize("content", [b"no outputs", b"deep"])
async def test_large_outputs_that_cannot_be_read_leave_a_note_and_the_job_ends(
    runner: SimulatedRunner, content: bytes
) -> None:
    if content == b"deep":
        nested = "[" * (MAX_OUTPUT_LEVELS + 1) + "]" * (MAX_OUTPUT_LEVELS + 1)
        content = f'{{"a": {{"value": {nested}}}}}'.encode()
    attempt = await runner.begun()
    await uploaded(attempt, content)
    await attempt.deliver(APPLIED, DONE)
    view = (await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()
    assert view["status"] == "SUCCEEDED"
    assert "its outputs were not kept" in view["notes"][0]["text"]


async def test_outputs_that_are_too_large_are_never_decoded_and_the_job_ends_with_a_note(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any attempt could deliver outputs of 256 MiB, which the server decoded while everything else waited."""
    monkeypatch.setattr(event_contents, "problem_of_outputs", None)  # so that a call of it fails
    attempt = await runner.begun()
    await uploaded(attempt, b'{"a":{"value":"' + b"x" * MAX_OUTPUTS_BYTES + b'"}}')
    await attempt.deliver(APPLIED, DONE)
    view = (await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()
    assert view["status"] == "SUCCEEDED"
    assert "its outputs were not kept" in view["notes"][0]["text"]
    assert "at most 8,388,608 are kept" in view["notes"][0]["text"]
    told = (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/outputs")).json()
    assert (told["outputs"], told["outdated_by"]) == ({}, attempt.ref.job_id)


async def test_outputs_of_an_older_job_are_told_from_current_ones(runner: SimulatedRunner) -> None:
    """They were printed as if they were those of the last apply."""
    first = await runner.begun()
    await first.deliver(fact(OutputsRead({"a": Output(1)}, "ab")), APPLIED, DONE)
    path = f"/api/v1/modules/{first.module_id}/outputs"
    assert (await runner.app.admin.get(path)).json()["outdated_by"] is None
    second = await runner.begun(first.module_id)
    warned = fact(Result("SUCCEEDED", "applied, but its outputs are not kept: output failed"))
    await second.deliver(APPLIED, warned)
    told = (await runner.app.admin.get(path)).json()
    assert (told["job_id"], told["outdated_by"]) == (first.ref.job_id, second.ref.job_id)
    assert told["outdated_since"] > told["created_at"]
    assert told["outputs"]["a"]["value"] == 1
    third = await runner.begun(first.module_id)
    await third.deliver(fact(OutputsRead({"a": Output(3)}, "cd")), APPLIED, DONE)
    told = (await runner.app.admin.get(path)).json()
    assert (told["outputs"]["a"]["value"], told["outdated_since"]) == (3, None)
