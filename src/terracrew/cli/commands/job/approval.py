"""Commands for what only a person can decide about a job: to approve, decline or apply its plan, and whether a lost attempt is gone."""

import sys
from typing import TYPE_CHECKING

import click

from terracrew.api.job_views import AttemptReport, JobView
from terracrew.api.jobs import (
    ApplyPlan,
    Approval,
    ApprovedJob,
    Decline,
    Job,
    JobStatus,
    Plan,
    Replan,
)
from terracrew.cli.arguments import name_completion, values
from terracrew.cli.commands.job import diff, follow, lost_resources, render, run
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Conflict
from terracrew.protocol.spec import JobType
from terracrew.wording import approval_words, module_words, plan_option_words, plan_words

if TYPE_CHECKING:
    from terracrew.client.http import Api

_MAX_RESOURCES_SHOWN = 30
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command(
    "approve",
    epilog=output.examples(
        "terracrew job approve 12",
        'terracrew job approve 12 --comment "The snapshot is taken."',
    ),
)
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--plan", type=values.WholeNumber(min=0), metavar="N", help="Approve only if this is still the plan of attempt N."
)
@click.option("--comment", default="", help="What you want to say about it; it is shown on the job with your name.")
@_yes
@output.with_target
def approve(target: Target, job_id: str, plan: int | None, comment: str, yes: bool) -> output.CommandResult:
    """Show the plan of the job JOB and approve it. The job continues when as many people as it needs have approved it."""
    api = target.api()
    found, kept = _waiting(api, job_id, plan)
    show_plan(api, found, kept)
    if found.is_plan_stale:
        raise Conflict(
            f"the state of {found.module_path} has changed since this plan was made: it cannot be approved",
            hint=f"`terracrew job replan {found.number}` makes a new one",
        )
    if not yes:
        _ask(found)
    # The request names the plan and the doubts that were shown. If either has changed since, the server refuses.
    after = api.post(f"/jobs/{found.id}/approve", Approval(kept.attempt, found.seen_doubts, comment), ApprovedJob)
    if after.status is JobStatus.AWAITING_APPROVAL:
        counted, needed = after.approvals_counted, after.approvals_needed
        more = approval_words.missing(needed - counted)
        words = f"{counted} of {needed} approvals; job {after.number} still waits: {more}"
    else:
        made_by = f"attempt {kept.attempt}" if kept.attempt else f"job {found.plan_job_number}"
        words = f"job {after.number} continues with the plan of {made_by}"
    return output.message(after, f"approved: {words}")


@click.command(
    "decline",
    epilog=output.examples(
        'terracrew job decline 12 --reason "Not before Monday."',
    ),
)
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--reason", default="", help="The reason, which is shown on the job. On a terminal, it is asked for.")
@click.option(
    "--plan", type=values.WholeNumber(min=0), metavar="N", help="Decline only if this is still the plan of attempt N."
)
@_yes
@output.with_target
def decline(target: Target, job_id: str, reason: str, plan: int | None, yes: bool) -> output.CommandResult:
    """Show the plan of the job JOB and end the job without applying it."""
    api = target.api()
    found, kept = _waiting(api, job_id, plan)
    show_plan(api, found, kept)
    if not yes:
        if not reason and sys.stdin.isatty():
            reason = click.prompt("Why (shown on the job)", default="", show_default=False, err=True)
        output.ask(f"Decline the plan of job {found.number} in {found.module_path}?", "Not declined.")
    after = api.post(f"/jobs/{found.id}/decline", Decline(kept.attempt, reason), Job)
    return output.message(after, f"declined: {follow.describe(after)}")


@click.command("replan")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--plan",
    type=values.WholeNumber(min=0),
    metavar="N",
    help="Replan only if the job still waits with the plan of attempt N.",
)
@lost_resources.import_lost
@output.with_target
def replan(
    target: Target, job_id: str, plan: int | None, lost_job: str | None, left_out: tuple[str, ...]
) -> output.CommandResult:
    """Let the job JOB replace the plan that it waits with by a new one.

    Use it when the state has changed since, or after you have imported or removed what a change that was cut short left behind.
    """
    api = target.api()
    found, kept = _waiting(api, job_id, plan)
    body = Replan(kept.attempt, lost_resources.wanted(lost_job, left_out))
    after = api.post(f"/jobs/{found.id}/replan", body, Job)
    for each in found.doubts:
        render.warn(each)
    return output.message(after, f"replanning: {follow.describe(after)}")


def _waiting(api: "Api", job_id: str, plan: int | None) -> tuple[JobView, Plan]:
    """Return the job and its plan if it waits for a decision about this plan; raise Conflict otherwise."""
    found = api.get(f"/jobs/{segment(job_id)}", JobView)
    kept = found.kept_plan
    if found.status is not JobStatus.AWAITING_APPROVAL or kept is None:
        raise Conflict(f"job {found.number} is not waiting for approval: it is {found.status}")
    if plan not in (None, kept.attempt):
        raise Conflict(
            f"job {found.number} waits with the plan of attempt {kept.attempt}, not with that of attempt {plan}",
            hint=f"`terracrew job show {found.number}` shows that plan",
        )
    return found, kept


def _ask(job: JobView) -> None:
    """Ask whether the plan is approved, in other words where the module is in doubt."""
    carry_out = plan_words.carry_out(job.plan, job.type)
    verb = approval_words.button(carry_out, *job.approval_count, is_in_doubt=job.is_in_doubt)
    output.note(approval_words.consequence(*job.approval_count))
    if job.is_in_doubt:
        output.note("You also confirm that you have compared this plan with the resources that exist.")
    output.ask(f"{verb} in {job.module_path}?", "Not approved.")


