"""Decides what becomes of a roll-out: a pure function from its rows and what is known of its runners to one next step.

The loop calls it again until it returns None. Each step is small (one runner, or the roll-out itself), so that a server can be killed
between any two of them, and another goes on.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus
from terracrew.api.rollouts import MIN_WAVE, SETTLED, Rollout, RolloutRunner, RolloutRunnerStatus, RolloutStatus
from terracrew.source_rules import version_ranges

_S = RolloutRunnerStatus


class RunnerFacts(msgspec.Struct, frozen=True):
    """What is known of a runner now."""

    path: str
    is_disabled: bool = False
    is_removing: bool = False
    version: str = ""
    """The lowest version that it takes jobs with; empty if it is not known."""
    open_job: int | None = None
    """The number of another job of the fleet that changes this runner and has not ended."""
    is_away: bool = False
    """Whether it has just disconnected, as all runners do when their server is started again. It is waited for a while."""


class ReleaseFacts(msgspec.Struct, frozen=True):
    """What is known of the release of a roll-out now."""

    withdrawn_reason: str | None = None
    """Why it was withdrawn; None if it was not."""
    newer: str = ""
    """The latest release, if that is a higher one."""


class Save(msgspec.Struct, frozen=True):
    """Write a runner of the roll-out."""

    before: RolloutRunner
    after: RolloutRunner


class Queue(msgspec.Struct, frozen=True):
    """Queue the update of a runner; it belongs to this wave from now on."""

    runner: RolloutRunner
    wave: int


class End(msgspec.Struct, frozen=True):
    """Write the roll-out itself."""

    after: Rollout


RolloutStep = Save | Queue | End


def step(
    rollout: Rollout,
    runners: Sequence[RolloutRunner],
    facts: Mapping[str, RunnerFacts],
    jobs: Mapping[str, FleetJob],
    release: ReleaseFacts,
    now: datetime,
) -> RolloutStep | None:
    """Return the next thing to do; None while there is nothing to do.

    `facts` has the runners of `due` that exist, and `jobs` the jobs of the fleet that update runners, each by its id.
    """
    for each in runners:
        if each.status is _S.UPDATING and (after := _ended(each, jobs.get(each.job_id or ""), now)) is not None:
            return Save(each, after)
    if not rollout.is_open:
        return None
    if (failed := next((each for each in runners if each.status is _S.FAILED), None)) is not None:
        return End(rollout.to(RolloutStatus.STOPPED, now, failed.words, failed.runner_id))
    if release.withdrawn_reason is not None:
        words = f"{rollout.version} was withdrawn: {release.withdrawn_reason}".removesuffix(": ")
        return End(rollout.to(RolloutStatus.STOPPED, now, words))
    is_busy = any(each.status is _S.UPDATING for each in runners)
    if (
        rollout.status is RolloutStatus.PAUSED
    ):  # after a newer release it cannot be resumed, and would keep others from starting
        is_over = bool(release.newer) and not is_busy
        return End(rollout.to(RolloutStatus.STOPPED, now, f"{release.newer} was published")) if is_over else None
    waiting = due(rollout, runners)
    if not waiting:
        is_done = all(each.status in SETTLED for each in runners)
        return End(rollout.to(RolloutStatus.DONE, now)) if is_done else None
    wave = waiting[0].wave or MIN_WAVE
    is_begun = any(each.wave == wave and each.status in (_S.UPDATING, _S.UPDATED) for each in runners)
    if release.newer and not is_begun:
        return None if is_busy else End(rollout.to(RolloutStatus.STOPPED, now, f"{release.newer} was published"))
    for each in waiting:
        if words := _skip_words(rollout, each, facts.get(each.runner_id)):
            return Save(each, each.to(_S.SKIPPED, now, words=words))
    if not any(each.status is _S.UPDATED for each in runners):
        if is_busy:
            return None
        wave, waiting = MIN_WAVE, waiting[:1]  # also if the runner that was to be the first was skipped
    for each in waiting:
        if facts[each.runner_id].open_job is None and not facts[each.runner_id].is_away:
            return Queue(each, wave)
    return None


def due(rollout: Rollout, runners: Sequence[RolloutRunner]) -> list[RolloutRunner]:
    """Return the runners that wait in the wave whose turn it is, by path; none while an earlier wave has not been updated."""
    waiting = sorted((each for each in runners if each.status is _S.WAITING), key=_order)
    if rollout.status is not RolloutStatus.ROLLING or not waiting:
        return []
    wave = waiting[0].wave or MIN_WAVE
    if any(each.status not in SETTLED for each in runners if each.wave is not None and each.wave < wave):
        return []
    return [each for each in waiting if each.wave == wave]


def _ended(runner: RolloutRunner, job: FleetJob | None, now: datetime) -> RolloutRunner | None:
    """Return what became of a runner whose job has ended."""
    if job is None:
        return runner.to(_S.FAILED, now, words="the job that updated it is gone, so nobody knows how it ended")
    if not job.is_terminal:
        return None
    if job.status is FleetJobStatus.SUCCEEDED:
        return runner.to(_S.UPDATED, now, words=_took(job))
    return runner.to(_S.FAILED, now, words=job.error or f"job {job.number} was {job.status.lower()}")


def _took(job: FleetJob) -> str:
    if job.started_at is None or job.finished_at is None:
        return ""
    return f"said hello and passed its trial after {(job.finished_at - job.started_at).total_seconds():.0f} s"


def _skip_words(rollout: Rollout, runner: RolloutRunner, now: RunnerFacts | None) -> str:
    """Return why a runner is not updated although it waits; empty if it is."""
    if now is None:
        return "it was removed"
    if now.is_removing:
        return "it is being removed"
    if now.is_disabled:
        return "it is disabled"
    if now.path != runner.path:
        return f"it is now `{now.path}`"
    have, wanted = version_ranges.parse_version(now.version), version_ranges.parse_version(rollout.version)
    if have is not None and wanted is not None and have.order >= wanted.order:
        return f"it has {now.version} already"
    return ""


def _order(runner: RolloutRunner) -> tuple[int, str, str]:
    return runner.wave or MIN_WAVE, runner.path, runner.runner_id


def retry(runner: RolloutRunner, now: datetime) -> RolloutRunner:
    """Return a runner that failed, to be updated again because its roll-out was resumed."""
    return runner.to(_S.WAITING, now, words="", job_id=None, job_number=None)
