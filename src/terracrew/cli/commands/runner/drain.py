"""`terracrew runner drain`, `undrain`, `disable`, `enable` and `remove`: whether a runner gets jobs.

They say what that does to running jobs and to the modules that the runner serves, and wait until it is done.
"""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from terracrew.api.runners import (
    Dependents,
    DrainRequest,
    Remaining,
    RunnerChange,
    RunnerRemoval,
    RunnerView,
)
from terracrew.cli.arguments import name_completion
from terracrew.cli.arguments.references import api_path
from terracrew.cli.arguments.values import Duration
from terracrew.cli.connection import deadline
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output, streams
from terracrew.errors import Conflict, NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api

MAX_COUNTED_MODULES = 1000
MAX_NAMED_JOBS = 5
POLL_SECONDS = 1.0
_path = click.argument("path", shell_complete=name_completion.runners)
_timeout = click.option(
    "--timeout", type=Duration(), metavar="TIME", help="Wait for at most this long (90s, 30m, 24h)."
)


@click.command("drain")
@_path
@click.option("--wait", is_flag=True, help="Return when its last job has ended, and show what is left meanwhile.")
@_timeout
@output.with_target
def drain(target: Target, path: str, wait: bool, timeout: int | None) -> output.CommandResult:
    """Drain the runner PATH: it finishes its jobs and gets no new ones.

    With --json --wait, the answer is what remains: nothing. After a timeout the exit code is 13, and the drain continues.
    """
    api = target.api()
    found = api.post(f"{api_path(path)}/drain", DrainRequest(on=True), RunnerView)
    if not wait and timeout is None:
        words = f"Draining {path}: it finishes its jobs and takes no new ones"
        return output.message(found, words, *_waiting_modules(api, path))
    with deadline.deadline(timeout, f"the drain of {path}"):
        left = _until_drained(api, found.id)
    return output.message(left, f"{left.path} is drained: it has no jobs")


@click.command("undrain")
@_path
@output.with_target
def undrain(target: Target, path: str) -> output.CommandResult:
    """End the drain of the runner PATH: it gets jobs again. This also stops its removal."""
    found = target.api().post(f"{api_path(path)}/drain", DrainRequest(on=False), RunnerView)
    return output.message(found, f"{path} takes jobs again")


@click.command("disable")
@_path
@output.with_target
def disable(target: Target, path: str) -> output.CommandResult:
    """Disable the runner PATH: it stays connected and reports, and gets no new jobs."""
    api = target.api()
    made = api.patch(api_path(path), RunnerChange(is_disabled=True), RunnerView)
    jobs = f"; it finishes its {_count(made.jobs, 'job')}" if made.jobs else ""
    words = f"disabled {made.path}: it gets no new jobs{jobs}"
    return output.message(made, words, *_waiting_modules(api, made.id))


@click.command("enable")
@_path
@output.with_target
def enable(target: Target, path: str) -> output.CommandResult:
    """Enable the runner PATH again."""
    made = target.api().patch(api_path(path), RunnerChange(is_disabled=False), RunnerView)
    but = ", but it drains: `terracrew runner undrain` ends that" if made.is_draining else ""
    return output.message(made, f"enabled {made.path}{but}")


@click.command("remove")
@_path
@click.option("--force", is_flag=True, help="Remove it at once. Its running jobs then count as lost.")
@click.option("--wait/--no-wait", default=True, help="Whether to wait until its last job has ended [--wait].")
@_timeout
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def remove(target: Target, path: str, force: bool, wait: bool, timeout: int | None, yes: bool) -> output.CommandResult:
    """Remove the runner PATH. It drains first and disappears after its last job; its processes then exit.

    `terracrew runner undrain` stops a removal. After a timeout the exit code is 13, and the removal continues.
    """
    api = target.api()
    if not yes:
        output.ask(_of_removal(api, path, is_forced=force), "Not removed.")
    found = api.delete(api_path(path) + ("?force=true" if force else ""), None, RunnerRemoval)
    if found.remaining is not None and wait:
        with deadline.deadline(timeout, f"the removal of {path}"):
            _until_removed(api, found.remaining.id)
        found = RunnerRemoval(found.path, is_removed=True, remaining=None)
    if found.remaining is None:
        return output.message(found, f"removed {found.path}")
    words = f"removing {found.path}: {_left(found.remaining)}"
    return output.message(found, words, f"`terracrew runner undrain {path}` stops the removal")


