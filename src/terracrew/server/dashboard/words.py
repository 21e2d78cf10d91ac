"""The words of the dashboard, the same on every page; templates see this module as `words`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, Protocol

import msgspec

from terracrew.api.drift import DriftFilter
from terracrew.api.fleet_jobs import FleetJob, FleetJobType, FleetJobView
from terracrew.api.job_views import Reason
from terracrew.api.jobs import JobStatus
from terracrew.api.runners import Runner, RunnerAlert, RunnerView
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import (
    JobType,
    Step,
)
from terracrew.wording import alert_words, module_words


class WaitingReason(msgspec.Struct, frozen=True):
    needs: Literal["", "action", "decision"] = ""
    """What a person has to do: decide something, or change something because the reason usually does not end by itself."""
    link: str = "Show runners"
    """The text of the link that leads to what a job waits for."""


_FLEET_JOBS = {
    FleetJobType.DEPLOY_WORKER: "Deployment",
    FleetJobType.UPDATE_WORKER: "Update",
    FleetJobType.DESTROY_WORKER: "Removal",
    FleetJobType.CONNECTION_TEST: "Connection test",
}
FLEET_FILTERS = {
    "": "All",
    "PROCESSING": "Running",
    "SUCCEEDED": "Succeeded",
    "FAILED": "Failed",
    "CANCELED": "Canceled",
}
"""The filters of the list of fleet jobs: the parameter `status`, and its word."""
_ACTIVITIES = {
    Step.FETCH: "Fetching",
    Step.INPUTS: "Preparing",
    Step.INIT: "Initializing",
    Step.VALIDATE: "Validating",
    Step.PLAN: "Planning",
    Step.APPLY: "Applying",
    Step.DESTROY: "Destroying",
    Step.OUTPUT: "Reading outputs",
}
CLOUD_STATUSES = ("ASLEEP", "WAKING")
"""The statuses that only cloud-hosted runners have. The page has a filter for each while a runner has it."""
RUNNER_TYPES = {"self-hosted": "Self-hosted", "cloud-hosted": "Cloud-hosted"}
REVISIONS = {
    "": "Default branch",
    "branch": "Branch",
    "tag": "Tag",
    "commit": "Commit",
    "version": "Range of versions",
}
"""The revisions that a git source can name, and their words."""
SETTING_LAYERS = {
    "dashboard": "Dashboard",
    "default": "Default",
    "instance": "Reported by the runner",
    "own": "Runner's own settings",
}
"""Where the value of a runner's setting comes from."""
UNASSIGN_CONSEQUENCE = (
    "Jobs that it has now continue. New jobs of these modules go to other runners that are assigned to them, or wait."
)
JOB_FILTERS = {
    "": "All",
    "open": "Active",
    JobStatus.AWAITING_APPROVAL.value: "Awaiting approval",
    JobStatus.SUCCEEDED.value: "Succeeded",
    JobStatus.FAILED.value: "Failed",
    JobStatus.CANCELED.value: "Canceled",
    JobStatus.DECLINED.value: "Declined",
}
"""The filters of the jobs page: the parameter `status`, and its word."""
MODULE_FILTERS = {"": "Any", **{status: word for status, word in JOB_FILTERS.items() if status}, "none": "No jobs yet"}
"""The filters of the modules page by their newest job: the parameter `status`, and its word."""
JOB_TYPES = {"": "Any", **{each.value: each.value.capitalize() for each in JobType}}
"""The types of jobs that a list can be limited to, and their words."""
STEPS = {
    Step.FETCH: "Fetch source",
    Step.INPUTS: "Inputs",
    Step.INIT: "Init",
    Step.VALIDATE: "Validate",
    Step.PLAN: "Plan",
    Step.APPLY: "Apply",
    Step.DESTROY: "Destroy",
    Step.OUTPUT: "Outputs",
}
STEP_STATUSES = {
    "PENDING": "Not started",
    "RUNNING": "Running",
    "OUT_OF_CONTACT": "No contact",
    "WAITING": "Waiting",
    "SUCCEEDED": "Succeeded",
    "FAILED": "Failed",
    "CANCELED": "Canceled",
    "SKIPPED": "Skipped",
}
"""The word beside the mark of a step, for those who do not see the mark."""
CANCEL_MODES: dict[CancelMode, str] = {
    "interrupt": "Interrupt",
    "after_step": "After this step",
    "kill": "Kill",
}
CANCEL_CONSEQUENCES: dict[CancelMode, str] = {
    "interrupt": "Asks the engine to stop; it finishes the resources that it is busy with and writes its state.",
    "after_step": "Lets the current step finish, then stops; a change is carried out with its outputs. Nothing is left half done.",
    "kill": "Ends all of its processes at once. During an apply, the state may miss what was just created.",
}
TRIGGERS = {"auto": "apply it by itself, after everything else that it needs", "manual": "do nothing"}
"""What happens to a module when an output that it uses has changed."""
GROUP_SETTINGS = {
    "interrupted": "After an interrupted change",
    "max_destroy": "Destroyed without approval",
    "max_destroy_percent": "Share destroyed without approval",
    "self_approval": "People may approve their own jobs",
    "service_account_approval": "Service accounts may approve",
    "min_approvals": "People who must approve each change",
}
"""The settings of a group that apply to its modules and the groups below it. Those about approvals and destroys are rules: of all places
from the organization down, the strictest applies. The first one is that of the nearest group."""
MAX_RUNNING_JOBS = "Jobs that run at once"
"""The limit of a group, which applies together with those of the groups above it."""
LIMITS = "Limits of jobs"
DISPATCHER = "Dispatcher of jobs"
CLOUD = "Cloud logins"
"""What jobs may use; of each limit, the smallest of the job, its module and the groups above applies."""
FAILURE_KINDS = module_words.FAILURE_KINDS
PLAN_FIRST = "It makes a plan and changes nothing. Its page shows the plan, and lets you apply exactly this plan."
"""What follows from planning first."""
PLAN_ALL_FIRST = "It makes a plan of each module and changes nothing. Its page shows all plans, and lets you apply exactly these plans."
"""What follows from planning all modules of a group first."""
UNDECRYPTABLE = "Give the server the master key that was in use then."
"""What to do about stored content that cannot be decrypted."""
_ENGINES = {"tofu": "OpenTofu", "terraform": "Terraform", "pulumi": "Pulumi"}
_ENDED = {
    "succeeded": "succeeded",
    "failed": "failed",
    "canceled": "canceled",
    "waiting": "paused for approval",
    "handed_back": "handed back by its runner",
    "lost": "runner lost",
    "gone": "its executor ended without a result",
}
REASONS = {
    "no_assignment": WaitingReason("action"),
    "none_online": WaitingReason("action"),
    "no_credential": WaitingReason("action"),
    "all_full": WaitingReason(),
    "module_busy": WaitingReason("", "Show that job"),
    "locked": WaitingReason("", "Show the lock"),
    "instance_absent": WaitingReason("action"),
    "wrong_tag": WaitingReason("action"),
    "no_dispatcher": WaitingReason("action"),
    "no_engine": WaitingReason("action"),
    "capped": WaitingReason(),
    "plan_runner": WaitingReason("action"),
    "offered": WaitingReason(),
    "starting": WaitingReason(),
    "silent": WaitingReason("action", "Show the attempt"),
    "retry": WaitingReason(),
    "settling": WaitingReason(),
    "waking": WaitingReason(),
    "wake_refused": WaitingReason("action"),
    "lost": WaitingReason("decision", "Show the attempt"),
    "quarantine": WaitingReason("decision", "Show the state"),
    "held": WaitingReason("decision", "Show the hold"),
    "dependency": WaitingReason("action", "Show that module"),
    "approval": WaitingReason("decision", "Show the plan"),
    "in_doubt": WaitingReason("decision", "Show the attempt"),
    "undecryptable": WaitingReason("action"),
    "damaged": WaitingReason("action"),
}
"""All reasons for waiting, by their codes."""


