"""The states and outputs that an executor's events bring, in the event or by HTTP before it: checked, and stored as objects."""

import asyncio
import hashlib

import msgspec

from terracrew.api.jobs import plain
from terracrew.attempt.encryption import AttemptCipher
from terracrew.protocol.events import (
    MAX_DIFF_BYTES,
    MAX_OUTPUT_LEVELS,
    MAX_OUTPUTS_BYTES,
    Output,
    OutputsRead,
    PlanDescribed,
    PlanShown,
    StateFact,
    is_deep,
)
from terracrew.protocol.messages import AttemptRef
from terracrew.server.hub.executors.context import ExecutorContext
from terracrew.server.secrets.keyring import GROWTH_BYTES
from terracrew.server.state import content
from terracrew.server.state.model import LargeOutputs, Received

_UNDECRYPTABLE = "it cannot be decrypted with the key of its attempt"
_SOMETHING_ELSE = "what came of it cannot be decrypted or is something else"
_ANOTHER = "its content is not what its event says: hash or size differ"


async def prepare(
    hub: ExecutorContext,
    ref: AttemptRef,
    module_id: str,
    state_key: bytes,
    number: int,
    fact: StateFact,
    ciphertext: bytes,
) -> Received | None:
    """Check that a state is what its event says and make it ready for its row; None if it has yet to come by HTTP.

    A state that differs from its event is stored unchanged, with the problem, for quarantine. If it were refused, the
    executor would send it, and everything after it, again and again.
    """
    if not fact.is_inline:
        return await _uploaded(hub, ref, number, fact)
    problem = plain(fact.problem)
    try:
        found = AttemptCipher(state_key, ref.job_id, ref.attempt).decrypt(ciphertext)
        name = content.of_event(ref.job_id, ref.attempt, number, fact.sha256)
        if len(found) != fact.size or hashlib.sha256(found).hexdigest() != fact.sha256:
            problem = _ANOTHER
            name = content.of_unreadable_event(ref.job_id, ref.attempt, number, hashlib.sha256(found).hexdigest())
    except ValueError:
        found, problem = ciphertext, _UNDECRYPTABLE
        name = content.of_unreadable_event(ref.job_id, ref.attempt, number, hashlib.sha256(found).hexdigest())
    return Received(fact, *await content.keep(hub.objects, hub.keys, module_id, name, found), problem)


async def prepare_unreadable(
    hub: ExecutorContext, ref: AttemptRef, module_id: str, number: int, payload: bytes, reason: str
) -> Received:
    """Store the event of a state unchanged. The event cannot be read, so nothing is known about the state."""
    sha256 = hashlib.sha256(payload).hexdigest()
    sealed = await content.keep(
        hub.objects,
        hub.keys,
        module_id,
        content.of_unreadable_event(ref.job_id, ref.attempt, number, sha256),
        payload,
    )
    problem = plain(f"the event that brought it cannot be read: {reason[:200]}")
    return Received(StateFact(sha256, len(payload), 0, "", is_inline=True), *sealed, problem)


async def large_outputs(
    hub: ExecutorContext, ref: AttemptRef, module_id: str, number: int, fact: OutputsRead
) -> LargeOutputs:
    """Outputs that came by HTTP before this event. It raises ValueError until they are there; unreadable ones have a problem."""
    name = content.of_event(ref.job_id, ref.attempt, number, fact.sha256)
    size = await _stored_size(hub, ref, number, name)
    if size is None:
        return LargeOutputs("", _SOMETHING_ELSE)
    if size - GROWTH_BYTES > MAX_OUTPUTS_BYTES:  # before they are read: decoding them would stop the server
        return LargeOutputs("", f"they have {size - GROWTH_BYTES:,} bytes, and at most {MAX_OUTPUTS_BYTES:,} are kept")
    found = await content.read_object(hub.objects, hub.keys, module_id, name)
    return LargeOutputs(name, await asyncio.to_thread(problem_of_outputs, found.content))


async def large_diff(
    hub: ExecutorContext, ref: AttemptRef, number: int, fact: PlanDescribed | PlanShown
) -> LargeOutputs:
    """The diff or the JSON of a plan that came by HTTP before this event. It raises ValueError until that is there."""
    name = content.of_event(ref.job_id, ref.attempt, number, fact.sha256)
    size = await _stored_size(hub, ref, number, name)
    if size is None:
        return LargeOutputs("", _SOMETHING_ELSE)
    if size - GROWTH_BYTES > MAX_DIFF_BYTES:
        return LargeOutputs("", f"it has {size - GROWTH_BYTES:,} bytes, and at most {MAX_DIFF_BYTES:,} are kept")
    return LargeOutputs(name)


async def _stored_size(hub: ExecutorContext, ref: AttemptRef, number: int, name: str) -> int | None:
    """Return the size of the object that came with this event; None if another one came. It raises ValueError if none did."""
    size = await hub.objects.size(name)
    if size is None and not any(
        each.startswith(content.of_event(ref.job_id, ref.attempt, number, ""))
        for each in await hub.objects.names(content.folder(ref.job_id, ref.attempt))
    ):
        raise ValueError("the content of this event is not stored")
    return size


def problem_of_outputs(found: bytes) -> str:
    try:
        read = OutputsRead(msgspec.json.decode(found, type=dict[str, Output]), "")
    except (ValueError, RecursionError) as error:
        return plain(f"they cannot be read: {str(error)[:200]}")
    return f"they are nested more than {MAX_OUTPUT_LEVELS} levels deep" if is_deep(read) else ""


async def _uploaded(hub: ExecutorContext, ref: AttemptRef, number: int, fact: StateFact) -> Received | None:
    name = content.of_event(ref.job_id, ref.attempt, number, fact.sha256)
    if await hub.objects.exists(name):
        return Received(fact, None, name, plain(fact.problem))
    raw = content.of_unreadable_event(ref.job_id, ref.attempt, number, "")
    for other in await hub.objects.names(content.folder(ref.job_id, ref.attempt)):
        if other.startswith(content.of_event(ref.job_id, ref.attempt, number, "")):
            return Received(fact, None, other, _UNDECRYPTABLE if other.startswith(raw) else _ANOTHER)
    return None
