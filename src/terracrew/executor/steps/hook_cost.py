"""What a hook after `plan` says of the monthly cost of the plan, in the file that TERRACREW_COST_FILE names (`docs/policies.md`)."""

import asyncio
from pathlib import Path

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.errors import Invalid, TerracrewError
from terracrew.executor.steps.context import StepContext
from terracrew.protocol.events import PlanCost
from terracrew.protocol.spec import Step, StepHook

VARIABLE = "TERRACREW_COST_FILE"
MAX_COST_BYTES = 256 << 10
_FILE = "cost.json"
_cost = msgspec.json.Decoder(PlanCost)


def variables(context: StepContext, wanted: StepHook) -> dict[str, str]:
    """Return the variable for a hook that sees the plan that was just made. An earlier file is removed."""
    if not _is_asked(wanted) or not context.plan.sha256:
        return {}
    path = _path(context)
    path.unlink(missing_ok=True)
    return {VARIABLE: str(path)}


async def record(context: StepContext, wanted: StepHook) -> None:
    """Record what the hook has written, if it has. Raises Invalid for what is no cost: nobody should approve a plan whose cost could not
    be read, and an earlier hook may have said another one."""
    path = _path(context)
    if not _is_asked(wanted) or not context.plan.sha256 or (not path.is_symlink() and not path.exists()):
        return
    try:
        content = await asyncio.to_thread(read_produced, path, MAX_COST_BYTES)
        context.recorder.fact(_cost.decode(content))
    except (TerracrewError, OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"{wanted} has written a cost that cannot be read: {str(error)[:300]}") from error


def _is_asked(wanted: StepHook) -> bool:
    return wanted.step is Step.PLAN and wanted.when == "after"


def _path(context: StepContext) -> Path:
    return context.files.produced / _FILE
