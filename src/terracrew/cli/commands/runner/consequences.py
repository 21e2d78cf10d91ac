"""Says in words what a command does to running jobs and to the modules that a runner serves."""

import sys
from typing import TYPE_CHECKING, Any

from terracrew.cli.commands.runner import remaining
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.printing import output

if TYPE_CHECKING:
    from terracrew.client.http import Api

MAX_COUNTED_MODULES = 1000


def of_removal(api: "Api", runner: str, *, is_forced: bool) -> str:
    """Return the question that a person answers before a runner is removed."""
    left = api.get(f"{api_path(runner)}/remaining")
    parts = [f"Remove the runner {left['path']}{' at once' if is_forced else ''}?"]
    if left["job_count"] and is_forced:
        parts.append(
            f"It loses its right to {remaining.jobs(left)} now: what their executors still deliver counts; otherwise a job "
            "that has changed nothing is queued again, and the module of any other job is in doubt until somebody has looked."
        )
    elif left["job_count"]:
        parts.append(f"It finishes {remaining.jobs(left)} first and takes no new ones.")
    return " ".join([*parts, *_left_alone(api, runner)])


def of_new_token(found: dict[str, Any]) -> str:
    """Return the question that a person answers before a runner gets a new token."""
    connected = sum(each["is_connected"] for each in found["instances"])
    text = f"Give {found['path']} a new token? The old one ends."
    if connected:
        which = (
            "Its connected instance loses its connection"
            if connected == 1
            else f"Its {connected} connected instances lose their connections"
        )
        text += f" {which} within seconds, until it is started with the new token."
    return text + (" Running jobs continue." if found["jobs"] else "")


def waiting_modules(api: "Api", runner: str) -> list[str]:
    """Say to a person at a terminal which modules no other runner serves now."""
    return _left_alone(api, runner) if sys.stderr.isatty() and not output.wants_json() else []


def _left_alone(api: "Api", runner: str) -> list[str]:
    found = api.get(f"{api_path(runner)}/dependents")
    parts: list[str] = []
    if count := found["module_count"]:
        number = f"more than {MAX_COUNTED_MODULES}" if count > MAX_COUNTED_MODULES else str(count)
        what = f"{number} module{'' if count == 1 else 's'}{_names(found['modules'], count)}"
        verb = "has" if count == 1 else "have"
        parts.append(f"{what} {verb} no other runner: new jobs wait there.")
    if count := found["pinned_count"]:
        what = f"{count} module{'' if count == 1 else 's'}{_names(found['pinned'], count)}"
        parts.append(f"{what} may use only this runner.")
    if count := found["waiting_plans"]:
        parts.append(
            f"{count} job{' waits' if count == 1 else 's wait'} with a plan of this runner and must plan again elsewhere."
        )
    return parts


def _names(paths: list[str], count: int) -> str:
    return f" ({', '.join(paths)}{', …' if count > len(paths) else ''})" if paths else ""
