"""A server that takes a request and never answers it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from terracrew.errors import Unreachable
from terracrew.executor.control import Control
from terracrew.executor.delivery.exchange import ConnectionLog
from terracrew.executor.delivery.transfer import Transfer

TIMEOUT_SECONDS = 10.0


@pytest.fixture
async def asked() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """The address of a server that hangs, and the event that it was asked something."""
    arrived, over = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await over.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", arrived
    over.set()  # so that the thread that reads ends with the test
    server.close()


@pytest.mark.feature("J9.escalation")
async def test_a_download_is_given_up_as_soon_as_the_job_is_canceled(asked: tuple[str, asyncio.Event]) -> None:
    """Symptom: the job was CANCELED up to a minute later, when the request timed out."""
    address, arrived = asked
    control = Control()
    transfer = Transfer(address, "credential", "job_1", 1, control, ConnectionLog(print))
    getting = asyncio.create_task(transfer.get("archive"))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await arrived.wait()
        control.request_cancel("interrupt")
        with pytest.raises(Unreachable, match="given up"):
            await getting
