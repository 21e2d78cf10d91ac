"""Who gets the next turn: organizations one after the other, and nobody who has stopped waiting."""

import asyncio
import contextlib

import pytest

from terracrew.server.policies.turns import Turns

pytestmark = pytest.mark.feature("P3.stopped")


async def test_organizations_take_turns() -> None:
    turns, order = Turns(1, 60.0), list[str]()

    async def one(organization_id: str) -> None:
        async with turns.turn(organization_id):
            order.append(organization_id)

    async with asyncio.TaskGroup() as group, turns.turn("x"):
        for each in "aaabbc":
            group.create_task(one(each))
        await asyncio.sleep(0)
    assert "".join(order) == "abcaba"


async def test_who_gives_up_or_is_canceled_keeps_no_turn() -> None:
    turns = Turns(1, 0.01)
    async with turns.turn("a"):
        with pytest.raises(TimeoutError):
            await turns.turn("b").__aenter__()
        waiting = asyncio.create_task(turns.turn("c").__aenter__())
        await asyncio.sleep(0)
    waiting.cancel()  # it has just got the turn, and has not run since
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    async with turns.turn("d"):
        pass
    async with turns.turn("e"):
        pass
