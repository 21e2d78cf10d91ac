"""Renders a job for a terminal: why it waits, its steps, and what is known about each attempt."""

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from terracrew.api.job_views import AttemptReport, HeldLock, JobView, ModuleHold, ModuleState, Placement
from terracrew.api.jobs import GivenApproval, JobStatus
from terracrew.api.locks import Lock
from terracrew.api.place_settings import PlaceSettings
from terracrew.api.policies import PolicyCheck
from terracrew.cli.commands.job import follow
from terracrew.cli.printing import output
from terracrew.protocol.cloud import CloudIdentities, Phase
from terracrew.wording import (
    approval_words,
    cost_words,
    lock_words,
    module_words,
    plan_option_words,
    plan_words,
    policy_words,
)

if TYPE_CHECKING:
    from terracrew.client.http import Api


_LOGIN_NAMES = ("role", "client_id", "service_account")
"""What the clouds call somebody who logs in."""
_MAX_REQUESTS_AT_ONCE = 4
_MAX_ATTEMPTS_SHOWN = 10
"""Only this many of the newest attempts are listed with their runners."""


def hold(known: ModuleHold) -> str:
    """Say what a hold means for a module, and what to do before a plan is approved."""
    began = "the server was held"
    if known.set_back_to:
        began = f"the server's database was set back to {known.set_back_to:%Y-%m-%dT%H:%M:%SZ}"
    what = known.evidence or "this module may have been changed since"
    advice = "compare the plan with what exists"
    if known.is_held:
        advice = "no change is handed out until an administrator releases it (`terracrew server release`)"
    return f"{began}; {what}: {advice}"


def job(api: "Api", found: JobView) -> None:
    plan, decided = found.plan, found.kept_plan
    output.facts(
        [
            ("job", f"#{found.number}  {found.id}"),
            ("module", found.module_path),
            ("type", output.job_type(found)),
            ("status", found.status),
            ("waits", found.reason and follow.why(found)),
            ("to do", follow.suggested_command(found)),
            ("message", found.message),
            ("cause", module_words.FAILURE_KINDS.get(found.failure_kind, found.failure_kind)),
            ("class", found.failure_class and module_words.FAILURE_CLASSES[found.failure_class]),
            ("runner", found.runner_path),
            *placement(found.placement),
            ("priority", found.priority),
            *((title.lower(), text) for title, text in plan_option_words.rows(found)),
            ("limits", ", ".join(module_words.described_limits(found.limits))),
            ("dispatcher", ", ".join(module_words.described_choice(found.dispatcher))),
            ("engine", f"{found.engine} {found.engine_version}".strip()),
            ("source", found.source_description),
            ("commit", found.source_commit),
            ("warning", _moved(found)),
            ("plan", output.plan(plan)),
            ("cost", cost_words.summary(found.cost)),
            *(("failed check", plan_words.check(each)) for each in (plan.checks if plan else ())),
            ("used by", found.used_by and module_words.used_by(found.used_by)),
            ("plan of", found.plan_job_number and f"job #{found.plan_job_number}"),
            ("applied by", found.taken_by_number and f"job #{found.taken_by_number}"),
            ("to apply it", f"terracrew job apply {found.number}" if found.is_plan_applicable else ""),
            ("not applicable", found.plan_problem),
            *(("policy", f"{each.name} {each.version}: {_policy(each)}") for each in found.policy_checks),
            *(("needs", need) for need in found.policy_needs),
            *approvals(found),
            ("declined by", decided.decided_by if decided and decided.decision == "declined" else ""),
            ("lock", lock(found.lock)),
            ("backend lock", held_lock(found.held_lock)),
            ("set back", [hold(each) for each in found.holds]),
            ("in doubt", [f"attempt {each.attempt} of job #{each.number}" for each in found.doubts]),
            ("queued because", _cause(found)),
            ("created", output.age(found.created_at)),
            ("took", output.duration(found.created_at, found.finished_at)),
        ]
    )
    if found.steps:
        click.echo()
        statuses: dict[str, str] = {step.name: step.status for step in found.steps}
        rows = [
            (
                step.name,
                plan_words.instead_of_running(step.name, statuses, step.kept_from) or step.status,
                output.duration(step.started_at, step.finished_at),
                step.attempt,
            )
            for step in found.steps
        ]
        output.table(("STEP", "STATUS", "TOOK", "ATTEMPT"), rows, empty="")
    if lines := [f"{each.attempt:>3}  {output.text(each.text)}" for each in found.run if each.text]:
        click.echo()
        click.echo("\n".join(lines))
    with ThreadPoolExecutor(_MAX_REQUESTS_AT_ONCE) as pool:
        places = [f"/jobs/{found.id}/attempts/{each.number}" for each in found.attempts[-_MAX_ATTEMPTS_SHOWN:]]
        known = list(pool.map(api.get, places, repeat(AttemptReport)))
    if known:
        click.echo()
        columns = ("ATTEMPT", "RUNNER", "CLAIMED", "CHANGES BEGAN", "ENDED", "OUTCOME", "REASON")
        output.table(columns, map(_attempt, known), empty="")
    for each in known:
        warn(each)
    for note in found.notes:
        click.echo(f"too late: attempt {note.attempt} {output.text(note.text)}")