def _of_removal(api: "Api", runner: str, *, is_forced: bool) -> str:
    """Return the question that a person answers before a runner is removed."""
    left = api.get(f"{api_path(runner)}/remaining", Remaining)
    parts = [f"Remove the runner {left.path}{' at once' if is_forced else ''}?"]
    if left.job_count and is_forced:
        parts.append(
            f"It loses its right to {_jobs(left)} now: what their executors still deliver counts; otherwise a job "
            "that has changed nothing is queued again, and the module of any other job is in doubt until somebody has looked."
        )
    elif left.job_count:
        parts.append(f"It finishes {_jobs(left)} first and takes no new ones.")
    return " ".join([*parts, *_left_alone(api, runner)])


def _waiting_modules(api: "Api", runner: str) -> list[str]:
    """Say to a person at a terminal which modules no other runner serves now."""
    return _left_alone(api, runner) if sys.stderr.isatty() and not output.wants_json() else []


def _left_alone(api: "Api", runner: str) -> list[str]:
    found = api.get(f"{api_path(runner)}/dependents", Dependents)
    parts: list[str] = []
    if count := found.module_count:
        number = f"more than {MAX_COUNTED_MODULES}" if count > MAX_COUNTED_MODULES else str(count)
        what = f"{number} module{'' if count == 1 else 's'}{_names(found.modules, count)}"
        verb = "has" if count == 1 else "have"
        parts.append(f"{what} {verb} no other runner: new jobs wait there.")
    if count := found.pinned_count:
        what = f"{_count(count, 'module')}{_names(found.pinned, count)}"
        parts.append(f"{what} may use only this runner.")
    if count := found.waiting_plans:
        parts.append(
            f"{count} job{' waits' if count == 1 else 's wait'} with a plan of this runner and must plan again elsewhere."
        )
    return parts


def _names(paths: list[str], count: int) -> str:
    return f" ({', '.join(paths)}{', …' if count > len(paths) else ''})" if paths else ""


def _until_drained(api: "Api", runner: str) -> Remaining:
    """Return what remains of a draining runner once it has nothing left to finish."""
    deadline.wait_out(api)
    with _progress() as show:
        while True:
            found = api.get(f"{api_path(runner)}/remaining", Remaining)
            if found.is_drained:
                return found
            if not found.is_draining:
                raise Conflict(f"{found.path} does not drain any more: somebody has ended the drain")
            show(f"draining {found.path}: {_left(found)}")
            time.sleep(POLL_SECONDS)


def _until_removed(api: "Api", runner_id: str) -> None:
    """Return once the record of a runner that is being removed is gone. The id is needed: its path may be used again."""
    deadline.wait_out(api)
    with _progress() as show:
        while True:
            try:
                found = api.get(f"{api_path(runner_id)}/remaining", Remaining)
            except NotFound:
                return
            if found.removing_since is None:
                raise Conflict(f"{found.path} is not being removed any more: somebody has ended its drain")
            show(f"removing {found.path}: {_left(found)}")
            time.sleep(POLL_SECONDS)


def _left(remaining: Remaining) -> str:
    """Say what a runner still has to finish: `2 jobs left (#17, #18)`."""
    if remaining.job_count:
        return f"{_jobs(remaining)} left"
    if remaining.delivering:
        return f"{_count(remaining.delivering, 'lost attempt')} still delivering"
    return "nothing left"


def _jobs(remaining: Remaining) -> str:
    """Count the jobs of a runner, and name the first ones: `2 jobs (#17, #18)`."""
    numbers = [f"#{each.number}" for each in remaining.jobs[:MAX_NAMED_JOBS]]
    more = ", …" if numbers and remaining.job_count > len(numbers) else ""
    return _count(remaining.job_count, "job") + (f" ({', '.join(numbers)}{more})" if numbers else "")


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
