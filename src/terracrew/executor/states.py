"""The attempt's state: the current one in memory, each that the engine writes encrypted on disk before it is told."""

import asyncio
import hashlib
import os
import time
from typing import Literal

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from terracrew.errors import Conflict, Invalid
from terracrew.executor.aside import Aside
from terracrew.executor.record import Recorder
from terracrew.executor.room import FULL
from terracrew.protocol import events
from terracrew.protocol.events import INLINE_STATE, StateFact

NONCE = 12
_IN_A_THREAD = 4 << 20
_RETRY_SECONDS = 1.0


class Identity(msgspec.Struct, frozen=True):
    """The part of a state that we read; both engines of this kind write it."""

    serial: events.Count
    lineage: events.Line


_identity = msgspec.json.Decoder(Identity).decode
AESGCM(bytes(32)).encrypt(bytes(NONCE), b"", None)  # the first use of a cipher takes milliseconds; none in a job's time


def identify(content: bytes) -> Identity:
    try:
        return _identity(content)
    except ValueError as error:
        raise Invalid(f"this is not a state: {error}") from error


class States:
    def __init__(self, aside: Aside, recorder: Recorder, *, key: bytes, owner: str) -> None:
        self.current: bytes | None = None
        self.is_writable = False
        """Only a step that has leave to mutate may write."""
        self._aside, self._recorder = aside, recorder
        self._cipher, self._owner = AESGCM(key), owner.encode()

    async def write(self, content: bytes, origin: Literal["engine", "errored"] = "engine") -> int:
        """Keep it for good and put it into the outbox; the state's number."""
        if not self.is_writable:
            raise Conflict("this attempt has no leave to write a state now")
        identity = identify(content)
        if len(content) > _IN_A_THREAD:
            sha256, sealed = await asyncio.to_thread(self._seal, content)
        else:
            sha256, sealed = self._seal(content)
        is_inline = len(sealed) <= INLINE_STATE
        fact = StateFact(sha256, len(content), identity.serial, identity.lineage, is_inline, origin)
        while True:
            try:
                if not is_inline:
                    await asyncio.to_thread(self._aside.write, sealed)
                # No await from here on: the number that names the file must be the one that the record gets.
                record = events.pack_state(fact, sealed, self._recorder.step, time.time())
                if not is_inline:
                    self._aside.place(self._recorder.outbox.last + 1, event=record)
                number = self._recorder.state(record)
                break
            except OSError as error:
                if error.errno not in FULL:
                    raise
            await asyncio.sleep(
                _RETRY_SECONDS
            )  # the engine waits for its answer; an error would make it lose the state
        self.current = content
        return number

    def _seal(self, content: bytes) -> tuple[str, bytes]:
        nonce = os.urandom(NONCE)
        return hashlib.sha256(content).hexdigest(), nonce + self._cipher.encrypt(nonce, content, self._owner)
