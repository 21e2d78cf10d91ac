"""Large states that arrive at once take turns in memory, and are never on the disk as they are."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

import pytest

from terracrew.errors import TooLarge
from terracrew.server.terminals import state_bodies
from terracrew.server.terminals.state_bodies import BLOCK_BYTES, MAX_LARGE_BODIES, StateBodies
from tests.server.application import Application, on_one
from tests.server.terminals.state_client import announce, announced, lock, state, upload, workspace

pytestmark = [pytest.mark.feature("J15.lock"), on_one]


def bodies(application: Application) -> StateBodies:
    return StateBodies(application.server.staging, application.server.settings.uploads)


async def pieces(content: bytes, count: int = 7) -> AsyncIterator[bytes]:
    size = -(-len(content) // count)
    for at in range(0, len(content), size):
        yield content[at : at + size]


@pytest.mark.parametrize("size", [0, 5, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 7])
async def test_a_body_arrives_as_it_was_sent(application: Application, size: int) -> None:
    content = os.urandom(size)
    async with bodies(application).received(pieces(content or b"x", 7 if content else 1), size + 1) as found:
        assert found == (content or b"x")
    with pytest.raises(TooLarge):
        async with bodies(application).received(pieces(content + b"xx"), size + 1):
            pass


async def test_large_bodies_take_turns_only_once_they_have_arrived(application: Application) -> None:
    """Six open uploads of 40 MB took 150 MB of memory, and nothing limited them."""
    inbox, large, rest = bodies(application), b"x" * (BLOCK_BYTES + 1), asyncio.Event()
    inside, most = 0, 0

    async def slow() -> AsyncIterator[bytes]:
        yield large
        await rest.wait()

    async def receive(body: AsyncIterator[bytes]) -> None:
        nonlocal inside, most
        async with inbox.received(body, 2 * BLOCK_BYTES):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1

    async with asyncio.TaskGroup() as tasks, asyncio.timeout(20):
        waiting = [tasks.create_task(receive(slow())) for _ in range(MAX_LARGE_BODIES)]
        await asyncio.gather(*(receive(pieces(large)) for _ in range(3 * MAX_LARGE_BODIES)))
        assert most == MAX_LARGE_BODIES
        assert not any(each.done() for each in waiting), "a slow client keeps nobody waiting"
        rest.set()


async def test_no_plain_state_is_on_the_disk(
    application: Application, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"

    def visible(**_: object) -> IO[bytes]:
        return copy.open("w+b")

    monkeypatch.setattr(state_bodies.tempfile, "TemporaryFile", visible)
    async with bodies(application).received(pieces(b"a secret " * BLOCK_BYTES), 9 * BLOCK_BYTES):
        assert copy.stat().st_size > 7 * BLOCK_BYTES
        assert b"secret" not in copy.read_bytes()


async def test_large_states_are_uploaded_and_come_with_their_announcement(application: Application) -> None:
    ann = application.admin
    module = await workspace(ann)
    await lock(ann, module)
    content = state(1, padding="x" * 2 * BLOCK_BYTES)
    assert (await upload(application.stranger(), await announced(ann, module, content), content)).status_code == 200
    content = state(2, padding="y" * 2 * BLOCK_BYTES)
    assert (await announce(ann, module, content, state=base64.b64encode(content).decode())).status_code == 201
    assert await application.scalar("SELECT serial FROM states WHERE status = 'current'") == 2
