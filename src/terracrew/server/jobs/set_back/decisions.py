"""What becomes of an attempt of which a database that was set back knows less than its executor does.

These are pure functions, as in `decide`: `restore` and the services load, call them, and save.
"""

from datetime import datetime

from msgspec.structs import replace

from terracrew.api.jobs import Attempt, Job, JobStatus
from terracrew.server.jobs import decide
from terracrew.server.jobs.decision_types import Decision

SET_BACK = "the database was set back, and has lost what became of it"


def recall(
    job: Job, attempt: Attempt, now: datetime, *, has_begun: bool, is_proven: bool, state_version: int
) -> Decision | None:
    """Take what an executor says of its own `begin`, of which a database that was set back knows nothing (rule 10).

    Only if it proves that it had the permission does it have it again: otherwise an executor could give it to itself. Without a
    proof it counts as possibly begun. An attempt that counts as ended here has changed something nevertheless, so its module is in
    doubt, unless that was assumed when it ended. `state_version` is the state that it builds on, or `UNKNOWN_VERSION`.
    """
    if attempt.begun_at is not None:
        return None
    if not has_begun:
        return Decision(job, replace(attempt, may_have_begun=False)) if attempt.may_have_begun else None
    is_unexpected = attempt.ended_at is not None and not attempt.has_result and not attempt.may_have_begun
    said = replace(attempt, may_have_begun=True, is_in_doubt=attempt.is_in_doubt or is_unexpected)
    if is_proven:
        said = replace(said, may_have_begun=False, begun_at=now, begun_state_version=state_version)
    return None if said == attempt else Decision(job, said)


def restore(
    known: Job | None, claimed: Job, attempt: Attempt, now: datetime, *, earlier: Attempt | None, is_module_busy: bool
) -> Decision | None:
    """Take an attempt again that a database which was set back has lost. `known` is its job, if the database has that.

    It goes on as the owner of its job, also in place of an `earlier` attempt, because that one had ended when it was claimed. If the
    job has ended, or another job has the module, it is lost, and its module is in doubt. None means that it cannot be taken before
    the earlier attempt has ended: that one has a permit, so it may be changing the module at this moment.
    """
    if earlier is not None and earlier.begun_at is not None:
        return None
    if not is_module_busy and (known is None or (not known.is_terminal and known.attempt <= attempt.number)):
        if known is not None:  # its inputs are there, and what people have asked for since stays
            asked = {"cancel_mode": known.cancel_mode, "priority": known.priority}
            claimed = replace(claimed, has_lost_inputs=False, **asked)
        return Decision(claimed, attempt)
    lost_attempt = decide.lose(attempt, SET_BACK, now)
    if known is None:
        return Decision(claimed.to(JobStatus.FAILED, now, message=SET_BACK, failure_kind="set_back"), lost_attempt)
    # No later attempt of the job may have the number of this one.
    next_number = max(known.attempt, attempt.number + (known.status is JobStatus.QUEUED))
    return Decision(known if known.is_terminal else replace(known, attempt=next_number), lost_attempt)


def replaced(attempt: Attempt, now: datetime) -> Attempt:
    """End an attempt in whose place a later one was restored. What it changed is not known."""
    return decide.lose(attempt, SET_BACK, now)
