"""`terracrew job run`, `rerun` and `wait`: queue a job, and wait for its end. A destroy is confirmed first."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from terracrew.api import fields
from terracrew.api.job_views import JobView
from terracrew.api.jobs import Job, NewJob
from terracrew.api.module_views import ModuleView
from terracrew.api.place_settings import LimitsChange
from terracrew.api.plan_options import PlanOptions
from terracrew.api.states import Resources
from terracrew.cli.arguments import name_completion, options, settings, values
from terracrew.cli.arguments import source as sources
from terracrew.cli.commands.job import follow, lost_resources
from terracrew.cli.connection.deadline import deadline
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output, streams
from terracrew.client.address import segment
from terracrew.errors import Invalid
from terracrew.protocol.spec import JobType
from terracrew.wording import approval_words, module_words, plan_option_words

if TYPE_CHECKING:
    from terracrew.client.http import Api

stop_option = click.option("--stop-at-approval", is_flag=True, help="Exit with 14 when the plan waits for approval.")
color_option = click.option(
    "--color/--no-color", default=None, help="Keep the log's colours; by default on a terminal only."
)


class WaitOptions(NamedTuple):
    """Whether and how a command waits for the job that it has queued."""

    is_following: bool
    is_waiting: bool
    stop_at_approval: bool
    timeout: float | None
    color: bool | None


def waiting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that queues a job. It gets them as `waiting`."""

    @wraps(command)
    def run(*args: Any, is_following: bool, is_waiting: bool, **values: Any) -> Any:
        others = (values.pop(each) for each in ("stop_at_approval", "timeout", "color"))
        return command(*args, waiting=WaitOptions(is_following, is_waiting, *others), **values)

    return options.combine(
        click.option("--follow", "-f", "is_following", is_flag=True, help="Print its log until it ends."),
        click.option("--wait", "is_waiting", is_flag=True, help="Wait until it ends, without the log."),
        stop_option,
        options.timeout,
        color_option,
    )(run)


@click.command(
    "run",
    epilog=output.examples(
        "terracrew job run platform/network --follow",
        "terracrew job run platform/network --apply --follow",
        "terracrew job run platform/network --plan --from ./network",
        "terracrew job run platform/network --plan --destroy",
        "terracrew job run platform/network --apply --target module.subnets",
        "terracrew job run platform/network --apply --var size=3 --approval",
    ),
)
@click.argument("module", shell_complete=name_completion.modules)
@click.option("--plan", "is_plan", is_flag=True, help="Only show what would change (the default).")
@click.option("--apply", "is_apply", is_flag=True, help="Plan and apply.")
@click.option(
    "--destroy",
    "is_destroy",
    is_flag=True,
    help="Destroy everything that the module manages. With --plan: only show what it would destroy.",
)
@click.option("--yes", is_flag=True, help="With --destroy: do not ask. Required without a terminal.")
@click.option(
    "--approval", is_flag=True, help="Wait for a person to approve the plan, even if the module does not require it."
)
@click.option(
    "--refresh-only",
    "is_refresh_only",
    is_flag=True,
    help="For OpenTofu and Terraform: only show what was changed outside of the engine; with --apply: record it in the state.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="ADDRESS",
    help="For OpenTofu and Terraform: only this resource or module, and what it depends on. Can be repeated.",
)
@click.option(
    "--replace",
    multiple=True,
    metavar="ADDRESS",
    help="For OpenTofu and Terraform: replace this resource. Can be repeated.",
)
@click.option(
    "--refresh/--no-refresh",
    default=True,
    help="For OpenTofu and Terraform: plan from the state alone, without looking at what exists.",
)
@click.option("--fresh", is_flag=True, help="Run init even if nothing that it reads has changed since an earlier job.")
@click.option(
    "--priority",
    type=values.PRIORITIES,
    help="A job with a higher priority runs first: -100 to 100. By default, the module's own priority.",
)
@lost_resources.import_lost
@click.option("--idempotency-key", metavar="KEY", help="Repeated calls with the same key return the same job.")
@sources.source_options
@sources.input_options
@settings.request_options(LimitsChange, "limits")
@waiting_options
@output.with_target
def run(
    target: Target,
    module: str,
    is_plan: bool,
    is_apply: bool,
    is_destroy: bool,
    yes: bool,
    approval: bool,
    is_refresh_only: bool,
    targets: tuple[str, ...],
    replace: tuple[str, ...],
    refresh: bool,
    fresh: bool,
    priority: int | None,
    lost_job: str | None,
    left_out: tuple[str, ...],
    idempotency_key: str | None,
    source: sources.SourceOptions,
    variables: tuple[str, ...],
    environment: tuple[str, ...],
    waiting: WaitOptions,
    limits: LimitsChange,
) -> output.CommandResult:
    """Queue a job for MODULE. With --from or --git, the job uses that source; the module keeps its own one.

    For a module whose source is a git repository, --branch, --git-tag, --commit or --version alone choose another revision.

    --var and --env are for this job alone. They take precedence over the inputs of the module and of the groups above it.
    """
    kind = job_type(is_plan, is_apply, is_destroy)
    api = target.api()
    if kind is JobType.DESTROY:
        confirm(api, module, yes, targets)
    imports = lost_resources.wanted(lost_job, left_out)
    before = api.get(f"/modules/{segment(module)}", ModuleView).source if source.remote else None
    new = NewJob(
        kind,
        priority=priority,
        source=sources.source(api, source, before),
        needs_approval=approval,
        is_destroy_plan=is_plan and is_destroy,
        is_refresh_only=is_refresh_only,
        targets=list(targets),
        replace=list(replace),
        refresh=refresh,
        is_fresh=fresh,
        inputs=sources.inputs(variables),
        environment=sources.environment(environment),
        import_lost=imports,
        limits=limits if fields.given(limits) else None,
    )
    return report_made(target, follow.queue(api, module, new, idempotency_key), waiting)


