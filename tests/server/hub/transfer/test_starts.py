"""The start of an attempt is given away once, to the process that shows its ticket first, and never after it was revoked."""

import asyncio
import hashlib
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import record
from terracrew.executor.container import ticket
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import FETCH_PATH, MAX_START_BYTES, TICKET_HEADER, ExecutorStart, new_ticket
from terracrew.runner.dispatch.ecs.given_starts import GivenStarts
from terracrew.runner.dispatch.protocol import NotStarted
from terracrew.server.retention.leftovers import Leftovers
from terracrew.server.runners.starts.service import START_TTL_SECONDS
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import RUNNING
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

pytestmark = pytest.mark.feature("D6.token")
START = b'{"a start": "with the token of a job"}'


class Ticket:
    """A ticket of one attempt, and what a task does with it."""

    def __init__(self, runner: SimulatedRunner, attempt: SimulatedAttempt) -> None:
        self.runner, self.attempt = runner, attempt
        self.text = new_ticket()

    @property
    def headers(self) -> dict[str, str]:
        return {TICKET_HEADER: hashlib.sha256(self.text.encode()).hexdigest()}

    async def put(self, content: bytes = START) -> int:
        path = f"{self.attempt.path}/start"
        return (await self.attempt.executor.put(path, content=content, headers=self.headers)).status_code

    async def fetch(self, claim: str, ticket: str = "") -> tuple[int, bytes]:
        body = {"ticket": ticket or self.text, "claim": claim.ljust(32, "x")}
        answer = await self.runner.app.stranger().post(FETCH_PATH, json=body)
        return answer.status_code, answer.content

    async def revoke(self) -> bool:
        answer = await self.attempt.executor.request("DELETE", f"{self.attempt.path}/start")
        assert answer.status_code == 200, answer.text
        return answer.json()["was_fetched"]


async def given(runner: SimulatedRunner) -> Ticket:
    ticket = Ticket(runner, await runner.run(kind="APPLY"))
    assert await ticket.put() == 204
    return ticket


async def test_a_start_is_given_to_one_claim_and_again_if_its_answer_was_lost(runner: SimulatedRunner) -> None:
    ticket = await given(runner)
    assert await ticket.fetch("first") == (200, START)
    assert await ticket.fetch("first") == (200, START)
    assert (await ticket.fetch("second"))[0] == 401
    assert await ticket.revoke()
    assert (await ticket.fetch("first"))[0] == 401


async def test_of_two_processes_with_one_ticket_at_the_same_time_one_gets_the_start(runner: SimulatedRunner) -> None:
    ticket = await given(runner)
    answers = await asyncio.gather(*(ticket.fetch(f"claim {number}") for number in range(8)))
    assert sorted(status for status, _ in answers) == [200, *[401] * 7]


async def test_a_second_use_of_a_ticket_is_recorded_once(runner: SimulatedRunner) -> None:
    ticket = await given(runner)
    await ticket.fetch("first")
    await ticket.fetch("first")
    for _ in range(3):
        await ticket.fetch("thief")
    entries = (await runner.app.admin.get("/api/v1/audit?action=attempt.reuse_ticket")).json()["items"]
    assert [(each["target_id"], each["details"]) for each in entries] == [(ticket.attempt.ref.job_id, {"attempt": 1})]
    assert ticket.text not in str(entries)


async def test_a_start_that_was_revoked_can_neither_be_fetched_nor_stored_again(runner: SimulatedRunner) -> None:
    ticket = await given(runner)
    assert not await ticket.revoke()
    assert (await ticket.fetch("late"))[0] == 401
    assert await ticket.put() == 409
    assert not await ticket.revoke()
    never_stored = Ticket(runner, await runner.run())
    assert not await never_stored.revoke()
    assert await never_stored.put() == 409


async def test_a_start_is_replaced_until_it_is_fetched(runner: SimulatedRunner) -> None:
    ticket = await given(runner)
    assert await ticket.put(b"{}") == 204
    assert await ticket.fetch("first") == (200, b"{}")
    assert await ticket.put() == 409


