"""The badges of the dashboard: a mark with a tone and a word for each thing that has a status; templates see this module as `badges`."""

from typing import Literal

import msgspec

from terracrew.api.discovery import DiscoveryRuleView, FolderState
from terracrew.api.drift import ModuleDrift
from terracrew.api.fleet_jobs import FleetJob, FleetJobType
from terracrew.api.job_views import Reason
from terracrew.api.jobs import JobStatus
from terracrew.api.notifications import ChannelView, NotificationDelivery
from terracrew.api.policies import PolicyView
from terracrew.api.pull_requests import PendingModule, PlanState, PullRequestListed, PullRequestState
from terracrew.api.registry import PublishedModuleView, PublishedVersionView
from terracrew.api.runners import RunnerStatus
from terracrew.api.schedules import ScheduleView
from terracrew.protocol.spec import Step
from terracrew.server.dashboard import words
from terracrew.wording import policy_words

Tone = Literal["ok", "warn", "bad", "busy", "idle"]
Shape = Literal["circle", "half", "cross", "arc", "clock", "tick", "slash", "moon", "mark"]


class Badge(msgspec.Struct, frozen=True):
    tone: Tone
    shape: Shape
    word: str


_RUNNERS = {
    RunnerStatus.ONLINE: Badge("ok", "circle", "Online"),
    RunnerStatus.DRAINING: Badge("warn", "half", "Draining"),
    RunnerStatus.OFFLINE: Badge("bad", "cross", "Offline"),
    RunnerStatus.ASLEEP: Badge("idle", "moon", "Asleep"),
    RunnerStatus.WAKING: Badge("busy", "arc", "Waking"),
}
_JOBS = {
    JobStatus.QUEUED: Badge("idle", "clock", "Waiting"),
    JobStatus.CLAIMED: Badge("busy", "arc", "Starting"),
    JobStatus.PROCESSING: Badge("busy", "arc", "Running"),
    JobStatus.AWAITING_APPROVAL: Badge("warn", "clock", "Awaiting approval"),
    JobStatus.SUCCEEDED: Badge("ok", "tick", "Succeeded"),
    JobStatus.FAILED: Badge("bad", "cross", "Failed"),
    JobStatus.CANCELED: Badge("idle", "slash", "Canceled"),
    JobStatus.DECLINED: Badge("bad", "slash", "Declined"),
}
_RUN_MODULES = {
    "WAITING": Badge("idle", "clock", "Waiting"),
    "RUNNING": Badge("busy", "arc", "Running"),
    "SUCCEEDED": Badge("ok", "tick", "Succeeded"),
    "FAILED": Badge("bad", "cross", "Failed"),
    "SKIPPED": Badge("idle", "slash", "Not run"),
    "CANCELED": Badge("idle", "slash", "Canceled"),
}
"""The badges of a run of a group and of its modules."""
_FLEET_ACTIVITIES = {
    FleetJobType.DEPLOY_WORKER: "Deploying",
    FleetJobType.UPDATE_WORKER: "Updating",
    FleetJobType.DESTROY_WORKER: "Removing",
    FleetJobType.CONNECTION_TEST: "Testing",
}
_NO_CONTACT = {"silent": Badge("warn", "mark", "No contact"), "lost": Badge("bad", "mark", "Lost")}
RUNNER_FILTERS = {"": "All", **{status.value: badge.word for status, badge in _RUNNERS.items()}}
"""The filters of the runners page: the parameter `status`, and its word."""
_FOLDERS: dict[FolderState, Badge] = {
    "new": Badge("busy", "circle", "New"),
    "made": Badge("ok", "tick", "Module made"),
    "gone": Badge("warn", "slash", "Folder gone"),
    "kept": Badge("idle", "tick", "Has a module"),
    "deleted": Badge("idle", "slash", "Module deleted"),
    "conflict": Badge("warn", "cross", "Conflict"),
    "invalid": Badge("warn", "cross", "Not possible"),
}
_PULL_REQUESTS: dict[PullRequestState, Badge] = {
    "open": Badge("busy", "circle", "Open"),
    "merged": Badge("ok", "tick", "Merged"),
    "closed": Badge("idle", "slash", "Closed"),
}
_PLAN_STATES: dict[PlanState, Badge] = {
    "waiting": Badge("idle", "clock", "Waiting"),
    "running": Badge("busy", "arc", "Planning"),
    "changes": Badge("warn", "half", "Changes"),
    "no_changes": Badge("ok", "tick", "No changes"),
    "failed": Badge("bad", "cross", "Plan failed"),
    "canceled": Badge("idle", "slash", "Canceled"),
    "stale": Badge("idle", "clock", "Planned again"),
    "applying": Badge("busy", "arc", "Applying"),
    "needs_approval": Badge("warn", "clock", "Awaiting approval"),
    "applied": Badge("ok", "tick", "Applied"),
    "apply_failed": Badge("bad", "cross", "Apply failed"),
}


def runner_badge(status: RunnerStatus) -> Badge:
    return _RUNNERS[status]


def run_badge(status: str) -> Badge:
    """Return the badge of a run of a group, or of a module in it."""
    return _RUN_MODULES[status]


def run_module_badge(status: str, job_status: str | None, reason: Reason | None = None) -> Badge:
    """Return the badge of a module of a run: that of its job while it has one, so that every page says the same of the job."""
    if status == "RUNNING" and job_status is not None:
        return job_badge(JobStatus(job_status), reason=reason)
    return run_badge(status)


