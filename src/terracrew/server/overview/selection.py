"""Says which of the things that may need a person do need one, each once. Page, API and command line show what is selected here."""

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from terracrew.api.job_views import JobListed
from terracrew.api.jobs import JobStatus
from terracrew.server.runs.attention import Attention, TroubledModule

Listed = TypeVar("Listed", bound=JobListed)
LOST_CODES = frozenset({"lost", "silent"})
"""The reasons of active jobs that may be lost."""
NEEDS_NOBODY_CODES = frozenset(
    {"all_full", "module_busy", "locked", "capped", "offered", "starting", "retry", "settling", "waking"}
)
"""The reasons for waiting that end by themselves. The words of the dashboard say the same; a test holds them together."""


class WaitingJobs(msgspec.Struct, Generic[Listed], frozen=True):
    """Jobs that wait for the same reason."""

    job: Listed
    """The one that waits longest."""
    others: int


class Selected(msgspec.Struct, Generic[Listed], frozen=True):
    """What needs a person, up to one more of each kind than is listed."""

    to_approve: list[Listed]
    failed: list[Listed]
    lost: list[Listed]
    in_doubt: list[TroubledModule]
    """Without the modules of which a plan or a lost job is listed."""
    quarantined: list[TroubledModule]
    stale: list[Listed]
    waiting: list[WaitingJobs[Listed]]
    """What the server holds comes first. Jobs that wait for a state in quarantine are left out where that is listed itself."""


def select(found: Attention, jobs: Mapping[str, Listed]) -> Selected[Listed]:
    """Return what needs a person. `jobs` has those of the found jobs that exist, by their ids, with their reasons."""

    def known(ids: Iterable[str]) -> list[Listed]:
        return [jobs[each] for each in ids if each in jobs]

    to_approve = known(found.to_approve)
    lost = [each for each in known(found.out_of_contact) if each.reason and each.reason.code in LOST_CODES]
    named = {job.module_path for job in (*to_approve, *lost)}
    held = {each.path for each in found.quarantined}
    return Selected(
        to_approve=to_approve,
        failed=known(found.failed),
        lost=lost,
        in_doubt=[each for each in found.in_doubt if each.path not in named],
        quarantined=found.quarantined,
        stale=known(found.stale),
        waiting=[
            each
            for each in _waiting(known(found.queued))
            if not (each.job.module_path in held and each.job.reason and each.job.reason.code == "quarantine")
        ],
    )


def _waiting(queued: Iterable[Listed]) -> list[WaitingJobs[Listed]]:
    """Return for each reason for which a person has to do something the job that waits longest."""
    found: dict[tuple[str, str], WaitingJobs[Listed]] = {}
    for job in queued:
        reason = job.reason
        if reason is None or job.status is not JobStatus.QUEUED or reason.code in NEEDS_NOBODY_CODES:
            continue
        key = reason.code, reason.text
        first = found.get(key)
        found[key] = WaitingJobs(job, 0) if first is None else WaitingJobs(first.job, first.others + 1)
    return sorted(found.values(), key=lambda each: each.job.reason is None or each.job.reason.code != "held")
