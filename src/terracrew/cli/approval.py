"""What only a person can decide about a job: its plan, and whether a lost attempt is gone."""

from typing import TYPE_CHECKING, Any

import click

from terracrew import plan_words
from terracrew.cli import follow, name_completion, output
from terracrew.cli.target import Target, pass_target
from terracrew.errors import Conflict

if TYPE_CHECKING:
    from terracrew.client.http import Api

_RESOURCES = 30
_RISK = """If something of it still runs, it may still be changing things while the next attempt does, too.
The attempt is fenced: what it still reports changes nothing by itself. {then}
Nothing on {module} is changed before somebody has approved a plan that was made after this."""
_MADE = {
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
    "--plan", type=click.IntRange(min=1), metavar="N", help="The plan of attempt N, and no other; else the one shown."
)
@_yes
@output.json_option
@pass_target
def approve(target: Target, job_id: str, plan: int | None, yes: bool, as_json: bool) -> None:
    """Let the job JOB go on with its plan, which is shown first."""
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
    # By its number, with the doubts that were shown: if either has changed meanwhile, the server refuses.
    seen = [{"job_id": each["job_id"], "attempt": each["attempt"]} for each in doubts]
    after = api.post(f"/jobs/{found['id']}/approve", {"plan": kept, "doubts": seen})
    if as_json:
        return output.as_json(after)
    return click.echo(f"approved: job {after['number']} goes on with the plan of attempt {kept}")


@click.command("decline")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--reason", default="", help="Why; shown on the job.")
@click.option("--plan", type=click.IntRange(min=1), metavar="N", help="The plan of attempt N, and no other.")
@output.json_option
@pass_target
def decline(target: Target, job_id: str, reason: str, plan: int | None, as_json: bool) -> None:
    """End the job JOB without applying its plan, which is shown."""
    api = target.api()
    found = _waiting(api, job_id, plan)
    _show_plan(found)
    after = api.post(f"/jobs/{found['id']}/decline", {"plan": found["kept_plan"]["attempt"], "reason": reason})
    if as_json:
        return output.as_json(after)
    return click.echo(f"declined: {follow.describe(after)}")


@click.command("replan")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--plan", type=click.IntRange(min=1), metavar="N", help="Instead of the plan of attempt N, and no other.")
@output.json_option
@pass_target
def replan(target: Target, job_id: str, plan: int | None, as_json: bool) -> None:
    """Let the job JOB make a new plan instead of the one that it waits with.

    Use it when the state has changed since, or after you have imported or removed what a cut-short change left behind.
    """
    api = target.api()
    found = _waiting(api, job_id, plan)
    after = api.post(f"/jobs/{found['id']}/replan", {"plan": found["kept_plan"]["attempt"]})
    if as_json:
        return output.as_json(after)
    return click.echo(f"plans again: {follow.describe(after)}")


@click.command("gone")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="This attempt; else the current one.")
@_yes
@output.json_option
@pass_target
def gone(target: Target, job_id: str, attempt: int | None, yes: bool, as_json: bool) -> None:
    """Say that an attempt of JOB that is lost in the middle of a change is gone.

    It is fenced, its job is queued again, and nothing on its module is changed before somebody has approved a plan.
    """
    from terracrew.client.http import segment

    api = target.api()
    give_up(api, api.get(f"/jobs/{segment(job_id)}"), attempt, yes, as_json)


def give_up(api: "Api", job: dict[str, Any], attempt: int | None, yes: bool, as_json: bool) -> None:
    """Show what is known and what it risks, ask, and say it."""
    number = attempt or job["attempt"]
    known = api.get(f"/jobs/{job['id']}/attempts/{number}")
    if known["ended_at"] is not None:
        raise Conflict(f"attempt {number} of job {job['number']} is over already: {known['outcome']}")
    if known["lost_at"] is None:
        raise Conflict(
            f"attempt {number} of job {job['number']} is not lost: it is heard, or has not been silent for long enough",
            hint=f"`terracrew job cancel {job['number']}` asks it to end",
        )
    show_known(known)
    then = "The job is canceled, as it was asked to be." if job.get("cancel_mode") else "The job is queued again."
    output.note(_RISK.format(then=then, module=job["module_path"]))
    if not yes:
        output.ask(
            f"Is attempt {number} of job {job['number']} gone for certain?", "Not given up: the job waits as before."
        )
    after = api.post(f"/jobs/{job['id']}/attempts/{number}/gone")
    if as_json:
        return output.as_json(after)
    return click.echo(f"attempt {number} is given up: {follow.describe(after)}")


def show_known(known: dict[str, Any]) -> None:
    """What is known of an attempt, on standard error: it goes before a question."""
    missing = "perhaps: its engine is not known to have ended by itself" if known["may_miss_state"] else "no"
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
    output.note("Its log says, after the last state that has arrived, that it")
    for each in made[-_RESOURCES:]:
        name = f"  [id={output.text(each['id'])}]" if each["id"] else ""
        click.echo(f"  {_MADE[each['action']]:20} {output.text(each['address'])}{name}", err=True)
    if len(made) > _RESOURCES or known["is_made_cut"]:
        click.echo("  … and more before that: see its log", err=True)


def _waiting(api: "Api", job_id: str, plan: int | None) -> dict[str, Any]:
    """The job, if it waits for a decision about this plan."""
    from terracrew.client.http import segment

    found = api.get(f"/jobs/{segment(job_id)}")
    if found["status"] != "AWAITING_APPROVAL":
        raise Conflict(f"job {found['number']} does not wait for an approval: it is {found['status']}")
    kept = found["kept_plan"]["attempt"]
    if plan not in (None, kept):
        raise Conflict(
            f"job {found['number']} waits with the plan of attempt {kept}, not with that of attempt {plan}",
            hint=f"look at it: `terracrew job show {found['number']}`",
        )
    return found


def _show_plan(job: dict[str, Any]) -> None:
    for each in job["doubts"]:
        output.note("An earlier change was cut short. What it made and no state holds, this plan would make again:")
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
    for each in resources[:_RESOURCES]:
        detail = f"  ({output.text(plan_words.reason(each['detail']))})" if each.get("detail") else ""
        color = {"delete": "red", "replace": "red", "update": "yellow", "create": "green"}.get(each["action"])
        action = click.style(each["action"].ljust(8), fg=color)
        click.echo(f"  {action} {output.text(each['address'])}{detail}", err=True)
    if len(resources) > _RESOURCES:
        click.echo(f"  … and {len(resources) - _RESOURCES} more", err=True)
