"""A state that cannot be read is kept as it came, for a person to look at, and nothing waits behind it."""

import hashlib
import time

import pytest

from terracrew.protocol import events, frames
from terracrew.protocol.events import Kind, Result, StateFact, StepStatus, Stream
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import Step
from terracrew.server.jobs.attempts.received_states import MAX_UNREADABLE
from terracrew.server.runs import module_view
from tests.builders.deliveries import RUNNING
from tests.builders.job_rows import begin
from tests.server.hub.hub_clients import Hub
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.stored_states import content, written

pytestmark = pytest.mark.feature("J15.kept")
GARBAGE = bytes(range(256)) * 4


async def delivered(hub: Hub, state: bytes, *, count: int = 1, upload: tuple[bytes, bool] | None = None) -> Granted:
    """The whole life of an attempt with these records of states; returns when the server has all of it."""
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job("APPLY"))
        ref = (granted.spec.job_id, granted.spec.attempt)
        now = time.time()
        async with hub.executor(granted) as executor:
            start = events.pack_fact(StepStatus(Step.APPLY, "RUNNING"), Step.APPLY, now)
            await executor.connection.send(frames.pack(1, 1, start))
            assert (await executor.get("ack"))["mark"] == 1
            await begin(hub.server.db, AttemptRef(*ref), 0)
            if upload:
                person = hub.crew.bearer(granted.credentials.hub)
                headers = {"X-Plain": "1"} if upload[1] else {}
                path = f"/runnerhub/attempts/{ref[0]}/{ref[1]}/states/2"
                assert (await person.put(path, content=upload[0], headers=headers)).status_code == 204
            ended = events.pack_fact(StepStatus(Step.APPLY, "FAILED", 1), Step.APPLY, now)
            result = events.pack_fact(Result("FAILED", "apply failed"), Step.APPLY, now)
            await executor.connection.send(frames.pack(2, count + 2, state + ended + result))
            assert (await executor.get("ack", "refused"))["mark"] == count + 3
    return granted


def record(plain: bytes, sent: bytes, *, is_inline: bool = True, problem: str = "") -> bytes:
    fact = StateFact(hashlib.sha256(plain).hexdigest(), len(plain), 1, "a", is_inline, "errored", problem=problem)
    return events.pack_state(fact, sent, Step.APPLY, time.time())


async def kept(hub: Hub, granted: Granted) -> tuple[dict[str, object], bytes]:
    """The state as the API shows it, and its content."""
    admin = hub.crew.app.admin
    [state] = (await admin.get(f"/api/v1/modules/{granted.spec.module_id}/states")).json()["items"]
    answer = await admin.get(f"/api/v1/states/{state['id']}")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    return state, answer.content


@pytest.mark.parametrize("way", ["in its event", "by HTTP", "as an event that nobody understands"])
async def test_a_state_that_cannot_be_read_is_kept_raw_in_quarantine_and_its_result_arrives(hub: Hub, way: str) -> None:
    """It was refused and sent again for ever, and the attempt's result was stuck behind it."""
    if way == "in its event":
        granted, reason = await delivered(hub, record(content(1), GARBAGE)), "cannot be decrypted"
        raw = GARBAGE
    elif way == "by HTTP":
        sent = record(content(1), b"", is_inline=False)
        granted, reason = await delivered(hub, sent, upload=(GARBAGE, False)), "cannot be decrypted"
        raw = GARBAGE
    else:
        raw = b'{"sha256": 7}\n' + GARBAGE
        sent = events.pack(Kind.STATE, Stream.SYSTEM, Step.APPLY, time.time(), raw)
        granted, reason = await delivered(hub, sent), "the event that brought it cannot be read"
    state, found = await kept(hub, granted)
    assert (found, state["status"], state["version"]) == (raw, "quarantined", None)
    assert reason in str(state["problem"])
    job = (await hub.crew.app.admin.get(f"/api/v1/jobs/{granted.spec.job_id}")).json()
    assert (job["status"], job["message"]) == ("FAILED", "apply failed")
    doubts = (await hub.crew.app.admin.get(f"/api/v1/modules/{granted.spec.module_id}")).json()["doubts"]
    assert [each["attempt"] for each in doubts] == [1], "the engine ended in order, but nobody can read what it saved"
    stored = await hub.server.db.read(lambda tx: tx.all("SELECT content, object FROM states"))
    assert all(GARBAGE not in (row["content"] or b"") for row in stored), "it is encrypted at rest like any state"


