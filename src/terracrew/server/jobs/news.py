"""Says what people are told of a job: that its plan waits for them, that it failed, or that an attempt of it was lost."""

from terracrew.api.jobs import Attempt, Job, JobStatus
from terracrew.api.notifications import NotificationContent, NotificationEvent
from terracrew.server.announcements.model import Announcement
from terracrew.wording import plan_words

_LOST = (
    "Neither its runner nor its executor is in contact, in the middle of a change. The job waits and keeps the lock of its module until "
    "contact returns, the lease ends, or somebody gives the attempt up."
)
_IN_DOUBT = (
    "An attempt was cut short in the middle of a change, so what it made may be in no state. The next plan of the module waits for an "
    "approval."
)


def of_transition(before: Job, after: Job) -> Announcement | None:
    """Return what people are told when the status of a job changes."""
    if after.status is before.status:
        return None
    if after.status is JobStatus.AWAITING_APPROVAL:
        return _announcement(after, "approval_wanted", "wants an approval", plan_words.counts(after.plan))
    is_drift_check = after.origin is not None and after.origin.kind == "drift"  # `drift/news.py` tells of its failure
    if after.status is JobStatus.FAILED and not is_drift_check:
        return _announcement(after, "job_failed", "failed", after.message)
    return None


def of_attempt(job: Job, before: Attempt, after: Attempt) -> Announcement | None:
    """Return what people are told when an attempt of a job changes."""
    if after.is_in_doubt and not before.is_in_doubt:
        return _announcement(job, "job_lost", "was cut short: its module is in doubt", _IN_DOUBT, _reason(after))
    if after.lost_at is not None and before.lost_at is None and after.ended_at is None:
        return _announcement(job, "job_lost", "has lost contact in the middle of a change", _LOST, _reason(after))
    return None


def _reason(attempt: Attempt) -> dict[str, str]:
    return {"Attempt": str(attempt.number), "Reason": attempt.reason}


def _announcement(
    job: Job, event: NotificationEvent, what: str, text: str, facts: dict[str, str] | None = None
) -> Announcement:
    origin = {job.origin.words: job.origin.title or job.origin.url} if job.origin else {}
    about = {"Job": f"#{job.number} {job.type}", "Commit": job.source_commit[:12], "Failure": job.failure_kind}
    return Announcement(
        event=event,
        organization_id=job.organization_id,
        module_id=job.module_id,
        subject_id=job.id,
        content=NotificationContent(
            title=f"{job.type} #{job.number} {what}",
            text=text,
            link=f"/dashboard/jobs/{job.id}",
            facts=about | origin | (facts or {}),
        ),
    )
