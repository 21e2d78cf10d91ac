"""The content of a state: encrypted under the master key, in its row or, where it is large, in the object store."""

import asyncio
import hashlib
from typing import NamedTuple

from terracrew.server.identity.keys import Keyring
from terracrew.server.jobs.claims import state_context
from terracrew.server.objects import Objects
from terracrew.server.state.model import INLINE

_THREAD_ABOVE = 256 << 10


class Sealed(NamedTuple):
    """Where the content is: one of the two."""

    content: bytes | None
    object: str | None


class Plain(NamedTuple):
    content: bytes
    sha256: str


async def keep(objects: Objects, keys: Keyring, module_id: str, name: str, plain: bytes) -> Sealed:
    """Encrypt it for its row or, if it is too large for that, into the object of this name."""
    context = state_context(module_id)
    if len(plain) <= INLINE:
        return Sealed(keys.encrypt(plain, context), None)
    await objects.put(name, await asyncio.to_thread(keys.encrypt, plain, context))
    return Sealed(None, name)


async def read(objects: Objects, keys: Keyring, module_id: str, sealed: Sealed) -> Plain:
    content = await objects.get(sealed.object) if sealed.object is not None else sealed.content or b""
    if len(content) > _THREAD_ABOVE:
        return await asyncio.to_thread(_open, keys, module_id, content)
    return _open(keys, module_id, content)


def _open(keys: Keyring, module_id: str, content: bytes) -> Plain:
    plain = keys.decrypt(content, state_context(module_id))
    return Plain(plain, hashlib.sha256(plain).hexdigest())
