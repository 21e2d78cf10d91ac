"""Counts what happens to jobs and attempts: how long they wait and run, and how they are lost.

Each server counts what it has committed itself, so the whole is the sum over all servers.
"""

import logging
from collections.abc import Iterable
from datetime import datetime

from prometheus_client import Counter, Histogram

from terracrew.api.jobs import Attempt, Job
from terracrew.errors import TerracrewError
from terracrew.server.metrics.process import registry

_log = logging.getLogger("terracrew.jobs")
_WAIT_BOUNDS_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
_DURATION_BOUNDS_SECONDS = (0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0)

queue_wait = Histogram(
    "terracrew_job_queue_wait_seconds",
    "Time from when a job was queued to when a runner claimed it",
    buckets=_WAIT_BOUNDS_SECONDS,
    registry=registry,
)
start_wait = Histogram(
    "terracrew_job_start_wait_seconds",
    "Time from when a job was claimed to when its executor started",
    buckets=_WAIT_BOUNDS_SECONDS,
    registry=registry,
)
duration = Histogram(
    "terracrew_job_duration_seconds",
    "Time from when the last attempt of a job started to its end",
    ("type", "result"),
    buckets=_DURATION_BOUNDS_SECONDS,
    registry=registry,
)
ended = Counter("terracrew_jobs_ended", "Jobs that ended, started or not", ("type", "result"), registry=registry)
requeued = Counter(
    "terracrew_jobs_requeued",
    "Jobs that were queued again after an attempt of theirs had ended early",
    registry=registry,
)
attempts_ended = Counter("terracrew_attempts_ended", "Attempts that ended", ("outcome",), registry=registry)
attempts_lost = Counter(
    "terracrew_attempts_lost",
    "Attempts with which contact was lost in the middle of a change; some of them come back",
    registry=registry,
)
attempts_in_doubt = Counter(
    "terracrew_attempts_in_doubt",
    "Attempts after which a change may be unaccounted for, so that their module is in doubt",
    registry=registry,
)
events = Counter("terracrew_ingest_events", "Events of executors that were stored", registry=registry)
event_bytes = Counter(
    "terracrew_ingest_log_bytes", "Bytes of logs that were stored, before compression", registry=registry
)
batches = Counter("terracrew_ingest_batches", "Deliveries of executors that were stored", registry=registry)
refused = Counter(
    "terracrew_ingest_refused",
    "Deliveries of executors that were not stored, and come again",
    ("code",),
    registry=registry,
)
inits = Counter(
    "terracrew_init_steps",
    "Steps `init` that succeeded (`run`), and those for which an earlier job's was used (`kept`)",
    ("how",),
    registry=registry,
)

for _outcome in ("succeeded", "failed", "canceled", "waiting", "handed_back", "lost", "gone"):
    attempts_ended.labels(_outcome)
for _type in ("PLAN", "APPLY", "DESTROY"):
    for _result in ("SUCCEEDED", "FAILED", "CANCELED", "DECLINED"):
        ended.labels(_type, _result)
refused.labels("unavailable")


def claimed(waits: Iterable[float]) -> None:
    """Record that jobs were claimed after they had waited for these times."""
    for seconds in waits:
        queue_wait.observe(max(0.0, seconds))


def job_moved(before: Job, after: Job) -> None:
    """A job was saved."""
    if before.started_at is None and after.started_at is not None and after.claimed_at is not None:
        start_wait.observe(_between(after.claimed_at, after.started_at))
    if after.is_terminal and not before.is_terminal:
        labels = (after.type.value, after.status.value)
        ended.labels(*labels).inc()
        _tell_end(after)
        if after.started_at is not None and after.finished_at is not None:
            duration.labels(*labels).observe(_between(after.started_at, after.finished_at))
    elif before.is_active and after.status == "QUEUED":
        requeued.inc()


def _between(start: datetime, end: datetime) -> float:
    """Return the seconds between two moments; 0 if the clocks of two servers disagree about their order."""
    return max(0.0, (end - start).total_seconds())


def _tell_end(job: Job) -> None:
    """Log one line for each job that has ended."""
    took = (job.finished_at - job.started_at).total_seconds() if job.started_at and job.finished_at else None
    _log.info("job %d: %s %s%s", job.number, job.type, job.status, "" if took is None else f" after {took:.1f} s")


def attempt_moved(before: Attempt, after: Attempt) -> None:
    """An attempt was saved."""
    if before.outcome is None and after.outcome is not None:
        attempts_ended.labels(after.outcome).inc()
    if before.lost_at is None and after.lost_at is not None:
        attempts_lost.inc()
    if after.is_in_doubt and not before.is_in_doubt:
        attempts_in_doubt.inc()


def delivered(event_count: int, log_bytes: int) -> None:
    """Record that a delivery of an executor was stored."""
    batches.inc()
    events.inc(event_count)
    event_bytes.inc(log_bytes)


def init_ended(status: str, *, is_kept: bool) -> None:
    """Record what an attempt reports about its step `init`."""
    if status == "SUCCEEDED" or is_kept:
        inits.labels("kept" if is_kept else "run").inc()


def delivery_refused(error: Exception) -> None:
    refused.labels(error.code if isinstance(error, TerracrewError) else "invalid").inc()
