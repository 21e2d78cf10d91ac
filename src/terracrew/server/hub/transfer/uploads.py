"""What an attempt may upload: one body at a time, and no more objects than it has use for, so that it fills nobody else's disk."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from terracrew.errors import Conflict, RateLimited
from terracrew.protocol.messages import AttemptRef
from terracrew.server.objects import Objects
from terracrew.server.state import object_names

MAX_STATES_AHEAD = 32
"""States whose events have yet to come; an executor has half as many batches under way."""
_under_way: set[AttemptRef] = set()


@contextmanager
def alone(ref: AttemptRef) -> Generator[None]:
    """For as long as this lasts, the attempt uploads nothing else to this server."""
    if ref in _under_way:
        raise RateLimited("this attempt is already uploading something: try again when that is done")
    _under_way.add(ref)
    try:
        yield
    finally:
        _under_way.discard(ref)


async def remove_others(objects: Objects, name: str) -> None:
    """Remove the earlier uploads of the same state; the last one counts."""
    for other in await objects.names(name.rpartition("/")[0]):
        if other != name:
            await objects.delete(other)


async def keep_state(objects: Objects, ref: AttemptRef, number: int, mark: int, name: str, content: Path) -> None:
    """Store a state under this name, instead of others with its number, as long as the event of this number has not arrived.

    The event refers to one object. After it, nothing would ever use another one, so only a repetition is accepted.
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
    """Return the objects that this state is stored instead of; where too many wait for their events, it is not taken yet."""
    ahead: dict[int, list[str]] = {}
    for name in await objects.names(object_names.folder(ref.job_id, ref.attempt)):
        of = int(name.rpartition("/")[2].partition("_")[0])
        if of > mark:
            ahead.setdefault(of, []).append(name)
    if number not in ahead and len(ahead) >= MAX_STATES_AHEAD:
        raise RateLimited(f"{len(ahead)} states of this attempt wait for their events: deliver those first")
    return ahead.get(number, [])
