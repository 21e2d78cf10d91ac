"""A row that names an object is written after it, and the object is deleted only if it is certain that there is no row."""

import asyncio

import pytest

from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.uploads import service
from tests.server.application import Application

NAME = "archives/arc_1"
_COUNT = "SELECT count(*) FROM history WHERE id = 'arc_1'"


async def _insert(tx: Tx) -> None:
    await tx.run("INSERT INTO history (id, at) VALUES ('arc_1', :now)", now=tx.now)


async def test_an_object_stays_if_its_row_was_written_and_the_request_was_canceled(application: Application) -> None:
    """The current state of a module was lost: its row was committed, and its object deleted."""
    await application.server.objects.put(NAME, b"content")

    async def work(tx: Tx) -> None:
        await _insert(tx)
        asyncio.get_running_loop().call_soon(request.cancel)

    request = asyncio.create_task(service.write_row(application.server.staging, NAME, work))
    await asyncio.wait([request])
    await application.server.db.write(lambda tx: tx.run("UPDATE history SET at = at"))  # behind the one before
    has_row = await application.scalar(_COUNT) == 1
    assert not has_row or await application.server.objects.exists(NAME)


async def test_an_object_whose_row_was_refused_is_deleted(application: Application) -> None:
    await application.server.objects.put(NAME, b"content")

    async def work(tx: Tx) -> None:
        await _insert(tx)
        raise Conflict("not this one")

    with pytest.raises(Conflict, match="not this one"):
        await service.write_row(application.server.staging, NAME, work)
    assert await application.scalar(_COUNT) == 0
    assert not await application.server.objects.exists(NAME)