def jobs_left(jobs: int, delivering: int) -> str:
    """Return what a draining runner still has to finish, in words; nothing if it has finished."""
    parts = [f"{jobs:,} {'job is' if jobs == 1 else 'jobs are'} left"] if jobs else []
    if delivering:
        parts.append(f"{delivering:,} lost {'attempt still delivers' if delivering == 1 else 'attempts still deliver'}")
    return ", ".join(parts)


def unbind_consequence(runner: RunnerView) -> str:
    """Return what happens if the runner has no service account any more, in words."""
    text = "Processes that connected with this account are disconnected within seconds. Jobs that it has now continue."
    return text if runner.has_worker_token else f"{text} It has no token, so no process can connect as it then."


def alert(found: RunnerAlert) -> str:
    """Say what happened to a runner."""
    return alert_words.sentence(
        found.kind,
        found.instance,
        found.address,
        found.former_address,
        found.count,
        is_other_machine=found.is_other_machine,
    )


def alert_advice(found: RunnerAlert) -> str:
    return alert_words.WHAT_TO_DO[found.kind].replace("`", "")


def jobs_limit(runner: RunnerView) -> str:
    """Return the limit on its jobs, in words."""
    return f"at most {runner.max_jobs:,} on each process"


def declared_place(runner: Runner | RunnerView) -> str:
    """Say where a shared runner is declared."""
    if runner.is_declared and runner.declared_in:
        return f"It is declared as shared_runners.{runner.name} in {runner.declared_in} on the server, and changed only there."
    if runner.is_declared:
        return "It is the default runner of a server whose settings declare no shared runners."
    if runner.removing_since is not None:
        return "It is retired: the server's settings no longer declare it, and it disappears after its last job."
    return "No server's settings declare it."


