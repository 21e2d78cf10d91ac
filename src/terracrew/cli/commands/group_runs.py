"""`terracrew group plan`, `apply`, `destroy`, `progress`, `runs` and `stop`: run all modules of a group together."""

import sys
import time
from typing import TYPE_CHECKING

import click

from terracrew.api.group_runs import AppliedPlans, GroupRun, GroupRunView, NewGroupRun, RunModuleView, RunType
from terracrew.api.module_views import ModuleListed
from terracrew.api.pages import Page
from terracrew.cli.arguments import name_completion, options
from terracrew.cli.connection import deadline as outages
from terracrew.cli.connection.deadline import deadline
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound
from terracrew.wording import plan_words

if TYPE_CHECKING:
    from terracrew.client.http import Api

POLL_SECONDS = 0.5
EXIT_CODES = {"SUCCEEDED": 0, "FAILED": 10, "CANCELED": 11}
_path = click.argument("path", shell_complete=name_completion.groups)
_resume = click.option(
    "--resume", "is_resumed", is_flag=True, help="Continue the newest run: only what did not succeed is run."
)
_detach = click.option("--detach", is_flag=True, help="Do not wait: the server continues the run by itself.")


@click.command(
    "plan",
    epilog=output.examples(
        "terracrew group plan platform",
        "terracrew group apply platform --planned",
    ),
)
@_path
@_resume
@_detach
@options.timeout
@output.with_target
def plan(target: Target, path: str, is_resumed: bool, detach: bool, timeout: float | None) -> output.CommandResult:
    """Plan all modules in the group PATH and below it, with the outputs that exist now, and change nothing."""
    api = target.api()
    run = _begun(api, path, "PLAN", is_resumed=is_resumed)
    return _until_end(api, path, run, detach=detach, timeout=timeout)


@click.command(
    "apply",
    epilog=output.examples(
        "terracrew group apply platform --planned",
        "terracrew group apply platform",
        "terracrew group apply platform --resume",
    ),
)
@_path
@_resume
@click.option(
    "--planned",
    "is_planned",
    is_flag=True,
    help="Apply the plans of the newest `group plan`, as they were shown, and wait for nothing.",
)
@_detach
@options.timeout
@output.with_target
def apply(
    target: Target, path: str, is_resumed: bool, is_planned: bool, detach: bool, timeout: float | None
) -> output.CommandResult:
    """Apply all modules in the group PATH and below it, each after those whose outputs it uses.

    What depends on a module that failed is not run. The server continues the run if this command is interrupted.
    """
    api = target.api()
    if is_planned:
        return _apply_planned(api, path)
    run = _begun(api, path, "APPLY", is_resumed=is_resumed)
    return _until_end(api, path, run, detach=detach, timeout=timeout)


@click.command("destroy")
@_path
@_resume
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@_detach
@options.timeout
@output.with_target
def destroy(
    target: Target, path: str, is_resumed: bool, yes: bool, detach: bool, timeout: float | None
) -> output.CommandResult:
    """Destroy everything that the modules in the group PATH and below it manage, each before those whose outputs it uses."""
    api = target.api()
    _confirm(api, path, yes)
    run = _begun(api, path, "DESTROY", is_resumed=is_resumed)
    return _until_end(api, path, run, detach=detach, timeout=timeout)


@click.command("runs")
@_path
@output.with_target
def list_runs(target: Target, path: str) -> output.CommandResult:
    """List the runs of the group PATH, the newest first."""
    items = list(target.api().list(_place(path), GroupRun))
    rows = [(each.id, each.type, each.status, each.started_by_name, output.age(each.created_at)) for each in items]
    empty = f"no runs yet: `terracrew group apply {path}`"
    return output.listing(items, ("RUN", "TYPE", "STATUS", "STARTED BY", "CREATED"), rows, empty=empty)


@click.command("progress")
@_path
@click.option("--run", "run_id", metavar="RUN", help="The id of a run; by default the newest one.")
@click.option("--follow", "-f", "following", is_flag=True, help="Wait until the run has ended.")
@options.timeout
@output.with_target
def progress(
    target: Target, path: str, run_id: str | None, following: bool, timeout: float | None
) -> output.CommandResult:
    """Show how far the newest run of the group PATH is: each module with its job, and why it waits."""
    api = target.api()
    run = api.get(f"{_place(path)}/{segment(run_id or _newest(api, path).id)}", GroupRunView)
    if following:
        return _until_end(api, path, run, detach=False, timeout=timeout)
    return output.CommandResult(run, lambda: _print(run))


@click.command("stop")
@_path
@output.with_target
def stop(target: Target, path: str) -> output.CommandResult:
    """Stop the run of the group PATH: no more jobs are queued, and those that have started end by themselves."""
    api = target.api()
    run = api.post(f"{_place(path)}/{_newest(api, path).id}/stop", None, GroupRunView)
    return output.message(
        run, f"stopped the run of {path}", f"resume it: terracrew group {run.type.lower()} {path} --resume"
    )


