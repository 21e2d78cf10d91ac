"""From the grant to the removal of the directory, through crashes of every process involved."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from terracrew.attempt import directories, ownership, process_record
from terracrew.protocol.messages import CancelAttempt, Gone, HandBack, Heartbeat, Settled
from tests.runner.conftest import TIMEOUT_SECONDS, Runners, granted, refs, until_gone, until_reported


@pytest.mark.feature("C3.journal", "J14.ids")
async def test_a_grant_is_journaled_before_its_executor_runs_and_its_directory_goes_when_it_is_done(
    runners: Runners,
) -> None:
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    directory = runners.attempts / "job_1.1"
    assert executor.facts["journal"]
    assert executor.facts["cwd"] == str(directory)
    assert executor.facts["session"] == executor.pid
    record = directory / "attempt.json"
    assert record.stat().st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700
    assert json.loads(record.read_bytes())["hub"] == "hub-credential"
    await until_reported(peer, ("job_1", 1))
    await executor.tell("finish")
    await until_gone(directory)
    while (await peer.receive(Heartbeat)).attempts:
        pass
    assert not list((runners.directory / ".temp").glob("*/*"))
    assert not peer.received(Gone)
    assert "secret" not in runner.output


@pytest.mark.feature("L1.levels")
@pytest.mark.parametrize("level", ["Information", "Warning"])
async def test_the_runner_logs_when_a_job_is_picked_up_starts_and_ends(runners: Runners, level: str) -> None:
    """The diagnostics of a runner said nothing about any job, at no level."""
    runner, peer = await runners.connected(log_level={"terracrew.runner.jobs": level})
    executor = await runners.grant(peer)
    await executor.tell("finish")
    await until_gone(runners.attempts / "job_1.1")
    lines = [line.partition(" terracrew.runner.jobs: ")[2] for line in runner.output.splitlines()]
    found = [line.partition(" took=")[0] for line in lines if line]
    job = "job=1 attempt=1 module=a/m id=job_1"
    assert found == (
        [f"job picked up {job} type=PLAN engine=tofu", f"job started {job} dispatcher=local", f"job ended {job}"]
        if level == "Information"
        else []
    )


@pytest.mark.feature("D6.token")
async def test_an_executor_inherits_nothing_of_the_runner_or_of_its_siblings(runners: Runners) -> None:
    runners.environment |= {"TERRACREW_RUNNER__CREDENTIALS__CLIENT_SECRET": "secret", "AWS_PROFILE": "prod"}
    _, peer = await runners.connected()
    first = await runners.grant(peer, "job_1")
    second = await runners.grant(peer, "job_2")
    for executor in (first, second):
        # Its own lock and its own connection, and nothing else.
        lock, connection = (
            sorted(executor.facts["descriptors"]) if len(executor.facts["descriptors"]) == 2 else ("", "")
        )
        assert lock == f"{executor.facts['directory']}/lock", executor.facts["descriptors"]
        assert connection.startswith("socket:")
        assert executor.facts["environment"]["AWS_PROFILE"] == "prod"
        assert not [name for name in executor.facts["environment"] if name.startswith("TERRACREW_")]
        assert not [name for name in executor.facts["own_environment"] if name.startswith("TERRACREW_")]
    await first.tell("finish")
    await second.tell("finish")


@pytest.mark.feature("O4.adopted")
async def test_an_executor_outlives_a_killed_runner_and_is_adopted_by_the_next(runners: Runners) -> None:
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    await runner.kill()
    _, peer = await runners.connected()
    assert peer.hello.attempts == refs(("job_1", 1))
    assert (await peer.receive(Heartbeat)).attempts == refs(("job_1", 1))
    await executor.tell("finish")
    await until_gone(runners.attempts / "job_1.1")
    assert not peer.received(Gone)
    assert not peer.received(HandBack)
    assert runners.executors.is_empty


async def test_a_cancel_through_the_runner_interrupts_an_orphaned_engine(runners: Runners, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    _, peer = await runners.connected()
    executor = await runners.grant(peer)
    engine = (await executor.tell(f"engine {fifo}"))["engine"]
    pidfd = os.pidfd_open(engine)
    await executor.kill()
    await peer.receive(Heartbeat)
    await peer.send(CancelAttempt("job_1", 1, "interrupt"))
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(pidfd, ended.set)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await ended.wait()
    asyncio.get_running_loop().remove_reader(pidfd)
    os.close(pidfd)
    assert (await runners.executors.next()).facts["is_salvage"]


@pytest.mark.feature("C2.cancellation", "J9.modes")
async def test_a_cancel_through_the_runner_interrupts_the_executor(runners: Runners) -> None:
    _, peer = await runners.connected()
    executor = await runners.grant(peer)
    await peer.send(CancelAttempt("job_1", 1, "after_step"))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (told := (await executor.tell("told"))["told"]):
            # An executor may be there before its runner has heard of the fork. Until then the runner leaves a cancellation to
            # the executor's own connection, which this executor does not have.
            await peer.send(CancelAttempt("job_1", 1, "interrupt"))
            await peer.receive(Heartbeat)
    assert set(told) == {"SIGTERM"}
    await executor.tell("finish")


@pytest.mark.feature("O4.adopted")
async def test_a_grant_without_a_process_is_handed_back_and_its_directory_goes(runners: Runners) -> None:
    runners.attempts.mkdir()
    directories.create(runners.attempts, granted(), runners.hub.url)
    (runners.attempts / "job_2.3").mkdir()  # the disk had not even got the record
    _, peer = await runners.connected()
    assert peer.hello.attempts == refs(("job_1", 1), ("job_2", 3))
    handed = {(back.job_id, back.attempt) for back in [await peer.receive(HandBack), await peer.receive(HandBack)]}
    assert handed == {("job_1", 1), ("job_2", 3)}
    await peer.send(Settled("job_1", 1))
    await peer.send(Settled("job_2", 3))
    await until_gone(runners.attempts / "job_1.1")
    await until_gone(runners.attempts / "job_2.3")
    assert runners.executors.is_empty


@pytest.mark.feature("O4.adopted")
async def test_a_process_that_only_has_the_number_of_the_executor_is_not_adopted(runners: Runners) -> None:
    directory = runners.directory_of_attempt()
    mine = process_record.of(os.getpid())
    stranger = process_record.ProcessRecord(mine.pid, mine.start_time - 1, mine.boot_id)
    assert ownership.sign(directory, stranger)
    await runners.start()
    salvage = await runners.executors.next()
    assert salvage.facts["is_salvage"]
    await salvage.tell("exit 0")


@pytest.mark.feature("C3.claims")
async def test_a_hand_back_that_was_not_acknowledged_is_said_again_on_the_next_connection(
    runners: Runners,
) -> None:
    runners.attempts.mkdir()
    directories.create(runners.attempts, granted(), runners.hub.url)
    _, peer = await runners.connected()
    await peer.receive(HandBack)
    await peer.hang_up()
    peer = await runners.hub.peer()
    assert peer.hello.attempts == refs(("job_1", 1))
    assert (await peer.receive(HandBack)).job_id == "job_1"


@pytest.mark.feature("J14.scratch")
@pytest.mark.parametrize("code", [0, 3])
async def test_a_workspace_goes_with_its_attempt_or_is_kept_with_it(runners: Runners, code: int) -> None:
    _, peer = await runners.connected()
    executor = await runners.grant(peer)
    assert executor.facts["workspaces"] == str(runners.workspaces)
    other = runners.workspaces / "job_1.2"  # another attempt's
    other.mkdir()
    # A plan of attempt 1 is applied where it was made, so the name is no sign of whose it is.
    workspace = runners.workspace("job_1.1", "job_1.7")
    engine_directory = runners.directory / "engine-files" / "job_1.1"
    (engine_directory / "produced").mkdir(parents=True)
    (workspace / "read-only").mkdir()
    (workspace / "read-only" / "errored.tfstate").write_text("the only copy")
    (workspace / "read-only").chmod(0o500)
    if code == 0:
        await executor.tell("finish")
    else:
        await executor.kill()
        await (await runners.executors.next()).tell("exit 3")
        await peer.receive(Gone)
        assert workspace.exists(), "nothing goes before the server has settled it"
        await peer.send(Settled("job_1", 1))
    await until_gone(runners.attempts / "job_1.1")
    assert not workspace.exists()
    assert not engine_directory.exists()
    assert other.exists()
    kept = runners.directory / "undelivered" / "job_1.1" / "workspace" / "read-only" / "errored.tfstate"
    assert kept.exists() == (code == 3)


@pytest.mark.feature("J14.scratch")
async def test_a_runner_that_starts_removes_the_workspaces_of_attempts_that_are_no_more(
    runners: Runners,
) -> None:
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    mine = runners.workspace("job_1.1", "job_1.1")
    await runner.kill()
    for orphan in ("job_9.1", "something"):
        (runners.workspaces / orphan / "below").mkdir(parents=True)
        (runners.directory / "engine-files" / orphan / "below").mkdir(parents=True)
    (runners.workspaces / "link").symlink_to(runners.directory)
    _, peer = await runners.connected()
    await peer.receive(Heartbeat)
    assert sorted(path.name for path in runners.workspaces.iterdir()) == ["job_1.1", "link"]
    assert not list((runners.directory / "engine-files").iterdir())
    await executor.tell("finish")
    await until_gone(runners.attempts / "job_1.1")
    assert not mine.exists()


@pytest.mark.feature("X4.isolation")
async def test_a_link_that_leads_elsewhere_is_not_followed_when_an_attempt_is_cleaned_up(
    runners: Runners, tmp_path: Path
) -> None:
    await runners.start()
    executor = await runners.grant(await runners.hub.peer())
    precious = tmp_path / "precious"
    precious.mkdir()
    (runners.attempts / "job_1.1" / "workspace").symlink_to(f"{runners.workspaces}/../../precious")
    await executor.tell("finish")
    await until_gone(runners.attempts / "job_1.1")
    assert precious.exists()


async def test_an_attempt_that_was_done_is_only_cleaned_up(runners: Runners) -> None:
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    await runner.kill()
    await executor.tell("finish")
    directory = runners.attempts / "job_1.1"
    (directory / "workspace").mkdir()
    (directory / "workspace" / "read-only").mkdir()
    (directory / "workspace" / "read-only" / "file").touch()
    (directory / "workspace" / "read-only").chmod(0o500)
    _, peer = await runners.connected()
    await until_gone(directory)
    assert not peer.received(HandBack)
    assert not peer.received(Gone)


async def test_the_helper_process_is_started_again_and_running_executors_go_on(runners: Runners) -> None:
    runner, peer = await runners.connected()
    first = await runners.grant(peer, "job_1")
    helper = first.facts["helper"]
    os.kill(helper, signal.SIGKILL)
    await runner.until_logged("has died")  # a grant that is sent to a helper that dies is handed back
    second = await runners.grant(peer, "job_2")
    assert second.facts["helper"] != helper
    assert _parent(second.facts["helper"]) == runner.pid
    for executor, name in ((first, "job_1.1"), (second, "job_2.1")):
        await executor.tell("finish")
        await until_gone(runners.attempts / name)


async def test_a_runner_whose_executors_cannot_start_hands_back_and_asks_for_pauses(runners: Runners) -> None:
    _, peer = await runners.connected(executor_entry="tests.runner.no_such_module:run")
    for number, pauses in ((1, (5.0, 5.0)), (2, (10.0, 0.0))):
        await peer.send(granted("job_1", number))
        back = await peer.receive(HandBack)
        assert "starts executors" in back.reason
        assert (back.pause_seconds, back.choice_pause_seconds) == pauses
        await runners.settle(peer, attempt=number)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.feature("O4.adopted")
@pytest.mark.parametrize("who", ["executor", "salvage"])
async def test_an_attempt_of_which_nothing_is_left_is_reported_as_not_delivered(runners: Runners, who: str) -> None:
    _, peer = await runners.connected()
    executor = await runners.grant(peer)
    if who == "salvage":
        await executor.kill()
        executor = await runners.executors.next()
    await executor.tell("exit 74")
    gone = await peer.receive(Gone)
    assert gone.saw_process
    assert not gone.is_delivered
    assert gone.last is None
    await peer.send(Settled("job_1", 1))
    await until_gone(runners.attempts / "job_1.1")
    assert not list((runners.directory / "undelivered").iterdir())
    assert runners.executors.is_empty
