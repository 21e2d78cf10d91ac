"""What is not known about an attempt that was cut short: its log ends, and it may have changed something after that."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from terracrew.api.lost_resources import LogGap, PlannedAction
from terracrew.engine_rules import import_blocks
from terracrew.server.db.seam import Tx
from terracrew.server.jobs.lost_resources import search, store
from terracrew.server.jobs.lost_resources.model import UnreportedChange
from terracrew.server.jobs.lost_resources.store import CutLog
from terracrew.wording.durations import duration

_PLANNED: dict[str, PlannedAction] = {
    "create": "planned_create",
    "replace": "planned_replace",
    "delete": "planned_destroy",
}
_FIRST_NUMBER = search.MAX_CHANGES + 1


def of_log(log: CutLog) -> LogGap:
    """Return the gap after a log that is not known to be complete."""
    times = [each for each in (log.received_at, log.heard_at, log.began_at) if each is not None]
    return gap(
        log.job_id,
        log.number,
        log.received_at or log.began_at,
        max(times),
        is_output_missing=log.is_output_missing,
        is_begin_unknown=log.is_begin_unknown,
    )


def gap(
    job_id: str,
    attempt: int,
    log_ends_at: datetime,
    heard_at: datetime,
    *,
    is_output_missing: bool,
    is_begin_unknown: bool,
) -> LogGap:
    seconds = (heard_at - log_ends_at).total_seconds()
    if is_begin_unknown:
        text = f"the database was set back, and has lost what attempt {attempt} did after its log ends"
    elif is_output_missing:
        text = (
            f"the machine of attempt {attempt} crashed, and the end of the log had perhaps not reached its disk, "
            "or the log was cut because it reached its limit"
        )
    elif seconds >= 1:
        text = f"the log of attempt {attempt} ends {duration(seconds)} before the last contact with it"
    else:
        text = f"the log of attempt {attempt} ends with the last contact with it"
    text += ": what the attempt changed after that is not known, so the list of what it changed may be incomplete"
    return LogGap(job_id, attempt, log_ends_at, heard_at, text)


async def unreported(tx: Tx, logs: Iterable[CutLog]) -> list[UnreportedChange]:
    """Return what the plans of attempts were to create, replace or destroy, and their logs do not mention.

    Once a person has approved a plan, they have looked, and nothing is returned any more.
    """
    found: list[UnreportedChange] = []
    for log in logs:
        if log.is_undecided and log.plan is not None:
            reported = set(map(_checked, await store.reported_addresses(tx, log.job_id, log.number)))
            planned = [(_checked(each.address), each.action) for each in log.plan.resources]
            left = [(address, action) for address, action in planned if action in _PLANNED and address not in reported]
            found += [
                UnreportedChange(log.number, number, address, _PLANNED[action])
                for number, (address, action) in enumerate(left, _FIRST_NUMBER)
            ]
    return found


def explain(gaps: Sequence[LogGap]) -> str:
    return "; ".join(each.explanation for each in gaps)


def _checked(address: str) -> str:
    return import_blocks.checked_address(address) or address
