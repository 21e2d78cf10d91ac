"""The content of a state, encrypted under the master key: in its row or, if it is large, in the object store."""

import asyncio
import hashlib
import re
from typing import NamedTuple

from terracrew.server.objects import Objects
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.model import MAX_INLINE_BYTES

_NAME = re.compile(r"states/(?P<job_id>\w+)/(?P<attempt>\d+)/(?P<event>\d+)_\w+\Z")


def of_event(job_id: str, attempt: int, event: int, sha256: str) -> str:
    """Return the name of the object that came with this event."""
    return f"{folder(job_id, attempt)}/{event}_{sha256}"


def of_unreadable_event(job_id: str, attempt: int, event: int, sha256: str) -> str:
    """Return the name of an object that came with this event and cannot be decrypted, or does not match the event."""
    return f"{folder(job_id, attempt)}/{event}_raw_{sha256}"


def folder(job_id: str, attempt: int) -> str:
    return f"states/{job_id}/{attempt}"


def parse(name: str) -> tuple[str, int, int]:
    """Return the job, the attempt and the event of an object."""
    found = _NAME.match(name)
    if found is None:
        raise ValueError(f"{name!r} does not name the object of a state")
    return found["job_id"], int(found["attempt"]), int(found["event"])


_THREAD_ABOVE_BYTES = 256 << 10


class Sealed(NamedTuple):
    """The content of a state, either in its row or in an object."""

    content: bytes | None
    object: str | None


class Plain(NamedTuple):
    content: bytes
    sha256: str


def state_context(module_id: str, job_id: str, attempt: int, event: int) -> str:
    """Return the context that the ciphertext of a state is bound to: the event that it came with."""
    return f"state:{module_id}:{job_id}:{attempt}:{event}"


def context_of_object(module_id: str, name: str) -> str:
    """Return the context of an object with a state or large outputs, whose name contains the event that it came with."""
    return state_context(module_id, *parse(name))


async def keep(objects: Objects, keys: Keyring, module_id: str, name: str, plain: bytes) -> Sealed:
    """Encrypt a content. If it is too large for its row, it is stored in the object of this name."""
    context = context_of_object(module_id, name)
    if len(plain) <= MAX_INLINE_BYTES:
        return Sealed(keys.encrypt(plain, context), None)
    await objects.put(name, await asyncio.to_thread(keys.encrypt, plain, context))
    return Sealed(None, name)


async def read(objects: Objects, keys: Keyring, context: str, sealed: Sealed) -> Plain:
    content = await objects.get(sealed.object) if sealed.object is not None else sealed.content or b""
    if len(content) > _THREAD_ABOVE_BYTES:
        return await asyncio.to_thread(_open, keys, context, content)
    return _open(keys, context, content)


async def read_object(objects: Objects, keys: Keyring, module_id: str, name: str) -> Plain:
    return await read(objects, keys, context_of_object(module_id, name), Sealed(None, name))


def _open(keys: Keyring, context: str, content: bytes) -> Plain:
    plain = keys.decrypt(content, context)
    return Plain(plain, hashlib.sha256(plain).hexdigest())
