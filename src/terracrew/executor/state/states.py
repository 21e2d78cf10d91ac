"""The attempt's state: the current one in memory, each that the engine writes encrypted on disk before it is told."""

import asyncio
import hashlib
import time
from typing import Literal

import msgspec

from terracrew.attempt.encryption import AttemptCipher
from terracrew.errors import Conflict, Invalid
from terracrew.executor.delivery.recorder import Recorder
from terracrew.executor.disk_reserve import DISK_FULL_ERRORS
from terracrew.executor.state.large_states import LargeStates
from terracrew.protocol import events
from terracrew.protocol.events import MAX_INLINE_STATE_BYTES, StateFact

_THREAD_ABOVE_BYTES = 4 << 20
_RETRY_SECONDS = 1.0
_MAX_PROBLEM_CHARACTERS = 500


class _CountedResource(msgspec.Struct, frozen=True):
    mode: str = "managed"
    instances: list[msgspec.Raw] = []


class _Name(msgspec.Struct, frozen=True):
    serial: events.Count
    lineage: events.Line


class StateIdentity(_Name, frozen=True):
    """The part of a state that we read; both engines of this kind write it."""

    resources: int | None = None
    """How many resource instances it holds. None where that cannot be read (the engine may have encrypted it)."""


class _Content(_Name, frozen=True):
    resources: list[_CountedResource] | None = None


_content = msgspec.json.Decoder(_Content).decode
_name = msgspec.json.Decoder(_Name).decode


def identify(content: bytes) -> StateIdentity:
    """Raise Invalid where this is not a state at all."""
    try:
        found = _content(content)
    except (ValueError, RecursionError):
        pass
    else:
        return StateIdentity(found.serial, found.lineage, _count(found.resources))
    try:
        name = _name(content)  # its resources may be in a format that we do not know
    except (ValueError, RecursionError) as error:
        raise Invalid(f"this is not a state: {error}") from error
    return StateIdentity(name.serial, name.lineage)


def named(content: bytes) -> tuple[StateIdentity, str]:
    """Like `identify`, for content that is kept in any case: an empty identity and the problem where it cannot be read."""
    try:
        return identify(content), ""
    except Invalid as error:
        return StateIdentity(0, ""), error.message.replace("\0", "")[:_MAX_PROBLEM_CHARACTERS]


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


def _count(resources: list[_CountedResource] | None) -> int | None:
    """What a data source read is in the state, too, but nothing was made for it."""
    if resources is None:
        return None
    return sum(len(each.instances) for each in resources if each.mode != "data")


class States:
    def __init__(self, large_states: LargeStates, recorder: Recorder, cipher: AttemptCipher) -> None:
        self.current: bytes | None = None
        self.is_writable = False
        """Refuse a write by a step that has no permission to apply."""
        self.has_unsaved = False
        """Whether the last state that the engine wanted to save is not kept, or cannot be read as a state."""
        self.problem = ""
        """Why what was written last cannot be read as a state."""
        self._large_states, self._recorder, self._cipher = large_states, recorder, cipher
        self._writing = asyncio.Lock()

    async def write(self, content: bytes, origin: Literal["engine", "errored"] = "engine") -> int:
        """Keep it for good and put it into the outbox; the state's number.

        A file that the engine left is kept whatever is in it: there is no other copy. The server puts it into quarantine.
        """
        if not self.is_writable:
            raise Conflict("this attempt has no permission to write a state now")
        async with self._writing:
            return await self._write(content, origin)

    async def settle(self) -> None:
        """Return when no state is being written: what follows must stand behind it in the outbox."""
        async with self._writing:
            return

    async def _write(self, content: bytes, origin: Literal["engine", "errored"]) -> int:
        self.has_unsaved = True
        identity, problem = named(content) if origin == "errored" else (identify(content), "")
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
                # No await from here on: the number that names the file must be the one that the record gets.
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
