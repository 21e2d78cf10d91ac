"""The attempt's states: the current one is in memory, and each one that the engine writes is encrypted on disk before it is confirmed."""

import asyncio
import hashlib
import time
from typing import Literal

from terracrew.attempt.encryption import AttemptCipher
from terracrew.errors import Conflict
from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.recorder import Recorder
from terracrew.executor.disk_reserve import DISK_FULL_ERRORS
from terracrew.executor.engines.contract import StateIdentity
from terracrew.executor.state import identity as identities
from terracrew.masking import names
from terracrew.protocol import events
from terracrew.protocol.events import MAX_INLINE_STATE_BYTES, StateFact

_THREAD_ABOVE_BYTES = 4 << 20
_RETRY_SECONDS = 1.0


def fact_of(
    sha256: str,
    content: bytes,
    identity: StateIdentity,
    problem: str,
    origin: Literal["engine", "errored"],
    *,
    is_inline: bool,
) -> StateFact:
    return StateFact(
        sha256, len(content), identity.serial, identity.lineage, is_inline, origin, identity.resources, problem
    )


class States:
    def __init__(
        self,
        large_states: LargeStates,
        recorder: Recorder,
        cipher: AttemptCipher,
        *,
        engine: str,
        is_kept_here: bool = True,
    ) -> None:
        """`engine` is the name of the engine whose states these are. `is_kept_here`: Terracrew holds them, so that the next plan
        reads what is written here."""
        self.current: bytes | None = None
        self.is_writable = False
        """Whether the current step has the permission to apply. Without it, a write is refused."""
        self.has_unsaved = False
        """Whether the last state that the engine wanted to save is not kept, or cannot be read as a state."""
        self.problem = ""
        """Why the content that was written last cannot become the module's state; empty if it can."""
        self._large_states, self._recorder, self._cipher = large_states, recorder, cipher
        self._engine, self._is_kept_here = engine, is_kept_here
        self._writing = asyncio.Lock()

    def mask_outputs(self) -> None:
        """Mask the sensitive outputs of the current state in the log: a hook may print them."""
        if self.current:
            values = identities.sensitive_outputs(self._engine, self.current)
            self._recorder.redactor.add(*names.secrets_of({"secret": values}))

    async def write(self, content: bytes, origin: Literal["engine", "errored"] = "engine") -> int:
        """Store a state durably, record it in the outbox, and return its number.

        A file that the engine left is stored even if it cannot be read as a state, because there is no other copy. The server
        then puts it into quarantine.
        """
        if not self.is_writable:
            raise Conflict("this attempt has no permission to write a state now")
        async with self._writing:
            return await self._write(content, origin)

    async def delete(self) -> int | None:
        """Replace the current state by an empty one, which is what deleting a state means here. Returns the number of the new one."""
        return await self.write(identities.emptied(self._engine, self.current)) if self.current else None

    async def settle(self) -> None:
        """Wait until no state is being written, so that the next record comes after it in the outbox."""
        async with self._writing:
            return

    async def _write(self, content: bytes, origin: Literal["engine", "errored"]) -> int:
        self.has_unsaved = True
        if origin == "errored":
            identity, problem = identities.read_leftover(self._engine, content, is_kept_here=self._is_kept_here)
        else:
            identity, problem = identities.read(self._engine, content), ""
        if len(content) > _THREAD_ABOVE_BYTES:
            sha256, sealed = await asyncio.to_thread(self._seal, content)
        else:
            sha256, sealed = self._seal(content)
        is_inline = len(sealed) <= MAX_INLINE_STATE_BYTES
        fact = fact_of(sha256, content, identity, problem, origin, is_inline=is_inline)
        while True:
            try:
                if not is_inline:
                    await asyncio.to_thread(self._large_states.write, sealed)
                # There is no await from here on, because the file must be named after the number that the record gets.
                record = events.pack_state(fact, sealed, self._recorder.step, time.time())
                if not is_inline:
                    self._large_states.place(self._recorder.outbox.last + 1, event=record)
                number = self._recorder.state(record)
                break
            except OSError as error:
                if error.errno not in DISK_FULL_ERRORS:
                    raise
            await asyncio.sleep(
                _RETRY_SECONDS
            )  # the engine waits for its answer; an error would make it lose the state
        self.problem = problem
        if not problem:
            self.current, self.has_unsaved = content, False
        return number

    def _seal(self, content: bytes) -> tuple[str, bytes]:
        return hashlib.sha256(content).hexdigest(), self._cipher.encrypt(content)
