"""Renders a job for a terminal: why it waits, its steps, and what is known about each attempt."""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.commands.job import status_line
from terracrew.cli.printing import output
from terracrew.wording import approval_words, module_words, plan_words

if TYPE_CHECKING:
    from terracrew.client.http import Api


_LOGIN_NAMES = ("role", "client_id", "service_account")
"""What the clouds call somebody who logs in."""
_MAX_REQUESTS_AT_ONCE = 4
_MAX_ATTEMPTS_SHOWN = 10
"""Only this many of the newest attempts are listed with their runners."""


def hold(known: dict[str, Any]) -> str:
    """Say what a hold means for a module, and what to do before a plan is approved."""
    began = "the server was held"
    if known["set_back_to"]:
        began = f"the server's database was set back to {known['set_back_to']}"
    what = known["evidence"] or "this module may have been changed since"
    advice = "compare the plan with what exists"
    if known["is_held"]:
        advice = "no change is handed out until an administrator releases it (`terracrew server release`)"
    return f"{began}; {what}: {advice}"


def _plan_of_another(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return where the plan of a job comes from, if it is not its own, and whether another job can apply or applies its plan."""
    number = found["number"]
    return [
        ("plan of", found.get("plan_job_number") and f"job #{found['plan_job_number']}"),
        ("applied by", found.get("taken_by_number") and f"job #{found['taken_by_number']}"),
        ("to apply it", found.get("is_plan_applicable") and f"terracrew job apply {number}"),
        ("not applicable", found.get("plan_problem")),
    ]


def job(api: "Api", found: dict[str, Any]) -> None:
    decided: dict[str, Any] = found.get("kept_plan") or {}
    doubts: list[dict[str, Any]] = found.get("doubts") or []
    notes: list[dict[str, Any]] = found.get("notes") or []
    plan: dict[str, Any] = found.get("plan") or {}
    output.facts(
        [
            ("job", f"#{found['number']}  {found['id']}"),
            ("module", found["module_path"]),
            ("type", output.job_type(found)),
            ("status", found["status"]),
            ("waits", found.get("reason") and status_line.why(found)),
            ("to do", status_line.suggested_command(found)),
            ("message", found.get("message")),
            ("cause", module_words.FAILURE_KINDS.get(found.get("failure_kind") or "", found.get("failure_kind"))),
            ("runner", found.get("runner_path")),
            *placement(found.get("placement") or {}),
            ("priority", found.get("priority")),
            ("limits", ", ".join(module_words.described_limits(found.get("limits") or {}))),
            ("dispatcher", ", ".join(module_words.described_choice(found.get("dispatcher") or {}))),
            ("engine", f"{found['engine']} {found.get('engine_version') or ''}".strip()),
            *source(found),
            ("plan", output.plan(plan)),
            *(("failed check", plan_words.check(each)) for each in plan.get("checks") or ()),
            ("used by", module_words.used_by(found["used_by"]) if found.get("used_by") else ""),
            *_plan_of_another(found),
            *approvals(found),
            ("declined by", decided["decided_by"] if decided.get("decision") == "declined" else ""),
            ("lock", lock(found.get("lock"))),
            ("backend lock", held_lock(found.get("held_lock"))),
            ("set back", [hold(each) for each in found.get("holds") or ()]),
            ("in doubt", [f"attempt {each['attempt']} of job #{each['number']}" for each in doubts]),
            ("queued because", _cause(found)),
            ("created", output.age(found["created_at"])),
            ("took", output.duration(found["created_at"], found.get("finished_at"))),
        ]
    )
    if steps := found.get("steps"):
        click.echo()
        statuses = {s["name"]: s["status"] for s in steps}
        rows = [
            (
                s["name"],
                plan_words.instead_of_running(s["name"], statuses, s.get("kept_from")) or s["status"],
                output.duration(s.get("started_at"), s.get("finished_at")),
                s.get("attempt"),
            )
            for s in steps
        ]
        output.table(("STEP", "STATUS", "TOOK", "ATTEMPT"), rows, empty="")
    run: list[dict[str, Any]] = found.get("run") or []
    if lines := [f"{each['attempt']:>3}  {output.text(each['text'])}" for each in run if each["text"]]:
        click.echo()
        click.echo("\n".join(lines))
    attempts: list[dict[str, Any]] = found.get("attempts") or []
    with ThreadPoolExecutor(_MAX_REQUESTS_AT_ONCE) as pool:
        places = [f"/jobs/{found['id']}/attempts/{each['number']}" for each in attempts[-_MAX_ATTEMPTS_SHOWN:]]
        known: list[dict[str, Any]] = list(pool.map(api.get, places))
    if known:
        click.echo()
        columns = ("ATTEMPT", "RUNNER", "CLAIMED", "CHANGES BEGAN", "ENDED", "OUTCOME", "REASON")
        output.table(columns, map(_attempt, known), empty="")
    for each in known:
        warn(each)
    for note in notes:
        click.echo(f"too late: attempt {note['attempt']} {output.text(note['text'])}")


def is_in_doubt(found: dict[str, Any]) -> bool:
    """Return whether the module of a job is in doubt, because of an attempt or since the database was set back."""
    return bool(found.get("doubts")) or any(each["is_in_doubt"] for each in found.get("holds") or ())


def approval_count(found: dict[str, Any]) -> tuple[int, int]:
    """Return how many approvals of the plan that waits count, and how many it needs."""
    return found.get("approvals_counted") or 0, found.get("approvals_needed") or 1


def approvals(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Describe who has approved the plan of a job, when and with which comment, what is missing, and who could approve it."""
    kept: dict[str, Any] = found.get("kept_plan") or {}
    given: list[dict[str, Any]] = kept.get("approvals") or []
    facts = [("approved by", _approval(each)) for each in given]
    facts += [("does not count", f"{each['by']} {each['why']}") for each in found.get("lapsed_approvals") or ()]
    if found["status"] != "AWAITING_APPROVAL" or found.get("is_plan_stale"):
        return facts
    counted, needed = approval_count(found)
    if needed > 1:
        facts.append(("approvals", f"{counted} of {needed}: {approval_words.missing(needed - counted)}"))
    return [*facts, ("can approve", approval_words.named(found.get("approvers") or []))]


def _approval(given: dict[str, Any]) -> str:
    doubt = ", in doubt" if given.get("doubts") else ""
    comment = f": {given['comment']}" if given.get("comment") else ""
    return f"{given['by']}, {output.moment(given['at'])}{doubt}{comment}"


def source(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Describe what the job runs, and whether its tag has moved since an earlier job of the module."""
    moved = found.get("source_moved_from")
    revision = found.get("source_revision") or ""
    return [
        ("source", found.get("source_description") or ""),
        ("commit", found.get("source_commit") or ""),
        ("warning", f"the {revision} has moved since an earlier job, where it was {moved}" if moved else ""),
    ]


def _cause(found: dict[str, Any]) -> str:
    """Say why the job was queued, if no person asked for just this one."""
    if found.get("group_run_id"):
        return "a run of all modules of a group"
    cause = found.get("cause_number")
    return f"an output that the module uses was changed by job #{cause}" if cause else ""


def placement(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Describe which runners may have the jobs of a module, and the limits of its groups."""
    runner, instance = found.get("runner_path"), found.get("runner_instance_name")
    pins = [f"the runner {runner}"] if runner else []
    pins += [f"the instance {instance}"] if instance else []
    limits: list[dict[str, Any]] = found.get("limits") or []
    words = [f"{each['max_running_jobs']} in {each['group'] or 'the organization'}" for each in limits]
    return [
        ("runs on", f"{', '.join(pins)} only" if pins else ""),
        ("tags", ", ".join(found.get("tags") or [])),
        ("jobs at once", ", ".join(words)),
    ]


def lock(holder: dict[str, Any] | None) -> str:
    """Describe who holds a module's lock, and for how long a lost holder has been lost."""
    if not holder:
        return "free"
    who = f"job #{holder['number']}, attempt {holder['attempt']}, taken {output.moment(holder['since'])}"
    return f"{who}; lost {output.lasting(holder['lost_at'])}" if holder.get("lost_at") else who


def held_lock(found: dict[str, Any] | None) -> str:
    """Say that the lock of a module's own backend may still be held; empty if it is not in question."""
    if not found:
        return ""
    who = f"the engine of job #{found['number']} did not end by itself, {output.moment(found['ended_at'])}"
    return f"may still be held: {who}. If a job fails because of it, release it in the backend"


def _attempt(known: dict[str, Any]) -> tuple[Any, ...]:
    outcome = known["outcome"] or ("lost" if known["lost_at"] else "running")
    doubt = ", in doubt" if known["is_in_doubt"] else ", gone" if outcome == "lost" and known["is_gone"] else ""
    return (
        known["attempt"],
        " · ".join(filter(None, (known["runner_path"], known["instance_name"]))),
        output.moment(known["claimed_at"]),
        output.moment(known["begun_at"]),
        output.moment(known["ended_at"]),
        outcome + doubt,
        known["reason"],
    )


_MAX_RESOURCES_SHOWN = 30


def _began(known: dict[str, Any]) -> str:
    is_unknown = known["begun_at"] is None and known["may_have_begun"]
    return "not known: the database was set back since" if is_unknown else output.moment(known["begun_at"])


def show(known: dict[str, Any]) -> None:
    """Print what is known about an attempt to standard error, before a question is asked."""
    missing = "perhaps: the engine is not known to have ended by itself" if known["may_miss_state"] else "no"
    states = f"{known['states']}, the last one with serial {known['serial']}" if known["states"] else "none"
    is_over = known["ended_at"] is not None
    facts = [
        ("attempt", f"{known['attempt']} of job #{known['number']}"),
        ("runner", " · ".join(filter(None, (known["runner_path"], known["instance_name"])))),
        ("began to change", _began(known)),
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
    warn(known)


def warn(known: dict[str, Any]) -> None:
    """Say from when on nothing is known about an attempt, and where to see what to look for; nothing if everything is known."""
    if gap := known.get("gap"):
        output.note(f"warning: {gap['explanation']}\nwhat to look for: terracrew job lost-resources {known['number']}")


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
        click.echo(f"  {plan_words.LOGGED_CHANGES[each['action']]:20} {output.text(each['address'])}{name}", err=True)
    if len(made) > _MAX_RESOURCES_SHOWN or known["is_made_cut"]:
        click.echo("  … and more before that: see its log", err=True)


def cloud_logins(clouds: dict[str, dict[str, str]]) -> str:
    """Return in one line who jobs are in each cloud. `clouds` is as the API shows it."""
    return "; ".join(f"{name}: {', '.join(_phases(each))}" for name, each in clouds.items())


def _phases(identity: dict[str, str]) -> list[str]:
    names = [(phase, f"{phase}_{kind}") for phase in ("plan", "apply") for kind in _LOGIN_NAMES]
    return [f"{phase} as {identity[name]}" for phase, name in names if name in identity]
