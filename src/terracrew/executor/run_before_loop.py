"""Runs the first part of a coroutine before there is an event loop, because making one takes longer than starting an engine.

It works for coroutines that call `asyncio.sleep(0)` before anything that needs the loop. That is a bare yield, after which a task
can continue as if it had run the coroutine from the start.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def begin(coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """Run a coroutine until it first yields, and return the rest for a task. If it has ended by then, only its result is left."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as over:
        return _return(over.value)
    assert waits_for is None, "something was waited for before there was a loop"
    return coroutine


async def _return(value: T) -> T:
    return value


async def run_or_in_thread(is_large: bool, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the function directly if the work is small, so that the engine starts first. Large work must not block the event loop."""
    if not is_large:
        return function(*args, **kwargs)
    await asyncio.sleep(0)  # there may be no loop yet
    return await asyncio.to_thread(function, *args, **kwargs)