async def test_the_start_of_an_attempt_that_is_over_is_not_given_away(runner: SimulatedRunner) -> None:
    ticket = await given(runner)
    await ticket.attempt.lose()
    assert (await ticket.fetch("late"))[0] == 409
    assert not await ticket.revoke(), "a refused request is no use of the ticket"


async def test_a_start_expires_and_is_removed_after_its_attempt(runner: SimulatedRunner, clock: ShiftedClock) -> None:
    expired, ended = await given(runner), await given(runner)
    await ended.attempt.deliver(RUNNING)
    await ended.attempt.lose()
    clock.advance(START_TTL_SECONDS + 1)
    assert (await expired.fetch("late"))[0] == 401
    await Leftovers(runner.server.db, "srv_1", 30).step()
    assert await runner.app.scalar("SELECT count(*) FROM executor_starts WHERE content IS NOT NULL") == 0
    job = await runner.app.scalar("SELECT job_id FROM executor_starts")
    assert job == expired.attempt.ref.job_id


async def test_a_start_is_stored_encrypted_and_bounded(runner: SimulatedRunner) -> None:
    ticket = await given(runner)
    assert b"token" not in await runner.app.scalar("SELECT content FROM executor_starts")
    stored = await runner.app.scalar("SELECT ticket_sha256 FROM executor_starts")
    assert stored == ticket.headers[TICKET_HEADER]
    assert await ticket.put(b"x" * (MAX_START_BYTES + 1)) == 413
    assert await ticket.put(b"") == 400
    path = f"{ticket.attempt.path}/start"
    assert (await ticket.attempt.executor.put(path, content=b"x", headers={TICKET_HEADER: "x"})).status_code == 400


async def test_nobody_but_the_holder_of_the_attempts_credential_stores_or_revokes_a_start(
    runner: SimulatedRunner,
) -> None:
    ticket, other = await given(runner), await runner.run()
    path = f"{ticket.attempt.path}/start"
    for method in ("PUT", "DELETE"):
        await runner.app.stranger().refused(method, path, 401, headers=ticket.headers)
        for who in (runner.app.admin, other.executor, ticket.attempt.engine):
            await who.refused(method, path, 403, headers=ticket.headers)
    assert await ticket.fetch("first") == (200, START)


async def test_an_attempt_that_has_begun_gets_no_other_start(runner: SimulatedRunner) -> None:
    ticket = Ticket(runner, await runner.begun())
    assert await ticket.put() == 409


async def test_a_runner_and_a_task_exchange_a_start_over_the_network(
    runner: SimulatedRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs on the runner and in the task, against the server itself."""
    attempt = await runner.run(kind="APPLY")
    spec = ExecutorProcesses(FakeExecutorHub(), tmp_path).spec(JobType.APPLY, b"", job_id=attempt.ref.job_id)
    async with runner.listening() as url:
        granted = Granted(spec, attempt.credentials)
        record.write(tmp_path, record.for_grant(granted, url))
        start = ExecutorStart(url, str(tmp_path), "/cache", "/workspaces", "/engine", {}, granted)
        given, text = GivenStarts(""), new_ticket()
        await given.give(tmp_path, start, text, 10)
        monkeypatch.setenv(ticket.TICKET_VARIABLE, text)
        fetched = await asyncio.to_thread(ticket.fetch, url, 10)
        assert msgspec.json.decode(fetched, type=ExecutorStart) == start
        assert await runner.app.scalar("SELECT count(*) FROM executor_starts WHERE content IS NOT NULL") == 0
        assert await given.take_back(tmp_path)
        monkeypatch.setenv(ticket.TICKET_VARIABLE, text)
        with pytest.raises(ticket.TicketRefused):
            await asyncio.to_thread(ticket.fetch, url, 10)
        with pytest.raises(NotStarted, match="fetched or revoked already"):
            await given.give(tmp_path, start, new_ticket(), 10)
