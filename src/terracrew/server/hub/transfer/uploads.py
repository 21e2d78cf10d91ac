"""Limits what an attempt may upload: one body at a time, and no more objects than it can use, so that it cannot fill the shared storage."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from terracrew.errors import Conflict, RateLimited
from terracrew.protocol.messages import AttemptRef
from terracrew.server.objects import Objects
from terracrew.server.state import content as object_names

MAX_STATES_AHEAD = 32
"""The most uploaded states whose events have not arrived yet. An executor sends at most half as many batches at once."""
_under_way: set[AttemptRef] = set()


@contextmanager
def alone(ref: AttemptRef) -> Generator[None]:
    """While this context is open, no other upload of the attempt is accepted by this server."""
    if ref in _under_way:
        raise RateLimited("this attempt is already uploading something: try again when that is done")
    _under_way.add(ref)
    try:
        yield
    finally:
        _under_way.discard(ref)


async def remove_others(objects: Objects, name: str) -> None:
    """Remove earlier uploads of the same state, because only the last one is used."""
    for other in await objects.names(name.rpartition("/")[0]):
        if other != name:
            await objects.delete(other)


async def keep_state(objects: Objects, ref: AttemptRef, number: int, mark: int, name: str, content: Path) -> None:
    """Store a state under this name, instead of others with its number, as long as the event of this number has not arrived.

    The event refers to one object. After the event has arrived, no other object would ever be used, so only a repetition is accepted.
    """
    if number <= mark:
        if not await objects.exists(name):
            raise Conflict(f"event {number} of this attempt has arrived, so no other state is accepted for it")
        return
    others = await _others_of(objects, ref, number, mark)
    if name not in others:
        await objects.put(name, content)
    for other in others:
        if other != name:
            await objects.delete(other)


async def _others_of(objects: Objects, ref: AttemptRef, number: int, mark: int) -> list[str]:
    """Return the objects that this state replaces. Raise an error if too many states wait for their events."""
    ahead: dict[int, list[str]] = {}
    for name in await objects.names(object_names.folder(ref.job_id, ref.attempt)):
        of = int(name.rpartition("/")[2].partition("_")[0])
        if of > mark:
            ahead.setdefault(of, []).append(name)
    if number not in ahead and len(ahead) >= MAX_STATES_AHEAD:
        raise RateLimited(f"{len(ahead)} states of this attempt wait for their events: deliver those first")
    return ahead.get(number, [])
