"""Commands for what only a person can decide about a job: its plan, and whether a lost attempt is gone."""

from typing import TYPE_CHECKING, Any

import click

from terracrew import plan_words
from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.job import follow
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Conflict

if TYPE_CHECKING:
    from terracrew.client.http import Api

_MAX_RESOURCES_SHOWN = 30
_RISK = """If a process of this attempt still runs, it may be changing resources at the same time as the next attempt.
The attempt is fenced: nothing that it reports from now on changes the job or the state. {then}
Nothing in {module} changes before somebody has approved a plan that was made after this."""
_LOGGED_ACTIONS = {
    "created": "created",
    "changed": "changed",
    "destroyed": "destroyed",
    "creating": "had begun to create",
    "changing": "had begun to change",
    "destroying": "had begun to destroy",
}
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command("approve")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--plan", type=click.IntRange(min=1), metavar="N", help="Approve only if this is still the plan of attempt N."
)
@_yes
@output.json_option
@pass_target
def approve(target: Target, job_id: str, plan: int | None, yes: bool, as_json: bool) -> None:
    """Show the plan of the job JOB and approve it, so that the job continues with it."""
    api = target.api()
    found = _waiting(api, job_id, plan)
    kept: int = found["kept_plan"]["attempt"]
    doubts: list[dict[str, Any]] = found["doubts"]
    _show_plan(found)
    if found["is_plan_stale"]:
        raise Conflict(
            f"the state of {found['module_path']} has changed since attempt {kept} made this plan: it cannot be approved",
            hint=f"`terracrew job replan {found['number']}` makes a new one",
        )
    if not yes:
        verb = plan_words.approve(found.get("plan") or {}, found["type"])
        output.ask(f"{verb} in {found['module_path']}?", "Not approved.")
    # The request names the plan and the doubts that were shown. If either has changed since, the server refuses.
    seen = [{"job_id": each["job_id"], "attempt": each["attempt"]} for each in doubts]
    after = api.post(f"/jobs/{found['id']}/approve", {"plan": kept, "doubts": seen})
    if as_json:
        return output.as_json(after)
    return click.echo(f"approved: job {after['number']} continues with the plan of attempt {kept}")


@click.command("decline")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--reason", default="", help="The reason, which is shown on the job.")
@click.option(
    "--plan", type=click.IntRange(min=1), metavar="N", help="Decline only if this is still the plan of attempt N."
)
@output.json_option
@pass_target
def decline(target: Target, job_id: str, reason: str, plan: int | None, as_json: bool) -> None:
    """Show the plan of the job JOB and end the job without applying it."""
    api = target.api()
    found = _waiting(api, job_id, plan)
    _show_plan(found)
    after = api.post(f"/jobs/{found['id']}/decline", {"plan": found["kept_plan"]["attempt"], "reason": reason})
    if as_json:
        return output.as_json(after)
    return click.echo(f"declined: {follow.describe(after)}")


@click.command("replan")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--plan",
    type=click.IntRange(min=1),
    metavar="N",
    help="Replan only if the job still waits with the plan of attempt N.",
)
@output.json_option
@pass_target
def replan(target: Target, job_id: str, plan: int | None, as_json: bool) -> None:
    """Let the job JOB replace the plan that it waits with by a new one.

    Use it when the state has changed since, or after you have imported or removed what a change that was cut short left behind.
    """
    api = target.api()
    found = _waiting(api, job_id, plan)
    after = api.post(f"/jobs/{found['id']}/replan", {"plan": found["kept_plan"]["attempt"]})
    if as_json:
        return output.as_json(after)
    return click.echo(f"replanning: {follow.describe(after)}")


@click.command("gone")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="The attempt that is gone; by default the current one."
)
@_yes
@output.json_option
@pass_target
def gone(target: Target, job_id: str, attempt: int | None, yes: bool, as_json: bool) -> None:
    """Confirm that an attempt of JOB that was lost in the middle of a change is gone.

    The attempt is fenced and its job is queued again. Nothing in its module changes before somebody has approved a plan.
    """
    from terracrew.client.http import segment

    api = target.api()
    give_up(api, api.get(f"/jobs/{segment(job_id)}"), attempt, yes, as_json)


