"""An upload in parts succeeds when a balancer sends every request to another of two servers."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from terracrew.protocol.transfers import PART_BYTES
from terracrew.server.app import build, close
from tests.builders.deliveries import RUNNING
from tests.server.application import Application, attached_app, open_application, settings_for
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner
from tests.server.state.stored_states import content

pytestmark = pytest.mark.postgres
LARGE = content(1, 3 << 20)


@pytest.fixture
async def crews(postgres_url: str, tmp_path: Path) -> AsyncIterator[tuple[SimulatedRunner, SimulatedRunner]]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(open_application(postgres_url, tmp_path / "one"))
        settings = settings_for(tmp_path / "other", postgres_url, object_store=first.server.settings.objects)
        server = await build(settings)
        second = Application(server, stack.enter_context(attached_app(server)), first.admin)
        stack.push_async_callback(close, second.server)
        yield await SimulatedRunner.make(first), await SimulatedRunner.make(second)


async def test_each_part_may_go_to_another_server(crews: tuple[SimulatedRunner, SimulatedRunner]) -> None:
    one, other = crews
    attempt = await one.run(kind="APPLY")
    there = SimulatedAttempt(other, attempt.ref, attempt.credentials, attempt.module_id)
    await attempt.deliver(RUNNING)
    await attempt.begin()
    body = attempt.seal(LARGE)
    wanted = {"target": "states/2", "sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}
    staged = (await attempt.executor.put(f"{attempt.path}/uploads", json=wanted)).json()
    for index in range(5):
        part = body[index * PART_BYTES : (index + 1) * PART_BYTES]
        to = (attempt, there)[index % 2]
        assert (await to.executor.put(f"{to.path}/uploads/{staged['id']}/{index}", content=part)).status_code == 204
    for to in (there, attempt):  # the answer to the first one was lost, and it is repeated elsewhere
        named = {"X-Upload": staged["id"]}
        assert (await to.executor.put(f"{to.path}/states/2", content=b"", headers=named)).status_code == 204
    assert await attempt.write(LARGE, is_inline=False) == 2
    assert (await one.app.admin.get(f"/api/v1/modules/{attempt.module_id}/state")).content == LARGE
