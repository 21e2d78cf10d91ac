"""Reads of one shape that are asked for in the same turn of the event loop: one transaction and one statement answers them all."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic

from terracrew.server.db.group import results_of
from terracrew.server.db.seam import Item, Result, Tx, Work

MAX_GROUP_ITEMS = 32
"""A group of these takes up to 5 ms of the event loop; the others wait for their turn."""


class GroupedReads(Generic[Item, Result]):
    """A call with an item returns that item's result. `read` runs a unit of work at once, without suspending."""

    def __init__(
        self,
        read: Callable[[Work[Sequence[Result | Exception]]], Sequence[Result | Exception]],
        work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]],
    ) -> None:
        self._read, self._work = read, work
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []

    async def __call__(self, item: Item) -> Result:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._read_some)
        self._waiting.append((item, future))
        return await future

    def _read_some(self) -> None:
        group, self._waiting = self._waiting[:MAX_GROUP_ITEMS], self._waiting[MAX_GROUP_ITEMS:]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._read_some)
        self._answer([(item, future) for item, future in group if not future.done()])

    def _answer(self, group: list[tuple[Item, "asyncio.Future[Result]"]]) -> None:
        if not group:
            return
        try:
            results = self._read(lambda tx: results_of(self._work, tx, [item for item, _ in group]))
        except Exception as error:
            if len(group) > 1:  # so that one item does not fail the others
                for one in group:
                    self._answer([one])
                return
            results = [error]
        for (_, future), result in zip(group, results, strict=True):
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