def _apply_planned(api: "Api", path: str) -> output.CommandResult:
    """Apply the plans of the newest run of a group, and show the job of each. The exit code is 10 if a plan was left out."""
    newest = _newest(api, path)
    if newest.type != "PLAN":
        raise Invalid(
            f"the newest run of {path} is {newest.type}, so there are no plans to apply",
            hint=f"terracrew group plan {path}",
        )
    items = api.post(f"{_place(path)}/{newest.id}/apply", None, AppliedPlans).items
    rows = [(each.path, f"#{each.job_number}" if each.job_number else "", each.problem) for each in items]
    exit_code = EXIT_CODES["FAILED"] if any(each.problem for each in items) else 0
    return output.CommandResult(items, lambda: output.table(("MODULE", "JOB", ""), rows, empty=""), exit_code)


def _place(path: str) -> str:
    return f"/groups/{segment(path)}/runs"


def _newest(api: "Api", path: str) -> GroupRun:
    found = api.get(_place(path), Page[GroupRun], limit=1).items
    if not found:
        raise NotFound(f"{path} has no run yet", hint=f"terracrew group apply {path}")
    return found[0]


def _begun(api: "Api", path: str, kind: RunType, *, is_resumed: bool) -> GroupRunView:
    """Begin a run, or resume the newest one."""
    if not is_resumed:
        return api.post(_place(path), NewGroupRun(kind), GroupRunView)
    newest = _newest(api, path)
    if newest.type != kind:
        raise Invalid(
            f"the newest run of {path} is {newest.type}, not {kind}, so there is none to resume",
            hint=f"terracrew group {kind.lower()} {path}",
        )
    return api.post(f"{_place(path)}/{newest.id}/resume", None, GroupRunView)


def _confirm(api: "Api", path: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(
            f"this destroys everything that the modules below {path} manage, and there is no terminal to ask on: "
            "add --yes to confirm it"
        )
    found = [each.path for each in api.list("/modules", ModuleListed, group=path, recursive=True)]
    output.name_some(found, len(found))
    output.ask(
        f"Destroy everything that these {len(found)} modules manage? This cannot be undone.",
        "Not destroyed: no job was queued.",
    )


def _until_end(
    api: "Api", path: str, run: GroupRunView, *, detach: bool, timeout: float | None
) -> output.CommandResult:
    """Print what happens in a run until it ends, and return it with the exit code."""
    if detach:
        return output.message(run, run.id, f"it continues on the server: terracrew group progress {path} --follow")
    outages.wait_out(api)
    notes = _Notes(is_silent=output.wants_json())
    with deadline(timeout, f"the run of {path}"):
        while run.status == "RUNNING":
            notes.print_changed(run)
            time.sleep(POLL_SECONDS)
            run = api.get(f"{_place(path)}/{run.id}", GroupRunView)
    notes.print_changed(run)
    return output.CommandResult(run, lambda: _print_end(path, run), EXIT_CODES[run.status])


def _print_end(path: str, run: GroupRunView) -> None:
    _print(run)
    if run.status != "SUCCEEDED":
        output.note(f"continue it: terracrew group {run.type.lower()} {path} --resume")
    if run.type == "PLAN" and any(each.is_plan_applicable for each in run.modules):
        output.note(f"to apply these plans: terracrew group apply {path} --planned")


class _Notes:
    """Prints what has changed in a run, one line for each module, and how many modules are done."""

    def __init__(self, *, is_silent: bool) -> None:
        self._is_silent = is_silent
        self._printed: dict[str, str] = {}

    def print_changed(self, run: GroupRunView) -> None:
        done = sum(each.status not in ("WAITING", "RUNNING") for each in run.modules)
        for each in run.modules:
            words = _status(each)
            if each.status != "WAITING" and self._printed.get(each.path) != words and not self._is_silent:
                output.note(f"[{done}/{len(run.modules)}] {each.path}: {words}")
            self._printed[each.path] = words


def _print(run: GroupRunView) -> None:
    rows = [
        (each.path, _shown_status(each), f"#{each.job_number}" if each.job_number else "", _why(each))
        for each in run.modules
    ]
    output.table(("MODULE", "STATUS", "JOB", ""), rows, empty="the run has no modules")
    click.echo(f"{run.type} of {run.path or 'the organization'}: {run.status}")


def _status(each: RunModuleView) -> str:
    """Return the status of a module, its job, and why it waits or how it ended."""
    job = f" (job {each.job_number})" if each.job_number else ""
    why = _why(each)
    return f"{_shown_status(each)}{job}" + (f": {why}" if why else "")


def _shown_status(each: RunModuleView) -> str:
    """Return the status of a module: that of its job while it has one, because a job that waits does not run."""
    return each.job_status if each.status == "RUNNING" and each.job_status else each.status


def _why(each: RunModuleView) -> str:
    if each.status == "SUCCEEDED" and each.plan:
        return plan_words.counts(each.plan) if each.has_changes else "no changes"
    if each.status == "WAITING":
        return f"after {', '.join(each.waits_for)}" if each.waits_for else ""
    reason = (each.reason and each.reason.text) or each.message
    if each.job_status == "AWAITING_APPROVAL":
        reason += f"; terracrew job show {each.job_number} shows its plan"
    return output.text(reason)
