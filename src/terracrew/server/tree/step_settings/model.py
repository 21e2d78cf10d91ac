"""What a group or a module adds to a step of its jobs."""

from collections.abc import Iterable, Sequence

from terracrew.api.steps import NewStepSettings, StepSettings
from terracrew.engine_rules import flags as engine_flags
from terracrew.errors import Invalid
from terracrew.masking import names
from terracrew.protocol.spec import Hook, Step, StepHook

MAX_SCRIPT_CHARACTERS = 65_536
_MAX_ARGUMENTS = 100
_EXAMPLE = "`#!/bin/sh`"


def check(step: Step, wanted: NewStepSettings) -> None:
    """Raise Invalid if a hook could not run, or if a flag would break what Terracrew does with the engine."""
    if not step.is_hookable:
        raise Invalid(f"{step} is not a command of an engine, so nothing can be added to it")
    for name in ("before", "after"):
        hook: Hook | None = getattr(wanted, name)
        if hook is not None:
            _check_hook(name, hook)
    for engine, flags in wanted.flags.items():
        engine_flags.check(engine, step, flags)
        for flag in flags:
            if names.secrets_of_flags([flag]):
                raise Invalid(
                    f"{flag.split('=')[0]}={flag.split('=')[1]}=… would show a secret to everybody who can see this place: "
                    "set it as a secret instead (terracrew input set PLACE NAME --secret)"
                )


def _check_hook(name: str, hook: Hook) -> None:
    if bool(hook.script) == bool(hook.command):
        raise Invalid(f"{name}: a hook has either a script or a command")
    if len(hook.text) > MAX_SCRIPT_CHARACTERS or len(hook.command) > _MAX_ARGUMENTS:
        raise Invalid(
            f"{name}: a hook has at most {MAX_SCRIPT_CHARACTERS:,} characters and a command at most {_MAX_ARGUMENTS} arguments"
        )
    if "\0" in hook.script or any("\0" in argument for argument in hook.command):
        raise Invalid(f"{name}: a hook cannot have a NUL character")
    if hook.script and not hook.script.startswith("#!/"):
        raise Invalid(f"{name}: the first line of a script names its interpreter by an absolute path, as in {_EXAMPLE}")
    if hook.command and not hook.command[0]:
        raise Invalid(f"{name}: the command is empty")


def hooks(found: Sequence[StepSettings]) -> list[StepHook]:
    """Return the hooks in the order in which they run: a group's hooks run around those of what is below it.

    `found` has the highest place first.
    """
    first = [StepHook(each.step, "before", each.before, each.path) for each in found if each.before is not None]
    last = [StepHook(each.step, "after", each.after, each.path) for each in reversed(found) if each.after is not None]
    return first + last


def flags(found: Iterable[StepSettings], engine: str) -> dict[Step, list[str]]:
    """Return the flags of an engine for each step. Those of a lower place come last, so an engine that reads a flag twice uses them."""
    combined: dict[Step, list[str]] = {}
    for each in found:
        if added := each.flags.get(engine):
            combined.setdefault(each.step, []).extend(added)
    return combined
