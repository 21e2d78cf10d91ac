"""Group commit for statements of one shape: while one group is being committed, the next one gathers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic

from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.server.db.seam import MAX_GROUP_ITEMS, Item, Result, Tx, Work


class Grouped(Generic[Item, Result]):
    """Commits items in groups. A call with an item returns that item's result once its group has been committed."""

    def __init__(
        self,
        write: Callable[[Work[Sequence[Result | Exception]]], Awaitable[Sequence[Result | Exception]]],
        work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]],
        max_items: int = MAX_GROUP_ITEMS,
    ) -> None:
        self._write = write
        self._work = work
        self._max_items = max_items
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Result:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._committing is None:
            # The commit is a task of its own, so that a cancelled caller does not cancel the items of others.
            self._committing = asyncio.create_task(self._commit_all())
        return await future

    async def _commit_all(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[: self._max_items], self._waiting[self._max_items :]
                await self._commit([(item, future) for item, future in group if not future.done()])
        finally:
            self._committing = None
            for _, future in self._waiting:  # only when this task itself was cancelled: the loop is being closed
                future.cancel()

    async def _commit(self, group: list[tuple[Item, "asyncio.Future[Result]"]]) -> None:
        if not group:
            return
        items = [item for item, _ in group]
        try:
            results = await self._write(lambda tx: results_of(self._work, tx, items))
        except Exception as error:
            # It is unknown whether a lost connection has committed, so the callers must find out.
            if len(group) > 1 and not isinstance(error, Unavailable):
                # The items run one after the other, because each must see what the one before has taken, for example a slot.
                for one in group:
                    await self._commit([one])
                return
            results = [error] * len(group)
        except BaseException:
            for _, future in group:
                future.cancel()
            raise
        for (_, future), result in zip(group, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


async def results_of(
    work: Callable[[Tx, list[Item]], Awaitable[Sequence[Result | Exception]]], tx: Tx, items: list[Item]
) -> Sequence[Result | Exception]:
    """Do the work of a group and return a result for each item. Otherwise somebody would wait forever."""
    results = await work(tx, items)
    if len(results) != len(items):
        raise RuntimeError(f"{len(items)} items came back as {len(results)} results")
    return results


log = get_logger("terracrew.db")


def call_all(actions: Iterable[Callable[[], None]]) -> None:
    """Call each of them. The outcome of the transaction is decided, so an error is logged and changes nothing for its caller."""
    for action in actions:
        try:
            action()
        except Exception:
            log.exception("an action at the end of a transaction failed")
