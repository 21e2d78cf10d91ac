"""The fleet process: isolated, started when it is needed, and lost without a trace when it or its server is killed."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from terracrew.clouds.contract import CloudRefused
from terracrew.clouds.model import CloudIdentity, InstanceRefused, InstanceStarted, StartRequest
from terracrew.errors import Unavailable
from terracrew.executor.isolation import landlock
from terracrew.fleet.messages import CheckWork, DeployWork, RunJob, StepDone, WorkEvent
from terracrew.server.fleet_process import child
from terracrew.server.fleet_process import link as link_module
from terracrew.server.fleet_process.link import FleetLink, FleetLost
from terracrew.system import procfs
from tests.fleet.simulated_account import SimulatedAccount, deployment, identity

pytestmark = pytest.mark.feature("W4.fleet")
ROOT = Path(__file__).parents[3]
PROGRAM = ("tests.fleet.simulated_process",)


async def sign(of: CloudIdentity, is_probe: bool) -> str:
    return f"token of {of.subject}{' (probe)' if is_probe else ''}"


@pytest.fixture
async def account() -> AsyncGenerator[SimulatedAccount]:
    async with SimulatedAccount().serving() as serving:
        yield serving


@pytest.fixture
async def link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncGenerator[FleetLink]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    opened = FleetLink(sign, [tmp_path], program=PROGRAM)
    yield opened
    await opened.close()


def job(account: SimulatedAccount, attempt: int = 1) -> RunJob:
    return RunJob("fjb_1", attempt, identity(account), DeployWork(deployment(), "a token"))


async def test_calls_and_work_are_done_by_a_process_that_is_started_for_the_first_of_them(
    link: FleetLink, account: SimulatedAccount
) -> None:
    assert link.process_id is None, "a server without cloud-hosted runners has no such process"
    account.refusals["put task-two"] = "you have reached your quota"
    answers = await link.start(identity(account), deployment(), [StartRequest("one"), StartRequest("two")])
    assert answers == [
        InstanceStarted("one", "ref:rnr_1/task-one"),
        InstanceRefused("two", "quota", "you have reached your quota"),
    ]
    events: list[WorkEvent] = []
    ended = await link.run(job(account), events.append)
    assert (ended.outcome, ended.facts["role"]) == ("succeeded", "ref:rnr_1/role")
    assert [each.step for each in events if isinstance(each, StepDone)] == ["role", "logs", "definition"]
    assert [each.instance for each in await link.watch(identity(account), deployment(), [])] == ["one"]
    await link.stop(identity(account), deployment(), "ref:rnr_1/task-one", "nobody owns it")
    assert [each.name for each in await link.found(identity(account))] == account.made()
    assert "rnr_1/task-one" not in account.made()
    account.refusals["list all"] = "not authorized to list"
    with pytest.raises(CloudRefused, match="not authorized to list"):
        await link.found(identity(account))


async def test_what_a_cloud_says_has_nothing_that_a_database_refuses_or_a_terminal_obeys(
    link: FleetLink, account: SimulatedAccount
) -> None:
    account.refusals["put task-one"] = "no\0 \x1b]0;title\x07\x1b[2Jquota" + "!" * 5_000
    account.refusals["list all"] = "not\0 \x1b[31mauthorized"
    [answer] = await link.start(identity(account), deployment(), [StartRequest("one")])
    assert isinstance(answer, InstanceRefused)
    assert answer.words.startswith("no quota!!")
    assert len(answer.words) < 5_000
    with pytest.raises(CloudRefused) as refused:
        await link.found(identity(account))
    assert refused.value.message == "not authorized"


async def test_the_server_signs_for_identities_of_present_requests_alone(
    link: FleetLink, account: SimulatedAccount
) -> None:
    events: list[WorkEvent] = []
    ended = await link.run(RunJob("fjb_1", 1, identity(account), CheckWork()), events.append)
    assert ended.outcome == "succeeded"
    assert StepDone("fjb_1", 1, "sign_in", "", f"token of {identity(account).subject}") in events


async def test_a_process_that_hangs_is_killed_and_the_next_one_goes_on(
    link: FleetLink, account: SimulatedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its jobs would never end, and no instance would start again before a restart of the server."""
    monkeypatch.setattr(link_module, "PING_SECONDS", 0.1)
    monkeypatch.setattr(link_module, "MAX_UNANSWERED_COUNT", 30)
    account.hold("put logs")
    running = asyncio.create_task(link.run(job(account), lambda event: None))
    await account.arrived("put logs")
    assert link.process_id is not None
    os.kill(link.process_id, signal.SIGSTOP)
    async with asyncio.timeout(20):
        with pytest.raises(FleetLost, match="it hung, and was killed after 30 pings without an answer"):
            await running
    account.release("put logs")
    assert (await link.run(job(account, attempt=2), lambda event: None)).outcome == "succeeded"


