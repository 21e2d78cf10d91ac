"""What operators configure for a runner reaches its connections and the executors of its attempts."""

import asyncio

import msgspec
import pytest

from terracrew.api.runners import Configuration
from terracrew.protocol import messages
from terracrew.server.hub.notify import HubNotifier
from tests.builders.job_rows import change_runners
from tests.server.hub.hub_clients import Hub, executor_hello, ref_of, refusal


async def configure(hub: Hub, change: object) -> None:
    answer = await hub.crew.app.admin.patch("/api/v1/runners/crew", json={"configuration": change})
    assert answer.status_code == 200, answer.text


async def woken(hub: Hub) -> None:
    await HubNotifier(hub.server.hub.runners).step({("runners", hub.runner_id), ("configuration", hub.runner_id)})


@pytest.mark.feature("C2.configuration")
async def test_a_connected_runner_is_told_what_concerns_it_and_once(hub: Hub) -> None:
    async with hub.runner() as runner:
        await configure(hub, {"heartbeat_seconds": 2, "log_level": {"Default": "Debug"}})
        for _ in range(2):
            await woken(hub)
        told = {"type": "configure", "heartbeat_seconds": 2.0, "log_level": {"Default": "Debug"}}
        assert await runner.get() == told
        await configure(hub, {"period_seconds": 1})  # nothing to its connection
        await woken(hub)
        await configure(hub, None)
        await woken(hub)
        assert await runner.get() == {"type": "configure", "heartbeat_seconds": 10.0, "log_level": {}}


@pytest.mark.feature("C2.configuration")
async def test_a_runner_that_comes_later_finds_its_configuration_in_the_welcome(hub: Hub) -> None:
    await configure(hub, {"heartbeat_seconds": 1, "log_level": {"terracrew.runner": "Trace"}})
    async with hub.connected(await hub.token()) as runner:
        welcome = await runner.ask(hub.hello())
        assert (welcome["heartbeat_seconds"], welcome["log_level"]) == (1.0, {"terracrew.runner": "Trace"})


async def test_a_wake_up_that_was_lost_costs_only_time(hub: Hub) -> None:
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
        async with hub.executor(granted) as executor:
            await configure(hub, {"heartbeat_seconds": 2, "batch_size_limit": 7})
            for _ in range(2):
                await HubNotifier(hub.server.hub.runners).sweep()
            assert (await runner.get("configure"))["heartbeat_seconds"] == 2.0
            assert (await executor.get())["log_settings"]["batch_size_limit"] == 7


@pytest.mark.feature("C2.configuration", "L2.watched")
async def test_the_log_settings_reach_executors_and_a_watcher_still_wins(hub: Hub) -> None:
    """When somebody began or ceased to watch, the configured log settings were lost."""
    log_settings = {"is_watched": False, "batch_size_limit": 500, "period_seconds": 30.0}
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
        async with hub.executor(granted) as executor:
            await configure(hub, {"batch_size_limit": 500, "period_seconds": 30})
            await woken(hub)
            assert (await executor.get("configure"))["log_settings"] == log_settings
            with hub.server.watchers.watching(granted.spec.job_id):
                assert (await executor.get("configure"))["log_settings"] == log_settings | {"is_watched": True}
                await configure(hub, {"period_seconds": 60})
                await woken(hub)
                told = (await executor.get("configure"))["log_settings"]
                assert told == log_settings | {"is_watched": True, "period_seconds": 60.0}
            assert (await executor.get("configure"))["log_settings"] == log_settings | {"period_seconds": 60.0}
        async with hub.connected(granted.credentials.hub) as executor:
            assert (await executor.ask(executor_hello(ref_of(granted))))["log_settings"] == log_settings | {
                "period_seconds": 60.0
            }
            await configure(hub, None)
            await woken(hub)
            own = {"is_watched": False, "batch_size_limit": None, "period_seconds": None}
            assert (await executor.get("configure"))["log_settings"] == own


async def test_an_executor_of_a_removed_runner_is_welcome_and_keeps_its_own_cadence(hub: Hub) -> None:
    async with hub.runner() as runner:
        await configure(hub, {"batch_size_limit": 500})
        granted = await runner.granted(await hub.job())
        answer = await hub.crew.app.admin.delete("/api/v1/runners/crew", params={"force": True})
        assert answer.status_code == 200, answer.text
        await HubNotifier(hub.server.hub.runners).step({("runners", hub.runner_id), ("access", hub.runner_id)})
        assert await refusal(runner) == ("removed", True)
        async with hub.connected(granted.credentials.hub) as executor:
            welcome = await executor.ask(executor_hello(ref_of(granted)))
            assert (welcome["is_superseded"], welcome["log_settings"]["batch_size_limit"]) == (False, None)


@pytest.mark.feature("R7.remove")
async def test_who_comes_back_for_a_removed_runner_is_told_that_it_was_removed(hub: Hub) -> None:
    token = await hub.token()
    async with hub.connected(token) as late:
        await hub.server.identity.tokens.principal(token)
        answer = await hub.crew.app.admin.delete("/api/v1/runners/crew")
        assert answer.status_code == 200, answer.text
        await late.send(hub.hello())
        assert await refusal(late) == ("removed", True)


@pytest.mark.feature("A6.revocation")
async def test_a_credential_that_is_revoked_between_the_connection_and_its_hello_is_not_served(hub: Hub) -> None:
    """It was nobody's connection yet when it was revoked, and everybody's when it was not looked at any more."""
    async with hub.connected(await hub.token()) as runner:
        # A message of this connection has been answered, so its credential has been checked.
        async with asyncio.timeout(10):
            await (await runner.connection.ping())
        await change_runners(hub.server.db, worker_token_sha256="another")
        await HubNotifier(hub.server.hub.runners).step({("access", hub.runner_id)})
        await runner.send(hub.hello())
        assert await refusal(runner) == ("unauthenticated", True)
    assert not hub.server.registry.runners


@pytest.mark.feature("A6.revocation")
async def test_the_end_of_one_secret_does_not_disturb_the_connections_of_another(hub: Hub) -> None:
    """All connections of the account ended and came again."""
    admin, tokens = hub.crew.app.admin, hub.server.identity.tokens
    account = (await admin.made("/api/v1/service-accounts", {"name": "crew"}))["id"]
    secrets = [await admin.made(f"/api/v1/service-accounts/{account}/secrets", {}) for _ in range(2)]
    options = {"service_account": account, "allow_multiple_instances": True}
    runner_id = (await admin.made("/api/v1/runners", {"name": "own", **options}))["id"]
    first, second = [
        (await tokens.exchange(each["client_id"], each["client_secret"], "127.0.0.1")).access_token for each in secrets
    ]
    async with hub.connected(first) as ending, hub.connected(second) as staying:
        for name, client in (("ending", ending), ("staying", staying)):
            hello = hub.hello(runner_id=runner_id, instance=name)
            assert (await client.ask(hello))["type"] == "welcome"
        answer = await admin.delete(f"/api/v1/service-accounts/{account}/secrets/{secrets[0]['id']}")
        assert answer.status_code == 204
        await HubNotifier(hub.server.hub.runners).step({("access", account)})
        assert await refusal(ending) == ("unauthenticated", True)
        await staying.send(messages.HandBack("job_" + "0" * 32, 1, "an answer says that it is still heard"))
        assert (await staying.get())["type"] == "settled"


@pytest.mark.feature("C2.configuration")
def test_the_configuration_of_a_record_of_before_is_the_runners_own() -> None:
    assert msgspec.json.decode(b"{}", type=Configuration) == Configuration()
