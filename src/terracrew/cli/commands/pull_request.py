"""`terracrew pull-request`: shows pull requests with their plans, and does what a comment on the forge could do."""

import click

from terracrew.api.pull_requests import (
    AllowCommit,
    ApplyPullRequest,
    PullRequestCommand,
    PullRequestListed,
    PullRequestOutcome,
    PullRequestView,
)
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.wording import pull_request_words as words

_pull_request = click.argument("pull_request")
_modules = click.argument("modules", nargs=-1)
_COMMIT_CHARACTERS = 12


@click.group("pull-request", cls=LazyGroup)
def pull_request() -> None:
    """Show pull requests with the plans of the modules that they touch; plan again, apply and cancel.

    PULL_REQUEST is `owner/repository#number` or an id.
    """


@pull_request.command(
    "list", epilog=output.examples("terracrew pull-request list", "terracrew pull-request list --state merged")
)
@click.option(
    "--state", type=click.Choice(list(words.FILTERS)), default="open", show_default=True, help="Which ones to list."
)
@output.with_target
def list_pull_requests(target: Target, state: str) -> output.CommandResult:
    """List pull requests, the newest first."""
    items = list(target.api().list("/pull-requests", PullRequestListed, only=state))
    rows = [
        (
            each.name,
            each.title,
            each.author,
            each.state,
            each.head_commit[:_COMMIT_CHARACTERS],
            each.problem or words.counted(each.modules) or "touches no module",
            output.age(each.changed_at),
        )
        for each in items
    ]
    columns = ("PULL REQUEST", "TITLE", "AUTHOR", "STATE", "COMMIT", "MODULES", "CHANGED")
    return output.listing(items, columns, rows, empty="no pull requests: `terracrew forge list` shows what is watched")


@pull_request.command("show", epilog=output.examples("terracrew pull-request show 'acme/network#12'"))
@_pull_request
@output.with_target
def show(target: Target, pull_request: str) -> output.CommandResult:
    """Show the modules that PULL_REQUEST touches, with their plans."""
    found = target.api().get(_path(pull_request), PullRequestView)
    rows = [
        (
            each.path,
            words.STATES[each.state],
            each.reason or each.counts,
            f"#{each.plan_number}" if each.plan_number else "",
            f"#{each.apply_number}" if each.apply_number else "",
            each.apply,
        )
        for each in found.touched
    ]
    head, base = found.head_commit[:_COMMIT_CHARACTERS], found.base_commit[:_COMMIT_CHARACTERS]
    notes = [f"{found.name}: {found.title}, by {found.author}, {found.state}, {found.url}"]
    notes += [f"planned as {head} merged into {found.base_branch} at {base}"] if base else []
    notes += [found.problem] if found.problem else []
    notes += [words.pending(each.path, each.folder, each.reason) for each in found.pending]
    notes += [f"the forge does not show it: {found.show_problem}"] if found.show_problem else []
    notes += (
        [f"to allow this commit: terracrew pull-request allow {pull_request} {found.head_commit}"]
        if found.may_allow
        else []
    )
    columns = ("MODULE", "STATE", "", "PLAN", "APPLY", "APPLIED BY")
    return output.listing(found, columns, rows, empty="it touches no module", notes=notes)


@pull_request.command(
    "plan",
    epilog=output.examples(
        "terracrew pull-request plan 'acme/network#12'",
        "terracrew pull-request plan 'acme/network#12' platform/network",
    ),
)
@_pull_request
@_modules
@output.with_target
def plan(target: Target, pull_request: str, modules: tuple[str, ...]) -> output.CommandResult:
    """Plan MODULES of PULL_REQUEST again, or all that it touches."""
    asked = PullRequestCommand(modules=list(modules))
    return _answered(target.api().post(f"{_path(pull_request)}/plan", asked, PullRequestOutcome))


@pull_request.command(
    "apply",
    epilog=output.examples(
        "terracrew pull-request apply 'acme/network#12'",
        "terracrew pull-request apply 'acme/network#12' platform/network \\",
        "    --commit COMMIT",
    ),
)
@_pull_request
@_modules
@click.option(
    "--commit", metavar="COMMIT", help="The newest commit that you have looked at; by default the newest one now."
)
@output.with_target
def apply(target: Target, pull_request: str, modules: tuple[str, ...], commit: str | None) -> output.CommandResult:
    """Apply the plans of MODULES of PULL_REQUEST, or of all that it changes, with all of their approvals.

    Nothing is applied if the pull request has another commit by then. The exit code is 1 if something was not applied.
    """
    found = target.api().get(_path(pull_request), PullRequestView)
    plans = [each.plan_job_id for each in found.touched if each.plan_job_id]
    asked = ApplyPullRequest(modules=list(modules), head_commit=commit or found.head_commit, plans=plans)
    return _answered(target.api().post(f"{_path(pull_request)}/apply", asked, PullRequestOutcome))


@pull_request.command("cancel", epilog=output.examples("terracrew pull-request cancel 'acme/network#12'"))
@_pull_request
@_modules
@output.with_target
def cancel(target: Target, pull_request: str, modules: tuple[str, ...]) -> output.CommandResult:
    """Cancel the plans of MODULES of PULL_REQUEST, and applies that have not begun."""
    asked = PullRequestCommand(modules=list(modules))
    return _answered(target.api().post(f"{_path(pull_request)}/cancel", asked, PullRequestOutcome))


@pull_request.command(
    "allow",
    epilog=output.examples("terracrew pull-request allow 'acme/network#12' COMMIT"),
)
@_pull_request
@click.argument("commit")
@output.with_target
def allow(target: Target, pull_request: str, commit: str) -> output.CommandResult:
    """Let COMMIT of PULL_REQUEST, which comes from a fork, be planned with the credentials of the modules. Look at it first.

    All digits of the commit are needed.
    """
    asked = AllowCommit(commit=commit)
    return _answered(target.api().post(f"{_path(pull_request)}/allow", asked, PullRequestOutcome))


def _answered(found: PullRequestOutcome) -> output.CommandResult:
    return output.CommandResult(found, lambda: click.echo(found.message), exit_code=1 if found.refused else 0)


def _path(pull_request: str) -> str:
    return f"/pull-requests/{segment(pull_request)}"