def job_badge(
    status: JobStatus, step: Step | None = None, *, is_canceling: bool = False, reason: Reason | None = None
) -> Badge:
    if status is JobStatus.PROCESSING or status is JobStatus.CLAIMED:
        if reason is not None and reason.code in _NO_CONTACT:
            return _NO_CONTACT[reason.code]
        if is_canceling:
            return Badge("warn", "arc", "Canceling")
    if status is JobStatus.AWAITING_APPROVAL and reason is not None and reason.code == "in_doubt":
        return Badge("warn", "mark", "In doubt")
    if status is JobStatus.PROCESSING and step is not None:
        return Badge("busy", "arc", words.activity(step))
    return _JOBS[status]


def fleet_job_badge(job: FleetJob) -> Badge:
    """Return the badge of a fleet job: while it runs, what it does."""
    if job.is_active:
        if job.canceled_at is not None:
            return Badge("warn", "arc", "Canceling")
        return Badge("busy", "arc", _FLEET_ACTIVITIES[job.type])
    return _JOBS[JobStatus(job.status.value)]


def schedule_badge(schedule: ScheduleView) -> Badge:
    """Return whether a schedule starts anything by itself, and whether that did not work last time."""
    if schedule.is_last_problem:
        return Badge("bad", "mark", "Started nothing")
    return Badge("ok", "tick", "Enabled") if schedule.is_enabled else Badge("idle", "slash", "Not enabled")


def channel_badge(channel: ChannelView) -> Badge:
    """Return whether a channel sends anything, and whether its newest message has arrived."""
    if not channel.is_enabled:
        return Badge("idle", "slash", "Not enabled")
    return Badge("bad", "mark", "Not delivered") if channel.problem else Badge("ok", "tick", "Enabled")


def delivery_badge(delivery: NotificationDelivery) -> Badge:
    """Return what has become of a message."""
    if delivery.status == "DELIVERED":
        return Badge("ok", "tick", "Delivered")
    if delivery.status == "GIVEN_UP":
        return Badge("bad", "cross", "Given up")
    return Badge("warn", "clock", "Trying again") if delivery.error else Badge("busy", "clock", "Waiting")


def drift_badge(found: ModuleDrift) -> Badge:
    """Return what is known about the drift of a module."""
    if found.check is not None and found.check.job_id is not None:
        return Badge("busy", "arc", "Checking")
    if found.problem:
        return Badge("bad", "mark", "Check failed")
    if found.drifted:
        return Badge("warn", "half", f"{found.drifted:,} {'differs' if found.drifted == 1 else 'differ'}")
    return Badge("idle", "slash", "Not checked") if found.checked_at is None else Badge("ok", "tick", "No drift")


def folder_badge(state: FolderState) -> Badge:
    """Return what became of a folder that a discovery rule has found."""
    return _FOLDERS[state]


def policy_badge(policy: PolicyView) -> Badge:
    """Return whether a policy looks at plans."""
    if policy.state == "active":
        return Badge("ok", "tick", policy_words.STATES[policy.state])
    return Badge("idle", "slash" if policy.state == "retired" else "clock", policy_words.STATES[policy.state])


def verdict_badge(verdict: str) -> Badge:
    """Return what a policy has said about a plan."""
    word = policy_words.VERDICTS[verdict]
    if verdict == "passed":
        return Badge("ok", "tick", word)
    return Badge("warn", "half", word) if verdict == "warned" else Badge("bad", "cross", word)


def discovery_badge(rule: DiscoveryRuleView) -> Badge:
    """Return whether a discovery rule works."""
    if not rule.is_enabled:
        return Badge("idle", "slash", "Not enabled")
    if rule.problem:
        return Badge("bad", "cross", "Does not work")
    if rule.looked_at is None:
        return Badge("idle", "clock", "Not looked yet")
    if rule.counts.get("conflict") or rule.counts.get("invalid"):
        return Badge("warn", "half", "Needs attention")
    return Badge("ok", "tick", "Works")


def published_badge(module: PublishedModuleView) -> Badge:
    """Return whether a published module can be used, and whether its tags are read."""
    if module.problem:
        return Badge("bad", "cross", "Does not work")
    if module.refused_tags:
        return Badge("warn", "half", "Needs attention")
    return Badge("ok", "tick", "Published") if module.latest else Badge("idle", "circle", "No version yet")


def version_badge(version: PublishedVersionView) -> Badge:
    """Return whether engines get a version of a published module."""
    if version.is_withdrawn:
        return Badge("idle", "slash", "Withdrawn")
    return Badge("warn", "half", "Its tag was moved") if version.moved_to else Badge("ok", "tick", "Published")


def pending_badge(found: PendingModule, state: PullRequestState) -> Badge:
    """Return whether a module is made when the pull request is merged."""
    if found.reason:
        return Badge("warn", "slash", "Not made")
    return _PULL_REQUESTS[state] if state != "open" else Badge("idle", "clock", "Pending")


def pull_request_badge(found: PullRequestListed) -> Badge:
    return _PULL_REQUESTS[found.state]


def plan_state_badge(state: PlanState) -> Badge:
    """Return what is known of a module that a pull request touches."""
    return _PLAN_STATES[state]
