"""A runner that was started for one job: it claims one, delivers all of it, and exits with the code of the job."""

import asyncio
from typing import Any

import pytest

from terracrew.cli.commands.job import follow
from terracrew.errors import Conflict, Incompatible
from terracrew.protocol.messages import Credits, Gone, HandBack, Heartbeat, Refused, Settled
from terracrew.protocol.transfers import AttemptOutcome
from terracrew.runner import one_job
from terracrew.runner.one_job import OneJobSettings
from tests.runner.conftest import TERM, TIMEOUT_SECONDS, Runners, granted, refs

pytestmark = pytest.mark.feature("A2.once")

ONCE = OneJobSettings()
TOKEN = "tco_" + "x" * 43
OUTCOMES = [
    ("succeeded", 0),
    ("failed", 10),
    ("canceled", 11),
    ("waiting", 14),
    ("lost", 16),
    ("of a newer server", 16),
]


def test_the_exit_codes_are_those_of_a_command_that_waits_for_the_job() -> None:
    assert one_job.EXIT_CODES["waiting"] == follow.AWAITING_APPROVAL_EXIT_CODE
    for outcome in ("succeeded", "failed", "canceled"):
        assert one_job.EXIT_CODES[outcome] == follow.EXIT_CODES[outcome.upper()]


@pytest.mark.parametrize(("outcome", "code"), OUTCOMES)
async def test_it_exits_with_the_code_of_its_job_and_claims_no_second_one(
    runners: Runners, outcome: str, code: int
) -> None:
    runners.hub.outcome = AttemptOutcome(outcome, 1)
    runner = await runners.start(one_job=ONCE, client_secret=TOKEN, capacity=8)
    peer = await runners.hub.peer()
    assert peer.hello.capacity == 1
    assert not peer.hello.is_draining
    executor = await runners.grant(peer)
    while not (said := await peer.receive(Heartbeat)).is_draining:
        pass
    assert said.attempts == refs(("job_1", 1))
    await peer.send(granted("job_2"))  # a server that grants a second one gets it back
    assert (await peer.receive(HandBack)).job_id == "job_2"
    await executor.tell("finish")
    assert await runner.ended() == code
    assert [each.slots for each in peer.received(Credits)] == [1]
    assert not any(runners.attempts.iterdir())
    assert runners.hub.asked_with == ["hub-credential"], "the token of the runner may have ended by then"


async def test_after_a_crash_it_adopts_its_job_and_claims_no_other(runners: Runners) -> None:
    runners.hub.outcome = AttemptOutcome("failed", 1)
    runner = await runners.start(one_job=ONCE, client_secret=TOKEN)
    executor = await runners.grant(await runners.hub.peer())
    await runner.kill()
    again = await runners.start(one_job=ONCE, client_secret=TOKEN)
    peer = await runners.hub.peer()
    assert (peer.hello.attempts, peer.hello.is_draining) == (refs(("job_1", 1)), True)
    await peer.receive(Heartbeat)
    await peer.receive(Heartbeat)
    await executor.tell("finish")
    assert await again.ended() == 10
    assert peer.received(Credits) == []


async def test_it_delivers_for_an_executor_that_was_killed_and_waits_for_the_answer(runners: Runners) -> None:
    runners.hub.outcome = AttemptOutcome("gone", 1)
    runner = await runners.start(one_job=ONCE)
    peer = await runners.hub.peer()
    executor = await runners.grant(peer)
    await executor.kill()
    await (await runners.executors.next()).tell("finish")  # the salvage
    await peer.receive(Gone)
    await peer.send(Settled("job_1", 1))
    assert await runner.ended() == one_job.UNDECIDED_EXIT_CODE


async def test_it_ends_if_no_job_comes_in_time(runners: Runners) -> None:
    runner = await runners.start(one_job=OneJobSettings(0.3))
    assert await runner.ended() == one_job.NO_JOB_EXIT_CODE
    assert "no job came within 0.3 s" in runner.output


async def test_it_ends_at_once_if_its_token_is_not_valid(runners: Runners) -> None:
    runners.hub.token_status = 401
    runner = await runners.start(one_job=ONCE, client_secret=TOKEN)
    assert await runner.ended() == one_job.NO_JOB_EXIT_CODE
    assert "client id or secret is wrong" in runner.output
    assert len(runners.hub.forms) == 1


@pytest.mark.parametrize("code", ["credential_ended", "unauthenticated"])
async def test_a_token_that_ends_while_its_job_runs_does_not_end_the_runner_before_the_job(
    runners: Runners, code: str
) -> None:
    """Its executor has a credential of its own. If that is killed, the runner delivers with the same one."""
    runners.hub.outcome = AttemptOutcome("succeeded", 1)
    runner = await runners.start(one_job=ONCE, client_secret=TOKEN)
    peer = await runners.hub.peer()
    executor = await runners.grant(peer)
    runners.hub.token_status = 401
    await peer.send(Refused(code, "this token was for one job, and was revoked", is_final=True))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await peer.closed.wait()
    await executor.kill()
    await (await runners.executors.next()).tell("finish")
    assert await runner.ended() == 0


@pytest.mark.parametrize(("signals", "code"), [(1, 0), (2, one_job.UNDECIDED_EXIT_CODE)])
async def test_a_signal_lets_the_job_finish_and_a_second_one_leaves_it(
    runners: Runners, signals: int, code: int
) -> None:
    runners.hub.outcome = AttemptOutcome("succeeded", 1)
    runner = await runners.start(one_job=ONCE)
    peer = await runners.hub.peer()
    executor = await runners.grant(peer)
    runner.signal(TERM)
    await peer.receive(Heartbeat)
    if signals == 1:
        await executor.tell("finish")
    else:
        while "a second signal stops" not in runner.output:
            await asyncio.sleep(0.01)
        runner.signal(TERM)
    assert await runner.ended() == code
    assert (runners.attempts / "job_1.1").exists() == (signals == 2)


async def test_a_signal_before_there_is_a_job_ends_it_without_one(runners: Runners) -> None:
    runner = await runners.start(one_job=ONCE)
    await runners.hub.peer()
    runner.signal(TERM)
    assert await runner.ended() == one_job.NO_JOB_EXIT_CODE


@pytest.mark.parametrize("error", [Conflict("taken"), Incompatible("too old")])
async def test_an_error_that_makes_running_pointless_has_its_own_code(runners: Runners, error: Any) -> None:
    runners.hub.refusal = Refused(error.code, error.message, is_final=True)
    runner = await runners.start(one_job=ONCE)
    assert await runner.ended() == error.exit_code


async def test_an_outcome_that_the_server_does_not_tell_is_undecided(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_job, "ASK_SECONDS", 0.5)
    job = one_job.OneJob(ONCE, runners.hub.url)
    job.take(refs(("job_1", 1))[0], "hub-credential")
    assert await job.exit_code() == one_job.UNDECIDED_EXIT_CODE
    assert runners.hub.asked_with
