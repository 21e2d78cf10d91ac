"""What a run has to say to the person at the prompt besides the lines of its engine."""

from terracrew.api.job_views import Reason
from terracrew.api.jobs import Job, JobStatus
from terracrew.server.terminals.model import Phase

MIN_WAIT_SECONDS = 1.5
"""How long a job waits before its log says why: most jobs start at once."""


def of_wait(reason: Reason, job: Job, url: str) -> str:
    """Return the lines that say what a job waits for, and where a person can do something about it.

    The reason is one without names that not every viewer of the job may see. The page of the job has those for whoever may see them.
    """
    text = reason.text.replace("that you may not see", "that not everybody may see")
    where = f"{url}{reason.link}" if reason.link else address(job, url)
    return f"{text[:1].upper()}{text[1:]}.\n  {where}\n"


def head(phase: Phase, job: Job, url: str) -> str:
    """Return the beginning of a log. Command lines leave out the first three lines of an apply, so these say nothing new."""
    if phase == "plan":
        return ""
    return f"Job {job.number}\n{address(job, url)}\n\n"


def end(job: Job, url: str) -> str:
    """Return the last lines of a log: how its job ended, unless the lines of the engine say that."""
    match job.status:
        case JobStatus.FAILED:
            outcome = f"Job {job.number} has failed"
        case JobStatus.CANCELED:
            outcome = f"Job {job.number} is canceled, and its module is not locked any more"
        case JobStatus.DECLINED:
            outcome = f"Job {job.number} was declined, and nothing was changed"
        case _:
            return ""
    because = f": {job.message}" if job.message else ""
    return f"\n{outcome}{because}.\n  {address(job, url)}\n"


def address(job: Job, url: str) -> str:
    return f"{url}/dashboard/jobs/{job.id}"
