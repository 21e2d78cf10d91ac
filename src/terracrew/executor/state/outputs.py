"""Records a module's outputs and the diffs of its plans. What is too large for an event is sent by HTTP before it, like a large state."""

import asyncio
import hashlib
from collections.abc import Callable

import msgspec

from terracrew.attempt.encryption import AttemptCipher
from terracrew.errors import TooLarge
from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.recorder import Recorder
from terracrew.masking import facts, names
from terracrew.plan_diff import document, plan_json
from terracrew.plan_diff.document import PlanDescription
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.plan_diff.values import Mask
from terracrew.protocol.events import (
    MAX_DIFF_BYTES,
    MAX_INLINE_DIFF_BYTES,
    MAX_INLINE_OUTPUTS_BYTES,
    Fact,
    OutputsRead,
    PlanDescribed,
    PlanShown,
)


class _LargeFacts:
    """Records facts whose content may be too large for an event."""

    def __init__(self, large_states: LargeStates, recorder: Recorder, cipher: AttemptCipher) -> None:
        self._large_states, self._recorder, self._cipher = large_states, recorder, cipher

    async def _record(self, content: bytes, max_inline_bytes: int, whole: Fact, reference: Fact) -> None:
        """Record the fact with its content, or a fact that refers to it. The content is then sent before, encrypted with the attempt's
        key, because it may be sensitive."""
        if len(content) <= max_inline_bytes:
            self._recorder.fact(whole)
            return
        await asyncio.to_thread(lambda: self._large_states.write(self._cipher.encrypt(content)))
        # There is no await from here on, because the file must be named after the number that the record gets.
        self._large_states.place(self._recorder.outbox.last + 1)
        self._recorder.fact(reference)
        self._recorder.outbox.sync()


class Outputs(_LargeFacts):
    async def record(self, outputs: OutputsRead) -> OutputsRead:
        """Record the outputs, and return them as they count: those that hold a secret are sensitive."""
        outputs = self._hidden(outputs)
        sensitive = {name: one.value for name, one in outputs.outputs.items() if one.is_sensitive}
        self._recorder.redactor.add(*names.secrets_of({"secret": sensitive}))
        content = msgspec.json.encode(outputs.outputs)
        reference = OutputsRead({}, hashlib.sha256(content).hexdigest(), is_inline=False)
        await self._record(content, MAX_INLINE_OUTPUTS_BYTES, outputs, reference)
        return outputs

    def _hidden(self, outputs: OutputsRead) -> OutputsRead:
        hidden = facts.hide_outputs(outputs, self._recorder.redactor)
        for name, one in hidden.outputs.items():
            if one.is_sensitive and not outputs.outputs[name].is_sensitive:
                self._recorder.say(f"Output {name} holds a secret, so it is treated as sensitive")
        return hidden


class PlanDiffs(_LargeFacts):
    async def record(self, describe: Callable[[bytes], PlanDescription], printed: bytes) -> None:
        """Compare what the engine printed and record the diff. Sensitive values stay in the memory of this process."""
        content = await asyncio.to_thread(lambda: document.build(describe(printed), self._recorder.redactor.mask_text))
        sha256 = hashlib.sha256(content).hexdigest()
        await self._record(content, MAX_INLINE_DIFF_BYTES, PlanDescribed(sha256, content), PlanDescribed(sha256))

    async def record_json(self, make: Callable[[Mask], PlanJson], plan_sha256: str) -> None:
        """Record the JSON of a plan, from which `make` leaves out the sensitive values. Raises TooLarge if it cannot be kept.

        `plan_sha256` is the hash of the plan that it describes.
        """
        content = await asyncio.to_thread(lambda: plan_json.pack(make(self._recorder.redactor.mask_text)))
        if len(content) > MAX_DIFF_BYTES:
            raise TooLarge(f"its JSON has {len(content):,} bytes. At most {MAX_DIFF_BYTES:,} are kept")
        sha256 = hashlib.sha256(content).hexdigest()
        inline = PlanShown(sha256, content, plan_sha256)
        await self._record(content, MAX_INLINE_DIFF_BYTES, inline, PlanShown(sha256, plan_sha256=plan_sha256))
