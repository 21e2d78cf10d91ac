"""A runner with several dispatchers: a job gets the one that it asks for, and nothing that the allow-list does not have."""

import msgspec
import pytest

from terracrew.attempt import files
from terracrew.protocol.dispatcher_choice import AllowedChoices, DispatcherChoice, OfferedDispatcher
from terracrew.protocol.messages import Gone, Granted, HandBack, Heartbeat
from terracrew.runner.config import NamedDispatcher
from tests.builders.fake_runner_hub import Peer
from tests.runner.conftest import Runners, granted, refs, until_gone
from tests.runner.scripted_executors import ScriptedExecutor

ALLOWS = AllowedChoices(["registry.example/team/*"], 1024)
SECOND = NamedDispatcher("second", "local", allows=ALLOWS, executor_server_url="http://server.inside")


def asking(choice: DispatcherChoice) -> Granted:
    plain = granted()
    return msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, choice=choice))


async def grant(runners: Runners, peer: Peer, choice: DispatcherChoice) -> ScriptedExecutor:
    await give(peer, choice)
    return await runners.executors.next()


async def give(peer: Peer, choice: DispatcherChoice) -> None:
    await peer.send(asking(choice))


@pytest.mark.feature("D1.asked")
async def test_a_runner_announces_its_dispatchers_with_what_they_allow_and_their_engines(runners: Runners) -> None:
    _, peer = await runners.connected(named_dispatchers=[SECOND])
    default, second = peer.hello.dispatchers
    assert default == OfferedDispatcher("default", "local", engines=peer.hello.engine_versions)
    assert second == OfferedDispatcher("second", "local", ALLOWS, peer.hello.engine_versions)


@pytest.mark.feature("D1.asked", "O4.adopted")
async def test_the_dispatcher_that_started_an_attempt_adopts_it_after_a_restart(runners: Runners) -> None:
    runner, peer = await runners.connected(named_dispatchers=[SECOND])
    executor = await grant(runners, peer, DispatcherChoice("second", "registry.example/team/x", 512))
    assert (runners.attempts / "job_1.1" / files.DISPATCHER).read_text() == "second local"
    assert executor.facts["server_url"] == "http://server.inside"
    await runner.kill()
    _, peer = await runners.connected(named_dispatchers=[SECOND])
    assert (await peer.receive(Heartbeat)).attempts == refs(("job_1", 1))
    await executor.tell("finish")
    await until_gone(runners.attempts / "job_1.1")
    assert not peer.received(Gone)
    assert not peer.received(HandBack)


@pytest.mark.feature("D1.asked", "O4.adopted")
async def test_an_attempt_of_a_dispatcher_that_is_no_longer_configured_is_left_alone(runners: Runners) -> None:
    runner, peer = await runners.connected(named_dispatchers=[SECOND])
    executor = await grant(runners, peer, DispatcherChoice("second"))
    await runner.kill()
    without, peer = await runners.connected()
    while (await peer.receive(Heartbeat)).attempts:
        pass
    assert "another dispatcher started" in without.output
    assert (runners.attempts / "job_1.1" / files.PID).exists()
    assert not peer.received(HandBack)
    assert not peer.received(Gone)
    await without.kill()
    _, peer = await runners.connected(named_dispatchers=[SECOND])
    await executor.tell("finish")
    await until_gone(runners.attempts / "job_1.1")


@pytest.mark.feature("D1.allowed")
@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (DispatcherChoice("third"), "this runner has no dispatcher third; it has default, second"),
        (
            DispatcherChoice("second", "evil.example/image"),
            "the dispatcher second of this runner does not allow the image evil.example/image "
            "(allowed: registry.example/team/*)",
        ),
        (
            DispatcherChoice("second", memory_mb=4096, service_account="admin"),
            "the dispatcher second of this runner does not allow 4096 MB of memory (allowed: up to 1024 MB); "
            "the service account admin (allowed: none)",
        ),
        (
            DispatcherChoice(image="registry.example/team/x"),
            "the dispatcher default of this runner does not allow the image registry.example/team/x (allowed: none)",
        ),
    ],
)
async def test_a_server_that_grants_what_is_not_allowed_gets_the_job_back_and_nothing_is_started(
    runners: Runners, choice: DispatcherChoice, reason: str
) -> None:
    _, peer = await runners.connected(named_dispatchers=[SECOND])
    await give(peer, choice)
    assert (await peer.receive(HandBack)).reason == reason
    await runners.settle(peer)
    assert runners.executors.is_empty
    assert list(runners.attempts.iterdir()) == []