async def test_a_killed_process_loses_its_work_and_the_next_one_goes_on(
    link: FleetLink, account: SimulatedAccount
) -> None:
    account.hold("put logs")
    running = asyncio.create_task(link.run(job(account), lambda event: None))
    await account.arrived("put logs")
    assert [each.name for each in await link.found(identity(account))] == ["rnr_1/role"], "calls do not wait for jobs"
    assert link.process_id is not None
    os.kill(link.process_id, signal.SIGKILL)
    with pytest.raises(FleetLost, match="signal 9"):
        await running
    account.release("put logs")
    ended = await link.run(job(account, 2), lambda event: None)
    assert ended.outcome == "succeeded"
    assert account.made() == ["rnr_1/definition", "rnr_1/logs", "rnr_1/role", "rnr_1/secret"]
    assert set(account.resources.values()) == {"fjb_1"}


async def test_the_process_ends_at_once_when_its_server_does_and_undoes_nothing(
    link: FleetLink, account: SimulatedAccount
) -> None:
    account.hold("put logs")
    running = asyncio.create_task(link.run(job(account), lambda event: None))
    await account.arrived("put logs")
    pid = link.process_id
    assert pid is not None
    await link.close()
    assert procfs.stat(pid) is None
    with pytest.raises(FleetLost):
        await running
    account.release("put logs")
    assert account.count("remove role") == 0


async def test_a_process_without_work_is_ended(monkeypatch: pytest.MonkeyPatch, account: SimulatedAccount) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    link = FleetLink(sign, [], program=PROGRAM, idle_seconds=0.0)
    await link.found(identity(account))
    async with asyncio.timeout(20):
        while link.process_id is not None:
            await asyncio.sleep(0.01)
    assert await link.found(identity(account)) == [], "it is started again"
    await link.close()


async def test_a_process_that_is_to_stay_ready_is_started_ahead_and_again_after_a_crash(
    link: FleetLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "READY_CHECK_SECONDS", 0.02)
    has_runners = asyncio.Event()
    ready = asyncio.create_task(link.stay_ready(has_runners.is_set))
    await asyncio.sleep(0.1)
    assert link.process_id is None
    has_runners.set()
    async with asyncio.timeout(20):
        while (pid := link.process_id) is None:
            await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        while link.process_id in (pid, None):
            await asyncio.sleep(0.01)
    ready.cancel()


async def test_something_that_is_no_message_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, account: SimulatedAccount
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    link = FleetLink(sign, [], program=("tests.fleet.hostile_process",))
    with pytest.raises(FleetLost, match="no message"):
        await link.run(job(account), lambda event: None)
    await link.close()


async def test_a_process_that_cannot_start_is_an_error_and_not_a_hang(account: SimulatedAccount) -> None:
    link = FleetLink(sign, [], program=("tests.fleet.there_is_no_such_module",))
    with pytest.raises(Unavailable, match="exit code 1"):
        await link.found(identity(account))
    await link.close()


def test_the_environment_of_the_process_has_no_secret_of_the_server() -> None:
    given = {
        "PATH": "/bin",
        "https_proxy": "http://proxy",
        "AWS_ROLE_ARN": "arn:aws:iam::1:role/server",
        "TERRACREW_SERVER__MASTER_KEY": "secret",
        "DATABASE_URL": "postgres://",
        "PGPASSWORD": "secret",
    }
    assert set(child.environment(given)) == {"PATH", "https_proxy", "AWS_ROLE_ARN"}


@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
async def test_the_process_cannot_read_the_data_directory_of_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, account: SimulatedAccount
) -> None:
    secret = tmp_path / "master.key"
    secret.write_text("secret")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("LC_PROBE", str(secret))
    link = FleetLink(sign, [tmp_path], program=("tests.fleet.reading_process",))
    with pytest.raises(CloudRefused, match="Permission denied"):
        await link.found(identity(account))
    await link.close()