def _policy(check: PolicyCheck) -> str:
    texts = "; ".join(each.text for each in check.messages)
    follows = policy_words.consequence(check)
    verdict = policy_words.VERDICTS[check.verdict].lower()
    return f"{verdict}{f' ({follows})' if follows else ''}{f', {texts}' if texts else ''}"


def approvals(found: JobView) -> list[tuple[str, str]]:
    """Describe who has approved the plan of a job, when and with which comment, what is missing, and who could approve it."""
    facts = [("approved by", _approval(each)) for each in (found.kept_plan.approvals if found.kept_plan else ())]
    facts += [("does not count", f"{each.by} {each.why}") for each in found.lapsed_approvals]
    if found.status is not JobStatus.AWAITING_APPROVAL or found.is_plan_stale:
        return facts
    counted, needed = found.approval_count
    if needed > 1:
        facts.append(("approvals", f"{counted} of {needed}: {approval_words.missing(needed - counted)}"))
    return [*facts, ("can approve", approval_words.named(found.approvers))]


def _approval(given: GivenApproval) -> str:
    doubt = ", in doubt" if given.doubts else ""
    comment = f": {given.comment}" if given.comment else ""
    return f"{given.by}, {output.moment(given.at)}{doubt}{comment}"


def _moved(found: JobView) -> str:
    """Say that the tag of the source has moved since an earlier job of the module; empty if it has not."""
    moved = found.source_moved_from
    return f"the {found.source_revision} has moved since an earlier job, where it was {moved}" if moved else ""


def _cause(found: JobView) -> str:
    """Say why the job was queued, if no person asked for just this one."""
    if found.origin is not None:
        return f"{found.origin.words} {found.origin.url}".rstrip()
    if found.group_run_id:
        return "a run of all modules of a group"
    cause = found.cause_number
    return f"an output that the module uses was changed by job #{cause}" if cause else ""


def placement(found: Placement) -> list[tuple[str, str]]:
    """Describe which runners may have the jobs of a module, and the limits of its groups."""
    pins = [f"the runner {found.runner_path}"] if found.runner_path else []
    pins += [f"the instance {found.runner_instance_name}"] if found.runner_instance_name else []
    words = [f"{each.max_running_jobs} in {each.group or 'the organization'}" for each in found.limits]
    return [
        ("runs on", f"{', '.join(pins)} only" if pins else ""),
        ("tags", ", ".join(found.tags)),
        ("jobs at once", ", ".join(words)),
    ]


def place_words(found: PlaceSettings) -> dict[str, Any]:
    """Return the settings of a module or a group that are shown in words, by their names."""
    return {
        "limits": module_words.described_limits(found.limits),
        "cloud": _cloud_logins(found.cloud),
        "dispatcher": module_words.described_choice(found.dispatcher),
    }