def show_plan(api: "Api", job: JobView, kept: Plan) -> None:
    """Show the plan of a job that waits with it, or of a PLAN job, and what a person needs to know before it is applied."""
    for each in job.holds:
        output.note(render.hold(each))
    for each in job.doubts:
        output.note(
            "An earlier change was cut short. This plan would create again whatever that change created and no state records:"
        )
        render.show(each)
    facts = [
        ("job", f"#{job.number}  {output.job_type(job)}"),
        ("module", job.module_path),
        ("why", kept.why),
        *((title.lower(), text) for title, text in plan_option_words.rows(job)),
        ("plan", output.plan(job.plan)),
        *(("failed check", plan_words.check(each)) for each in (job.plan.checks if job.plan else ())),
        ("used by", job.used_by and module_words.used_by(job.used_by)),
        *render.approvals(job),
        ("kept" if job.type is JobType.PLAN else "to decide", output.left(kept.decide_by)),
    ]
    output.facts(facts, err=True)
    if diff.show_if_any(api, job):
        return
    resources = plan_words.in_order(job.plan)
    for each in resources[:_MAX_RESOURCES_SHOWN]:
        detail = f"  ({output.text(plan_words.reason(each.detail, each.action))})" if each.detail else ""
        action = click.style(each.action.ljust(8), fg=diff.COLOURS.get(each.action))
        click.echo(f"  {action} {output.text(each.address)}{detail}", err=True)
    if len(resources) > _MAX_RESOURCES_SHOWN:
        click.echo(f"  … and {len(resources) - _MAX_RESOURCES_SHOWN} more", err=True)


_RISK = """If a process of this attempt still runs, it may be changing resources at the same time as the next attempt.
The attempt is fenced: nothing that it reports from now on changes the job or the state. {then}
Nothing in {module} changes before somebody has approved a plan that was made after this."""


@click.command("gone")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--attempt",
    type=values.WholeNumber(min=1),
    metavar="N",
    help="The attempt that is gone; by default the current one.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def gone(target: Target, job_id: str, attempt: int | None, yes: bool) -> output.CommandResult:
    """Confirm that an attempt of JOB that was lost in the middle of a change is gone.

    The attempt is fenced and its job is queued again. Nothing in its module changes before somebody has approved a plan.
    """
    api = target.api()
    return give_up(api, api.get(f"/jobs/{segment(job_id)}", JobView), attempt, yes)


def give_up(api: "Api", job: JobView, attempt: int | None, yes: bool) -> output.CommandResult:
    """Show what is known about the attempt and what giving it up risks, ask, and give it up."""
    number = attempt or job.attempt
    known = api.get(f"/jobs/{job.id}/attempts/{number}", AttemptReport)
    if known.ended_at is not None:
        raise Conflict(f"attempt {number} of job {job.number} has already ended: {known.outcome}")
    if known.lost_at is None:
        raise Conflict(
            f"attempt {number} of job {job.number} is not lost: it is in contact, or has not been silent for long enough",
            hint=f"`terracrew job cancel {job.number}` asks it to end",
        )
    render.show(known)
    then = "The job is canceled, as requested." if job.cancel_mode else "The job is queued again."
    output.note(_RISK.format(then=then, module=job.module_path))
    if not yes:
        output.ask(
            f"Is attempt {number} of job {job.number} gone for certain?", "Nothing was given up: the job still waits."
        )
    after = api.post(f"/jobs/{job.id}/attempts/{number}/gone", None, Job)
    return output.message(after, f"attempt {number} was given up: {follow.describe(after)}")


@click.command(
    "apply",
    epilog=output.examples(
        "terracrew job run platform/network --follow",
        "terracrew job apply 12 --follow",
    ),
)
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--yes", is_flag=True, help="Do not ask.")
@run.waiting_options
@output.with_target
def apply(target: Target, job_id: str, yes: bool, waiting: run.WaitOptions) -> output.CommandResult:
    """Show the plan of the PLAN job JOB, and apply exactly this plan, by a new job.

    It is refused if the state, the source or an input of the module has changed since the plan was made. If something changes
    later, the new job plans again and waits for an approval.
    """
    api = target.api()
    found = api.get(f"/jobs/{segment(job_id)}", JobView)
    show_plan(api, found, _applicable_plan(found))
    if not yes:
        verb = plan_words.apply(found.plan, is_destroy_plan=found.is_destroy_plan)
        output.ask(f"{verb} in {found.module_path}?", "Not applied: no job was queued.")
    made = api.post(f"/jobs/{found.id}/apply", ApplyPlan(found.is_destroy_plan), Job)
    return run.report_made(target, made, waiting)


def _applicable_plan(job: JobView) -> Plan:
    """Return the plan; raise Conflict if there is nothing to show and to apply. The server decides about everything else."""
    if job.type is not JobType.PLAN:
        raise Conflict(f"job {job.number} is {output.job_type(job)}, and only the plan of a PLAN can be applied")
    if job.status is not JobStatus.SUCCEEDED:
        raise Conflict(f"there is no plan to apply: {follow.describe(job)}")
    if not plan_words.has_changes(job.plan):
        raise Conflict(f"the plan of job {job.number} changes nothing, so there is nothing to apply")
    if job.taken_by_number:
        raise Conflict(
            f"job {job.taken_by_number} has taken this plan already",
            hint=f"`terracrew job show {job.taken_by_number}` shows what became of it",
        )
    if job.plan_problem or job.kept_plan is None:
        problem = job.plan_problem or f"the plan of job {job.number} is no longer kept"
        raise Conflict(problem, hint=f"`terracrew job rerun {job.number} --follow` plans again")
    return job.kept_plan
