"""Records the diff of a plan. One that is too large for an event is sent by HTTP before it, like a large state."""

import asyncio
import hashlib
from collections.abc import Callable

from terracrew.attempt.encryption import AttemptCipher
from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.recorder import Recorder
from terracrew.plan_diff import document
from terracrew.plan_diff.document import PlanDescription
from terracrew.protocol.events import MAX_INLINE_DIFF_BYTES, PlanDescribed


class PlanDiffs:
    def __init__(self, large_states: LargeStates, recorder: Recorder, cipher: AttemptCipher) -> None:
        self._large_states, self._recorder, self._cipher = large_states, recorder, cipher

    async def record(self, describe: "Callable[[bytes], PlanDescription]", printed: bytes) -> None:
        """Compare what the engine printed and record the diff. Sensitive values stay in the memory of this process."""
        content = await asyncio.to_thread(self._built, describe, printed)
        sha256 = hashlib.sha256(content).hexdigest()
        if len(content) <= MAX_INLINE_DIFF_BYTES:
            self._recorder.fact(PlanDescribed(sha256, content))
            return
        await asyncio.to_thread(self._large_states.write, self._cipher.encrypt(content))
        # There is no await from here on, because the file must be named after the number that the record gets.
        self._large_states.place(self._recorder.outbox.last + 1)
        self._recorder.fact(PlanDescribed(sha256))
        self._recorder.outbox.sync()

    def _built(self, describe: "Callable[[bytes], PlanDescription]", printed: bytes) -> bytes:
        return document.build(describe(printed), self._recorder.redactor.mask_text)
