"""Two servers on one PostgreSQL: what one decides reaches whoever is connected to the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from terracrew.protocol import events, frames
from terracrew.protocol.spec import Step
from terracrew.server.app import build, close
from terracrew.server.hub.messenger import Messenger
from terracrew.server.jobs import service
from terracrew.server.settings import ServerSettings
from tests.server.app.world import KEY, World, open_world
from tests.server.hub.wire import Hub, listening
from tests.server.logs.crew import Crew

pytestmark = [pytest.mark.postgres, pytest.mark.feature("O3")]
STARTED = frames.pack(1, 1, events.pack_fact(events.StepStatus(Step.PLAN, "RUNNING"), Step.PLAN, 1.0))


@pytest.fixture
async def hubs(postgres_url: str, tmp_path: Path) -> AsyncIterator[tuple[Hub, Hub]]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(open_world(postgres_url, tmp_path / "one"))
        settings = ServerSettings(data_directory=tmp_path / "other", database_url=postgres_url, master_key=KEY)
        second = World(await build(settings), first.admin)
        stack.push_async_callback(close, second.server)
        one, other = [await stack.enter_async_context(listening(await Crew.make(each))) for each in (first, second)]
        other.share_credentials(one)
        for hub in (one, other):
            messenger = asyncio.create_task(Messenger(hub.server).run())
            stack.callback(messenger.cancel)
        yield one, other


@pytest.mark.feature("J5")
async def test_a_cancellation_on_one_server_reaches_an_executor_on_the_other(hubs: tuple[Hub, Hub]) -> None:
    one, other = hubs
    async with one.runner() as runner:
        granted = await runner.granted(await one.job())
        async with other.executor(granted) as executor:
            await service.cancel(one.server.db, one.crew.app.admin.principal, granted.spec.job_id, "kill")
            assert (await executor.get())["mode"] == "kill"


@pytest.mark.feature("R4")
async def test_an_instance_that_comes_back_to_another_server_has_left_the_first(hubs: tuple[Hub, Hub]) -> None:
    """Its old connection was offered every second job, and could claim none."""
    one, other = hubs
    async with one.runner() as old, other.runner() as new:
        assert (await old.get("refused"))["code"] == "superseded"
        await one.until(lambda: not one.server.registry.runners)
        await new.granted(await other.job())


@pytest.mark.feature("O6")
async def test_an_executor_that_comes_back_to_another_server_is_known_there_at_once(hubs: tuple[Hub, Hub]) -> None:
    one, other = hubs
    async with one.runner() as runner:
        granted = await runner.granted(await one.job())
        async with one.executor(granted) as executor:
            await executor.connection.send(STARTED)
            await executor.get("ack")
        async with other.executor(granted):
            (attempt,) = await one.crew.world.attempts(granted.spec.job_id)
            assert attempt.heard_at is not None
