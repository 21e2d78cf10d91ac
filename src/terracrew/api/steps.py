"""What groups and modules add to the steps of their jobs."""

from datetime import datetime
from typing import Annotated

import msgspec

from terracrew.protocol.spec import Hook, Step

_MAX_ENGINES = 8
EngineFlags = Annotated[dict[str, list[str]], msgspec.Meta(max_length=_MAX_ENGINES)]


class NewStepSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to add to a step. It replaces what this place added before."""

    before: Hook | None = None
    """What runs before the step. If it fails, the step does not run, and the job fails."""
    after: Hook | None = None
    """What runs after the step, also if the step failed: the variable TERRACREW_STEP_STATUS is SUCCEEDED or FAILED."""
    flags: EngineFlags = {}
    """Arguments to add to the command of the step, by engine: `{"tofu": ["-parallelism=5"]}`."""


class StepSettings(NewStepSettings, frozen=True, kw_only=True):
    """What a place adds to a step."""

    step: Step
    path: str
    """The path of the group or module; empty for the organization."""
    changed_by: str
    changed_at: datetime
