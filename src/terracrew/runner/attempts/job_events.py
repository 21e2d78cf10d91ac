"""Logs when this runner picks up a job, starts its executor and sees it end: the category `terracrew.runner.jobs`.

What the engine prints is in the log of the job, which goes to the server. Whether the job succeeded is known there, too.
"""

from terracrew.attempt import exit_codes
from terracrew.logging import get_logger
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import JobSpec
from terracrew.runner.dispatch.protocol import AttemptEnd
from terracrew.wording.durations import duration

_log = get_logger("terracrew.runner.jobs")


def picked_up(granted: Granted) -> None:
    spec = granted.spec
    _log.info("job picked up", **_job(spec), type=spec.type, engine=spec.engine)


def started(granted: Granted, dispatcher: str) -> None:
    _log.info("job started", **_job(granted.spec), dispatcher=dispatcher)


def ended(ref: AttemptRef, granted: Granted | None, end: AttemptEnd, seconds: float) -> None:
    """Log that the executor has ended. Without a grant, an earlier process of this runner has started it."""
    what = _job(granted.spec) | {"took": duration(seconds, exact=True)} if granted else {}
    exit_code = {} if end.code == exit_codes.DELIVERED else {"exit_code": end.code}
    _log.info("job ended", **(what or {"attempt": ref.attempt, "id": ref.job_id}), **exit_code)


def _job(spec: JobSpec) -> dict[str, object]:
    return {"job": spec.number, "attempt": spec.attempt, "module": spec.module_path, "id": spec.job_id}
