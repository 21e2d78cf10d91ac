"""Waits until a runner is drained or removed, and shows what it still has to finish."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection import outages
from terracrew.cli.printing import output, terminal
from terracrew.errors import Conflict, NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api

POLL_SECONDS = 1.0
MAX_NAMED_JOBS = 5


def until_drained(api: "Api", runner: str) -> dict[str, Any]:
    """Return what remains of a draining runner once it has nothing left to finish."""
    outages.wait_out(api)
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
    outages.wait_out(api)
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
    stream = terminal.unguarded_stderr()
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
