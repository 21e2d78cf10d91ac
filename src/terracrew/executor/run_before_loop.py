"""Runs the first part of a coroutine before there is an event loop, because making one takes longer than starting an engine.

It works for coroutines that give way by `asyncio.sleep(0)` before anything that needs the loop: that is a bare yield, from
which a task goes on as if it had been the task's from the start.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def begin(coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """Run it to where it first gives way; the rest is for a task. One that is over by then only has its result left."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as over:
        return _return(over.value)
    assert waits_for is None, "something was waited for before there was a loop"
    return coroutine


async def _return(value: T) -> T:
    return value