def lock(holder: Lock | None) -> str:
    """Describe who holds a module's lock, and for how long a lost holder has been lost."""
    if holder is None:
        return "free"
    if (held := holder.person) is not None:
        why = f": {output.text(held.reason)}" if held.reason else ""
        words = lock_words.holder(held.holder_kind, held.holder_name, held.credential)
        return f"locked by {output.text(words)}, taken {output.moment(held.created_at)}{why}"
    who = f"job #{holder.number}, attempt {holder.attempt}, taken {output.moment(holder.since)}"
    return f"{who}; lost {output.lasting(holder.lost_at)}" if holder.lost_at else who


def held_lock(found: HeldLock | None) -> str:
    """Say that the lock of a module's own backend may still be held; empty if it is not in question."""
    if found is None:
        return ""
    who = f"the engine of job #{found.number} did not end by itself, {output.moment(found.ended_at)}"
    return f"may still be held: {who}. If a job fails because of it, release it in the backend"


def runner(known: AttemptReport) -> str:
    return " · ".join(filter(None, (known.runner_path, known.instance_name)))


def _attempt(known: AttemptReport) -> tuple[Any, ...]:
    outcome = known.outcome or ("lost" if known.lost_at else "running")
    doubt = ", in doubt" if known.is_in_doubt else ", gone" if outcome == "lost" and known.is_gone else ""
    return (
        known.attempt,
        runner(known),
        *map(output.moment, (known.claimed_at, known.begun_at, known.ended_at)),
        outcome + doubt,
        known.reason,
    )


_MAX_RESOURCES_SHOWN = 30


def show(known: AttemptReport) -> None:
    """Print what is known about an attempt to standard error, before a question is asked."""
    is_begin_unknown = known.begun_at is None and known.may_have_begun
    began = "not known: the database was set back since" if is_begin_unknown else output.moment(known.begun_at)
    missing = "perhaps: the engine is not known to have ended by itself" if known.may_miss_state else "no"
    facts = [
        ("attempt", f"{known.attempt} of job #{known.number}"),
        ("runner", runner(known)),
        ("began to change", began),
        ("cut short" if known.ended_at else "last contact", output.moment(known.ended_at or known.heard_at)),
        ("by", known.reason),
        ("in the step", known.step),
        ("last line", known.last_line),
        ("states received", f"{known.states}, the last one with serial {known.serial}" if known.states else "none"),
        ("module's state", _module_state(known.module_state)),
        ("state missing?", missing),
    ]
    output.facts(facts, err=True)
    _show_made(known)
    warn(known)


def warn(known: AttemptReport) -> None:
    """Say from when on nothing is known about an attempt, and where to see what to look for; nothing if everything is known."""
    if known.gap:
        output.note(f"warning: {known.gap.explanation}\nwhat to look for: terracrew job lost-resources {known.number}")


def _module_state(state: ModuleState | None) -> str:
    if state is None:
        return "none"
    count = "" if state.resources is None else f", {state.resources} resources"
    writer = "this attempt" if state.is_own else "an earlier attempt"
    return f"version {state.version}, serial {state.serial}{count}, written by {writer}"


def _show_made(known: AttemptReport) -> None:
    if not known.made:
        return
    output.note("According to its log, after the last state that arrived, it")
    for each in known.made[-_MAX_RESOURCES_SHOWN:]:
        name = f"  [id={output.text(each.id)}]" if each.id else ""
        click.echo(f"  {plan_words.LOGGED_CHANGES[each.action]:20} {output.text(each.address)}{name}", err=True)
    if len(known.made) > _MAX_RESOURCES_SHOWN or known.is_made_cut:
        click.echo("  … and more before that: see its log", err=True)


def _cloud_logins(clouds: CloudIdentities) -> str:
    """Return in one line who jobs are in each cloud."""
    identities = [(name, getattr(clouds, name)) for name in clouds.__struct_fields__]
    return "; ".join(f"{name}: {', '.join(_phases(each))}" for name, each in identities if each is not None)


def _phases(identity: msgspec.Struct) -> list[str]:
    names = [(phase, f"{phase}_{kind}") for phase in get_args(Phase) for kind in _LOGIN_NAMES]
    return [f"{phase} as {who}" for phase, name in names if (who := getattr(identity, name, None))]