def report_made(target: Target, made: Job, waiting: WaitOptions) -> output.CommandResult:
    """Return a job that was just created, or wait for its end and return it with its exit code."""
    page = f"{target.api().base_url}/dashboard/jobs/{made.number}"
    if not waiting.is_following and not waiting.is_waiting:
        return output.message(
            made,
            str(made.number),
            f"job {made.number} is {made.status}: {page}",
            f"its log: terracrew job logs -f {made.number}",
        )
    if not output.wants_json():
        output.note(f"job {made.number}: {page}")
    return _until_end(target, made.id, waiting, made.number)


@click.command("wait")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@stop_option
@options.timeout
@output.with_target
def wait(target: Target, job_id: str, stop_at_approval: bool, timeout: float | None) -> output.CommandResult:
    """Wait until the job JOB ends, print why it waits, and exit with its exit code."""
    return _until_end(target, job_id, WaitOptions(False, True, stop_at_approval, timeout, None))


@click.command("rerun")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--yes", is_flag=True, help="For a DESTROY job: do not ask. Required without a terminal.")
@waiting_options
@output.with_target
def rerun(target: Target, job_id: str, yes: bool, waiting: WaitOptions) -> output.CommandResult:
    """Queue a new job with the same request as the job JOB."""
    api = target.api()
    like = api.get(f"/jobs/{segment(job_id)}", JobView)
    if like.type is JobType.DESTROY:
        confirm(api, like.module_path, yes, like.targets)
    return report_made(target, api.post(f"/jobs/{segment(job_id)}/rerun", None, Job), waiting)


def _until_end(target: Target, job_id: str, waiting: WaitOptions, number: int | None = None) -> output.CommandResult:
    """Wait for the end of a job; with --json, without its log. `number` is what people are told instead of its id."""
    name = job_id if number is None else str(number)
    api = target.api()
    try:
        with deadline(waiting.timeout, f"job {name}"):
            if waiting.is_following and not output.wants_json():
                with streams.log_output(waiting.color) as write:
                    found = follow.follow(api, job_id, write=write, stop_at_approval=waiting.stop_at_approval)
            else:
                found = follow.wait(api, job_id, stop_at_approval=waiting.stop_at_approval)
    except KeyboardInterrupt:
        output.note(f"\nthe job continues; `terracrew job cancel {name}` ends it")
        raise

    def show() -> None:
        follow.print_end(found)
        if command := follow.next_command(found):
            output.note(f"next: {command}")

    return output.CommandResult(found, show, follow.exit_code(found))


def job_type(is_plan: bool, is_apply: bool, is_destroy: bool) -> JobType:
    """Return the type of the job that the flags ask for. Contradicting flags are refused."""
    if is_apply and (is_plan or is_destroy):
        other = "--plan" if is_plan else "--destroy"
        raise Invalid(
            f"--apply and {other} cannot be combined: use one of --plan, --apply and --destroy, or --plan --destroy "
            "to see what a destroy would destroy"
        )
    if is_destroy and not is_plan:
        return JobType.DESTROY
    return JobType.APPLY if is_apply else JobType.PLAN


def confirm(api: "Api", module: str, yes: bool, targets: Sequence[str] = ()) -> None:
    """Return if the person confirms that everything, or these targets, may be destroyed. Without a terminal, --yes is required."""
    if yes:
        return
    options = plan_option_words.command(PlanOptions(targets=list(targets)))
    what = f"everything that {module} manages"
    if targets:
        what = f"{plan_option_words.some(targets)} of {module}, and everything that depends on that"
    if not sys.stdin.isatty():
        raise Invalid(
            f"this destroys {what}, and there is no terminal to ask on: add --yes to confirm it",
            hint=f"to see what would be destroyed: terracrew job run {module} --plan --destroy{options}",
        )
    known = api.get(f"/modules/{segment(module)}", ModuleView)
    found = api.get(f"/modules/{segment(module)}/resources", Resources)
    output.note(_words(module, found))
    if found.problem:
        output.note(f"Its state cannot be read, so they are not named: {found.problem}.")
    output.name_some(found.addresses, found.count or 0)
    if known.used_by:
        output.note(f"{module_words.used_by(known.used_by)}.")
    output.note(approval_words.before_change(known.approval_rules, "DESTROY"))
    output.ask(f"Destroy {what}? This cannot be undone.", "Not destroyed: no job was queued.")


def _words(module: str, found: Resources) -> str:
    if found.count is None:
        return f"It is not known how many resources {module} manages."
    if not found.count:
        return f"{module} manages no resources."
    return f"{module} manages {found.count} resource{'' if found.count == 1 else 's'}:"
