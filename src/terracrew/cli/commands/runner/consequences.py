"""Says what a command does to running jobs and to the modules that a runner serves, and waits until it is done."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from terracrew.cli.arguments.references import api_path
from terracrew.cli.connection import deadline
from terracrew.cli.printing import output, streams
from terracrew.errors import Conflict, NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api

MAX_COUNTED_MODULES = 1000


def of_removal(api: "Api", runner: str, *, is_forced: bool) -> str:
    """Return the question that a person answers before a runner is removed."""
    left = api.get(f"{api_path(runner)}/remaining")
    parts = [f"Remove the runner {left['path']}{' at once' if is_forced else ''}?"]
    if left["job_count"] and is_forced:
        parts.append(
            f"It loses its right to {jobs(left)} now: what their executors still deliver counts; otherwise a job "
            "that has changed nothing is queued again, and the module of any other job is in doubt until somebody has looked."
        )
    elif left["job_count"]:
        parts.append(f"It finishes {jobs(left)} first and takes no new ones.")
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


POLL_SECONDS = 1.0
MAX_NAMED_JOBS = 5


def until_drained(api: "Api", runner: str) -> dict[str, Any]:
    """Return what remains of a draining runner once it has nothing left to finish."""
    deadline.wait_out(api)
    with _progress() as show:
        while True:
            found = api.get(f"{api_path(runner)}/remaining")
            if found["is_drained"]:
                return found
            if not found["is_draining"]:
                raise Conflict(f"{found['path']} does not drain any more: somebody has ended the drain")
            show(f"draining {found['path']}: {left(found)}")
            time.sleep(POLL_SECONDS)


def until_removed(api: "Api", runner_id: str) -> None:
    """Return once the record of a runner that is being removed is gone. The id is needed: its path may be used again."""
    deadline.wait_out(api)
    with _progress() as show:
        while True:
            try:
                found = api.get(f"{api_path(runner_id)}/remaining")
            except NotFound:
                return
            if found["removing_since"] is None:
                raise Conflict(f"{found['path']} is not being removed any more: somebody has ended its drain")
            show(f"removing {found['path']}: {left(found)}")
            time.sleep(POLL_SECONDS)


def left(remaining: dict[str, Any]) -> str:
    """Say what a runner still has to finish: `2 jobs left (#17, #18)`."""
    if remaining["job_count"]:
        return f"{jobs(remaining)} left"
    if remaining["delivering"]:
        return f"{_count(remaining['delivering'], 'lost attempt')} still delivering"
    return "nothing left"


def jobs(remaining: dict[str, Any]) -> str:
    """Count the jobs of a runner, and name the first ones: `2 jobs (#17, #18)`."""
    numbers = [f"#{each['number']}" for each in remaining["jobs"][:MAX_NAMED_JOBS]]
    more = ", …" if numbers and remaining["job_count"] > len(numbers) else ""
    return _count(remaining["job_count"], "job") + (f" ({', '.join(numbers)}{more})" if numbers else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@contextmanager
def _progress() -> Generator[Callable[[str], None]]:
    """Yield a function that shows a text: on a terminal in one line that changes, otherwise as a line for each new text."""
    stream = streams.unguarded_stderr()
    if not sys.stderr.isatty():
        shown: list[str] = []

        def note(text: str) -> None:
            if shown[-1:] != [text]:
                shown.append(text)
                output.note(text)

        yield note
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(file=stream, highlight=False).status("…") as status:
        began = time.monotonic()
        yield lambda text: status.update(f"{escape(text)} [dim]{time.monotonic() - began:.0f} s[/dim]")