@pytest.mark.parametrize(
    ("told", "problem", "shown"),
    [
        (GARBAGE, "this is not a state: it is malformed", "this is not a state: it is malformed"),
        (content(1), "", "not what its event says"),
    ],
    ids=["the executor says so", "not the one of its event"],
)
async def test_an_upload_that_is_no_state_is_kept_in_quarantine_with_the_reason(
    hub: Hub, told: bytes, problem: str, shown: str
) -> None:
    """The event of another state was never taken, because the object of its hash never came."""
    sent = record(told, b"", is_inline=False, problem=problem)
    state, found = await kept(hub, await delivered(hub, sent, upload=(GARBAGE, True)))
    assert (found, state["status"]) == (GARBAGE, "quarantined")
    assert shown in str(state["problem"])


async def test_an_unreadable_state_can_be_discarded_and_not_be_adopted(hub: Hub) -> None:
    granted = await delivered(hub, record(content(1), GARBAGE))
    state, _ = await kept(hub, granted)
    admin = hub.crew.app.admin
    refused = await admin.refused("POST", f"/api/v1/states/{state['id']}/adopt", 409)
    assert "cannot be adopted: it cannot be decrypted" in refused
    module = (await admin.get(f"/api/v1/modules/{granted.spec.module_id}")).json()
    assert [each["problem"] for each in module["quarantined"]] == [state["problem"]]
    assert (await admin.post(f"/api/v1/states/{state['id']}/discard")).status_code == 200
    module = (await admin.get(f"/api/v1/modules/{granted.spec.module_id}")).json()
    assert module["quarantined"] == []


async def test_a_flood_of_unreadable_states_leaves_only_some_of_them_and_a_note(hub: Hub) -> None:
    """One frame of an executor made 4,000 states in quarantine, and a person had to discard each of them."""
    many = 3 * MAX_UNREADABLE
    flood = events.pack(Kind.STATE, Stream.SYSTEM, Step.APPLY, time.time(), b"no state") * many
    granted = await delivered(hub, flood, count=many)
    assert await hub.crew.app.scalar("SELECT count(*) FROM states") == MAX_UNREADABLE
    job = (await hub.crew.app.admin.get(f"/api/v1/jobs/{granted.spec.job_id}")).json()
    assert job["status"] == "FAILED"
    [note] = job["notes"]
    assert note["text"] == "more than 32 of its states cannot be read: those after that were not kept"
    module = (await hub.crew.app.admin.get(f"/api/v1/modules/{granted.spec.module_id}")).json()
    assert len(module["quarantined"]) == MAX_UNREADABLE
    assert [each["attempt"] for each in module["doubts"]] == [1], "what was not kept is unaccounted for all the same"


async def test_one_view_of_a_module_shows_a_bounded_number_of_states_in_quarantine(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every view of a module read all of its states in quarantine, however many there were."""
    monkeypatch.setattr(module_view, "MAX_QUARANTINED", 0)
    attempt = await runner.run(kind="APPLY")
    await attempt.deliver(RUNNING)
    await attempt.write(content(1))
    assert await runner.app.scalar("SELECT status FROM states") == "quarantined", "it had no permit to change anything"
    module = (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}")).json()
    assert module["quarantined"] == []


async def test_what_can_be_read_is_not_affected(runner: SimulatedRunner) -> None:
    attempt = await written(runner, content(1))
    [state] = (await runner.app.admin.get(f"/api/v1/modules/{attempt.module_id}/states")).json()["items"]
    assert (state["status"], state["problem"]) == ("current", "")