def fleet_cancel_words(job: FleetJobView) -> tuple[str, str]:
    """Return what the button that cancels a fleet job says, and what the question before it names as the consequence."""
    match job.type:
        case FleetJobType.CONNECTION_TEST:
            return "Cancel test…", "A test changes nothing in the account, so nothing is removed."
        case FleetJobType.DESTROY_WORKER:
            return "Cancel removal…", "What was removed stays removed. If nothing was, the runner takes jobs again."
        case FleetJobType.UPDATE_WORKER if not job.identity_id:
            return (
                "Cancel update…",
                "An instance that has begun finishes its update. The others keep the version that they have.",
            )
        case FleetJobType.UPDATE_WORKER:
            return "Cancel update…", "What is new is removed again. The runner stays as it was deployed before."
        case FleetJobType.DEPLOY_WORKER:
            # The network is only chosen, and a hello names no new thing.
            done = [each for each in job.steps if each.status == "done" and each.reference]
            made = sum(each.name not in ("network", "hello") for each in done)
            if not made:
                return "Cancel deployment…", "Nothing was made in the account so far."
            things = counted(made, "resource")
            return (
                f"Cancel and remove {things}…",
                f"What this job has made in the account is removed again: {things}.",
            )


def fleet_job_word(job: FleetJob) -> str:
    """Return what kind of fleet job it is, in words."""
    return _FLEET_JOBS[job.type]


def activity(step: Step) -> str:
    """Return what a job does during a step, in words."""
    return _ACTIVITIES[step]


def job_type(kind: JobType) -> str:
    return kind.value.capitalize()


class _Called(Protocol):
    @property
    def type(self) -> JobType: ...
    @property
    def is_destroy_plan(self) -> bool: ...
    @property
    def is_refresh_only(self) -> bool: ...


def job_word(job: _Called) -> str:
    """Return what kind of job it is, in words."""
    if job.is_refresh_only:
        return f"Refresh-only {job.type.value.lower()}"
    return "Destroy plan" if job.is_destroy_plan else job_type(job.type)


def engine(name: str) -> str:
    return _ENGINES.get(name, name)


def ended(outcome: str) -> str:
    """Return how an attempt ended, in words."""
    return _ENDED.get(outcome, outcome)


def link(reason: Reason) -> str:
    """Return the text of the link that leads to what a job waits for."""
    if reason.link.startswith("/dashboard/runners/"):
        return "Show the runner"
    return REASONS[reason.code].link


def is_warning(reason: Reason) -> bool:
    """Return whether a reason for waiting usually does not end by itself."""
    return REASONS[reason.code].needs == "action"


def needs_a_person(reason: Reason) -> bool:
    """Return whether a job that waits for this reason waits for something that a person has to do."""
    return REASONS[reason.code].needs != ""


def group_setting(name: str, value: object) -> str:
    """Return the value of a setting of a group, in words."""
    if name == "interrupted":
        return "retry" if value == "retry" else "ask a person"
    if name == "max_destroy":
        return "any number" if value is None else f"at most {value:,}"
    if name == "max_destroy_percent":
        return "any share" if value is None else f"at most {value} %"
    if name == "min_approvals":
        return str(value or "none")
    return "yes" if value else "no"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it needs one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def contents(counts: Mapping[str, int]) -> str:
    """Return what is in a group: the number of things by kind, whose names are plurals with underscores."""
    parts = [counted(count, kind.replace("_", " ").removesuffix("s")) for kind, count in counts.items()]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def sentence(text: str) -> str:
    """Return a part of a sentence as a whole sentence."""
    text = text.strip()
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def ago(then: datetime, now: datetime) -> str:
    seconds = int((now - then).total_seconds())
    if seconds < 5:
        return "now"
    if seconds < 60:
        return f"{seconds} s ago"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 86400:
        return f"{seconds // 3600} h ago"
    return f"{seconds // 86400} d ago"


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


source = module_words.described_source


DRIFT_FILTERS: dict[DriftFilter, str] = {
    "drifted": "With drift",
    "failed": "Failed checks",
    "muted": "With mutes",
    "all": "All",
}