def give_up(api: "Api", job: dict[str, Any], attempt: int | None, yes: bool, as_json: bool) -> None:
    """Show what is known about the attempt and what giving it up risks, ask, and give it up."""
    number = attempt or job["attempt"]
    known = api.get(f"/jobs/{job['id']}/attempts/{number}")
    if known["ended_at"] is not None:
        raise Conflict(f"attempt {number} of job {job['number']} has already ended: {known['outcome']}")
    if known["lost_at"] is None:
        raise Conflict(
            f"attempt {number} of job {job['number']} is not lost: it is in contact, or has not been silent for long enough",
            hint=f"`terracrew job cancel {job['number']}` asks it to end",
        )
    show_known(known)
    then = "The job is canceled, as requested." if job.get("cancel_mode") else "The job is queued again."
    output.note(_RISK.format(then=then, module=job["module_path"]))
    if not yes:
        output.ask(
            f"Is attempt {number} of job {job['number']} gone for certain?",
            "Nothing was given up: the job still waits.",
        )
    after = api.post(f"/jobs/{job['id']}/attempts/{number}/gone")
    if as_json:
        return output.as_json(after)
    return click.echo(f"attempt {number} was given up: {follow.describe(after)}")


def show_known(known: dict[str, Any]) -> None:
    """Print what is known about an attempt to standard error, before a question is asked."""
    missing = "perhaps: the engine is not known to have ended by itself" if known["may_miss_state"] else "no"
    states = f"{known['states']}, the last one with serial {known['serial']}" if known["states"] else "none"
    is_over = known["ended_at"] is not None
    facts = [
        ("attempt", f"{known['attempt']} of job #{known['number']}"),
        ("runner", " · ".join(filter(None, (known["runner_path"], known["instance_name"])))),
        ("began to change", output.moment(known["begun_at"])),
        (
            "cut short" if is_over else "last contact",
            output.moment(known["ended_at"] if is_over else known["heard_at"]),
        ),
        ("by", known["reason"]),
        ("in the step", known["step"]),
        ("last line", known["last_line"]),
        ("states received", states),
        ("module's state", _module_state(known["module_state"])),
        ("state missing?", missing),
    ]
    output.facts(facts, err=True)
    _show_made(known)


def _module_state(state: dict[str, Any] | None) -> str:
    if state is None:
        return "none"
    count = "" if state["resources"] is None else f", {state['resources']} resources"
    writer = "this attempt" if state["is_own"] else "an earlier attempt"
    return f"version {state['version']}, serial {state['serial']}{count}, written by {writer}"


def _show_made(known: dict[str, Any]) -> None:
    made: list[dict[str, Any]] = known["made"]
    if not made:
        return
    output.note("According to its log, after the last state that arrived, it")
    for each in made[-_MAX_RESOURCES_SHOWN:]:
        name = f"  [id={output.text(each['id'])}]" if each["id"] else ""
        click.echo(f"  {_LOGGED_ACTIONS[each['action']]:20} {output.text(each['address'])}{name}", err=True)
    if len(made) > _MAX_RESOURCES_SHOWN or known["is_made_cut"]:
        click.echo("  … and more before that: see its log", err=True)


def _waiting(api: "Api", job_id: str, plan: int | None) -> dict[str, Any]:
    """Return the job if it waits for a decision about this plan; raise Conflict otherwise."""
    from terracrew.client.http import segment

    found = api.get(f"/jobs/{segment(job_id)}")
    if found["status"] != "AWAITING_APPROVAL":
        raise Conflict(f"job {found['number']} is not waiting for approval: it is {found['status']}")
    kept = found["kept_plan"]["attempt"]
    if plan not in (None, kept):
        raise Conflict(
            f"job {found['number']} waits with the plan of attempt {kept}, not with that of attempt {plan}",
            hint=f"`terracrew job show {found['number']}` shows that plan",
        )
    return found


def _show_plan(job: dict[str, Any]) -> None:
    for each in job["doubts"]:
        output.note(
            "An earlier change was cut short. This plan would create again whatever that change created and no state records:"
        )
        show_known(each)
    summary: dict[str, Any] = job.get("plan") or {}
    facts = [
        ("job", f"#{job['number']}  {output.job_type(job)}"),
        ("module", job["module_path"]),
        ("why", job["kept_plan"].get("why")),
        ("plan", output.plan(summary)),
        ("to decide", output.left(job["kept_plan"]["decide_by"])),
    ]
    output.facts(facts, err=True)
    resources = plan_words.in_order(summary.get("resources") or [])
    for each in resources[:_MAX_RESOURCES_SHOWN]:
        detail = f"  ({output.text(plan_words.reason(each['detail']))})" if each.get("detail") else ""
        color = {"delete": "red", "replace": "red", "update": "yellow", "create": "green"}.get(each["action"])
        action = click.style(each["action"].ljust(8), fg=color)
        click.echo(f"  {action} {output.text(each['address'])}{detail}", err=True)
    if len(resources) > _MAX_RESOURCES_SHOWN:
        click.echo(f"  … and {len(resources) - _MAX_RESOURCES_SHOWN} more", err=True)
