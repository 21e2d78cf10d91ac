"""What a runner says to its server, and what it does when the server refuses, vanishes or returns."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from terracrew import __version__, errors
from terracrew.attempt import record
from terracrew.protocol.messages import (
    ConfigureRunner,
    Credits,
    Drain,
    HandBack,
    Heartbeat,
    Refused,
    Renew,
)
from terracrew.runner.attempts.reports import Reports
from terracrew.runner.attempts.slots import Slots
from terracrew.runner.attempts.supervisor import AttemptSupervisor
from terracrew.runner.connection.hub_connection import HubConnection
from terracrew.runner.departure import Stop
from terracrew.runner.dispatch.dispatchers import Dispatchers
from terracrew.runner.dispatch.local.dispatcher import Local
from terracrew.runner.instance import LocalInstance
from tests.builders import fake_runner_hub
from tests.runner.conftest import TIMEOUT_SECONDS, Runners, granted, refs, until_gone


@pytest.mark.feature("A1.exchange", "A1.prefix", "C1.outbound", "C3.hello")
async def test_a_runner_gets_a_token_and_says_who_it_is(runners: Runners) -> None:
    _, peer = await runners.connected(capacity=7)
    assert runners.hub.forms == [
        {"grant_type": "client_credentials", "client_id": "org_1:sac_1", "client_secret": "secret"}
    ]
    assert peer.token == "token-1"
    hello = peer.hello
    assert (hello.runner_id, hello.instance, hello.capacity, hello.version) == ("rnr_1", "one", 7, __version__)
    assert (hello.attempts, hello.is_draining) == ([], False)
    key = runners.directory / "instance.key"
    assert hello.instance_key == key.read_text()
    assert len(hello.instance_key) == 64
    assert key.stat().st_mode & 0o777 == 0o600
    assert await peer.receive(Heartbeat) == Heartbeat(__version__, False, [])


@pytest.mark.feature("C3.hello", "J4.found")
async def test_a_runner_announces_the_engines_that_its_jobs_would_use(runners: Runners, tmp_path: Path) -> None:
    binary = tmp_path / "engines" / "tofu"
    binary.parent.mkdir()
    binary.write_text('#!/bin/sh\necho \'{"terraform_version": "9.8.7"}\'\n')
    binary.chmod(0o755)
    await runners.start(engine_paths=[str(binary.parent)])
    assert (await runners.hub.peer()).hello.engines["tofu"] == "9.8.7"


@pytest.mark.feature("R4.takeover")
async def test_a_returning_process_has_the_key_of_its_working_directory(runners: Runners) -> None:
    runner = await runners.start()
    first = await runners.hub.peer()
    await runner.kill()
    await runners.start()
    assert (await runners.hub.peer()).hello.instance_key == first.hello.instance_key


async def test_a_second_runner_on_one_working_directory_is_refused_and_the_first_undisturbed(
    runners: Runners,
) -> None:
    first = await runners.start()
    peer = await runners.hub.peer()
    second = await runners.start()
    assert await second.ended() == errors.Conflict.exit_code
    assert f"another runner (process {first.pid}) uses {runners.directory}" in second.output
    await peer.receive(Heartbeat)
    assert not peer.closed.is_set()


@pytest.mark.feature("C5.refused", "R4.one")
@pytest.mark.parametrize("kind", [errors.Conflict, errors.Incompatible])
async def test_what_no_retry_can_mend_ends_the_runner_with_its_error(
    runners: Runners, kind: type[errors.TerracrewError]
) -> None:
    runners.hub.refusal = Refused(kind.code, "instance one is connected", is_final=True)
    runner = await runners.start()
    assert await runner.ended() == kind.exit_code
    assert "instance one is connected" in runner.output


@pytest.mark.feature("R4.takeover")
async def test_a_conflict_after_a_welcome_is_an_old_connection_of_ours_and_tried_again(
    runners: Runners,
) -> None:
    _, peer = await runners.connected()
    runners.hub.refusal = Refused("conflict", "instance one is connected", is_final=True)
    await peer.hang_up()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await runners.hub.has_refused.wait()
    runners.hub.refusal = None
    await runners.hub.peer()


@pytest.mark.feature("O1.reconnect")
async def test_a_token_that_is_refused_is_replaced(runners: Runners) -> None:
    _, peer = await runners.connected()
    await peer.send(Refused("unauthenticated", "the secret was revoked", is_final=True))
    await peer.hang_up()
    assert (await runners.hub.peer()).token == "token-2"


@pytest.mark.feature("A6.renewal")
async def test_a_token_is_renewed_before_it_expires_on_the_open_connection(runners: Runners) -> None:
    runners.hub.expires_in = 0.5
    _, peer = await runners.connected()
    assert (await peer.receive(Renew)).token == "token-2"
    assert not peer.closed.is_set()


@pytest.mark.feature("O1.reconnect")
async def test_a_runner_goes_on_asking_until_its_credentials_are_accepted(runners: Runners) -> None:
    runners.hub.token_status = 401
    runner = await runners.start()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while len(runners.hub.forms) < 2:
            await asyncio.sleep(0.01)
    assert "client id or secret is wrong" in runner.output
    runners.hub.token_status = 200
    await runners.hub.peer()


@pytest.mark.feature("O1.continues", "O1.reconnect")
async def test_a_runner_reconnects_by_itself_and_jobs_go_on_meanwhile(runners: Runners, tmp_path: Path) -> None:
    async with fake_runner_hub.serving() as passing:
        await runners.start(server_url=passing.url)
        executor = await runners.grant(await passing.peer())
    async with fake_runner_hub.serving(int(passing.url.rpartition(":")[2])) as back:
        peer = await back.peer()
        assert peer.hello.attempts == refs(("job_1", 1))
        await executor.tell("finish")
        await until_gone(runners.attempts / "job_1.1")


@pytest.mark.feature("T1.paths")
async def test_a_runner_that_knows_only_its_path_uses_the_id_of_its_first_welcome(runners: Runners) -> None:
    """A runner that is moved while it runs keeps its id, so a broken connection does not end it."""
    runners.hub.welcome = msgspec.structs.replace(runners.hub.welcome, runner_id="rnr_7")
    _, peer = await runners.connected(runner_id="", runner_path="spectre/impatient")
    assert (peer.hello.runner_id, peer.hello.runner_path) == ("", "spectre/impatient")
    await peer.hang_up()
    assert (await runners.hub.peer()).hello.runner_id == "rnr_7"


@pytest.mark.feature("D2.variables")
async def test_executors_are_given_their_own_address_of_the_server(runners: Runners) -> None:
    _, peer = await runners.connected(executor_server_url="http://127.0.0.1:9")
    executor = await runners.grant(peer)
    assert record.read(runners.attempts / "job_1.1").server_url == "http://127.0.0.1:9"
    await executor.tell("finish")


@pytest.mark.feature("C2.offers", "C3.claims", "S3.offers")
async def test_a_credit_is_sent_for_each_free_slot_and_the_next_when_one_is_free_again(runners: Runners) -> None:
    _, peer = await runners.connected(capacity=1)
    assert await peer.receive(Credits) == Credits(1, 0)
    executor = await runners.grant(peer, "job_1")
    await peer.receive(Heartbeat)
    await peer.receive(Heartbeat)
    assert len(peer.received(Credits)) == 1
    await executor.tell("finish")
    assert await peer.receive(Credits) == Credits(1, 1)


@pytest.mark.feature("C3.claims")
async def test_a_grant_for_which_there_is_no_slot_is_handed_back(runners: Runners) -> None:
    _, peer = await runners.connected(capacity=1)
    await runners.grant(peer, "job_1")
    await peer.send(granted("job_2"))
    assert (await peer.receive(HandBack)).job_id == "job_2"
    assert not (runners.attempts / "job_2.1").exists()


async def test_a_grant_whose_id_is_a_path_is_not_taken(runners: Runners) -> None:
    _, peer = await runners.connected()
    await peer.send(granted("../../evil"))
    await runners.grant(peer, "job_1")
    assert [entry.name for entry in runners.attempts.iterdir()] == ["job_1.1"]


@pytest.mark.feature("C2.configuration")
async def test_the_server_sets_heartbeat_and_log_level_of_a_running_runner(runners: Runners) -> None:
    runners.hub.welcome = msgspec.structs.replace(runners.hub.welcome, heartbeat_seconds=3600)
    runner, peer = await runners.connected()
    quiet = {"terracrew.runner.connection.hub_connection": "None", "a.level.of.a.newer.server": "Whisper"}
    runners.hub.welcome = msgspec.structs.replace(runners.hub.welcome, heartbeat_seconds=0.05, log_level=quiet)
    await peer.send(ConfigureRunner(heartbeat_seconds=0.05, log_level=quiet))
    await peer.receive(Heartbeat)
    await peer.receive(Heartbeat)
    before = runner.output
    await peer.send(Drain(on=True))
    await peer.hang_up()
    peer = await runners.hub.peer()
    assert "terracrew.runner.connection.hub_connection" in before
    assert runner.output == before
    await peer.send(ConfigureRunner(heartbeat_seconds=0.05))
    await peer.send(Drain(on=False))
    await peer.receive(Heartbeat)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while "take jobs again" not in runner.output:
            await peer.receive(Heartbeat)


async def test_a_server_that_says_what_the_runner_does_not_understand_is_left_and_tried_again(
    runners: Runners,
) -> None:
    runner, peer = await runners.connected()
    await peer.send(Drain("not a truth value"))  # pyright: ignore[reportArgumentType]
    await runners.hub.peer()
    assert "does not understand" in runner.output


@pytest.mark.feature("C5.negotiated")
async def test_a_message_of_a_type_that_only_newer_runners_know_is_passed_over(runners: Runners) -> None:
    """It ended the connection, which was opened again, and ended by the next one: the runner was half served for ever."""
    runner, peer = await runners.connected()
    await peer.send(Renew("a server does not say this"))
    await peer.send(Drain(on=True))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while "take no new jobs" not in runner.output:
            await peer.receive(Heartbeat)
    assert "only newer runners know" in runner.output
    assert not peer.closed.is_set()


@pytest.mark.feature("C1.outbound")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can see the sockets of a process that forbids inspection")
async def test_a_runner_listens_nowhere(runners: Runners) -> None:
    runner = await runners.start()
    await (await runners.hub.peer()).receive(Heartbeat)
    mine = {os.readlink(f"/proc/{runner.pid}/fd/{name}") for name in os.listdir(f"/proc/{runner.pid}/fd")}
    listening = set[str]()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            state, inode = line.split()[3], line.split()[9]
            if state in ("0A", "07"):
                listening.add(f"socket:[{inode}]")
    assert listening  # the test's own server
    assert not mine & listening


async def test_reports_do_not_pile_up_while_there_is_no_connection(runners: Runners) -> None:
    """Symptom: every open report was queued again every ten seconds for a connection that no longer existed."""
    config, slots, reports = runners.config(), Slots(1), Reports()
    instance = LocalInstance(config.working_directory)
    dispatcher = Local(config.executor_entry, {**os.environ, **runners.environment})
    try:
        async with asyncio.TaskGroup() as tasks:
            supervisor = AttemptSupervisor(config, instance, Dispatchers.only(dispatcher), slots, reports, {}, tasks)
            connection = HubConnection(config, instance.key, supervisor, slots, reports, Stop(), lambda _: None)
            delivering = tasks.create_task(reports.deliver(HandBack("job_1", 1, "no executor")))
            _, ended = await asyncio.gather(_hang_up(runners.hub), connection.step(), return_exceptions=True)
            assert isinstance(ended, errors.Unreachable)
            for _ in range(1000):
                reports.repeat()
            assert connection.queue is None
            delivering.cancel()
    finally:
        await dispatcher.close()
        instance.release()


async def _hang_up(hub: fake_runner_hub.FakeRunnerHub) -> None:
    peer = await hub.peer()
    await peer.receive(HandBack)
    await peer.hang_up()


@pytest.mark.feature("O1.reconnect")
@pytest.mark.parametrize("status", [200, 302, 401, 403, 404, 409, 426, 502])
@pytest.mark.parametrize("at", ["token", "handshake"])
async def test_a_proxy_that_answers_instead_of_the_server_does_not_stop_a_runner(
    runners: Runners, at: str, status: int
) -> None:
    """A proxy's 426 or 409 at the token endpoint ended the runner, as if the server itself had refused it for good."""
    runners.hub.foreign[at] = status
    runner = await runners.start()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await runners.hub.has_answered_foreign.wait()
        while "between here and the server" not in runner.output:
            await asyncio.sleep(0.01)
    runners.hub.foreign.clear()
    await runners.hub.peer()
    assert f"answered {status}" in runner.output
