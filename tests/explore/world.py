"""The world that the explorer walks: what the server has stored, what runs where, and what is on its way."""

from functools import cache
from typing import Literal, NamedTuple

from terracrew.api.jobs import Outcome

ASK, ANSWER = 1, 2
"""Bits of `Try.mail`: a `begin`, and the leave that was given, on their way."""
NO, NOW, OLD, UNSURE = -1, 0, 1, 2
"""A version of the module's state: none, the current one, one that is not current any more, one that nobody knows."""
LATER = 100
"""The time of a decision that is being made; `tidy` brings it into the order of those that matter."""
UNKNOWN: Literal["unknown"] = "unknown"
"""The outcome of an attempt that the database does not have, because it was set back to a time before the claim."""
LOST_NUMBER = 50
"""What is added to the number of such an attempt, and once more when another one has got the same number: then its receipt is
refused."""
HOLD = 9
"""The job of the attempt that stands for a hold: it is a doubt about the module, as after a fence, and for what was made since the
backup and is in no state any more."""


class Plan(NamedTuple):
    """A kept plan and what was decided about it."""

    attempt: int
    runner: int
    version: int
    decided: int = 0
    """When it was approved; 0 is never."""
    is_applied: bool = False


class Job(NamedTuple):
    status: str
    attempt: int = 1
    needs_approval: bool = False
    is_canceled: bool = False
    plan: Plan | None = None
    """The one that the row names."""
    seen: int = 0
    """Which plan a person has approved, whatever the server makes of it."""
    has_waited: bool = False
    """A plan of it has waited for a person. Not kept for a job that needs an approval anyway."""
    is_retried: bool = False
    """Its module says `interrupted: retry`."""


class Try(NamedTuple):
    """An attempt: its row, its processes, its disk and its messages."""

    job: int
    number: int
    runner: int
    # the row
    is_started: bool = False
    begun: int = NO
    outcome: Outcome | Literal["", "unknown"] = ""
    is_gone: bool = False
    lost: int = 0
    """1: declared lost; 2: declared lost, and heard since."""
    fenced: int = 0
    """When it was fenced, while its module is in doubt because of it; 0 is never."""
    mark: int = 0
    is_passed: bool = False
    """Somebody else's state became the current one since its `begin`."""
    is_change_ended: bool = False
    has_result: bool = False
    may_have_begun: bool = False
    # its executor: not started yet, ready to change something, at it (with its engine), done, no more
    phase: str = "-"
    base: int = NO
    """The version that its plan was made from."""
    plan: int = 0
    """Whose plan it goes by: its own, or that of the attempt which kept it."""
    link: bool = False
    mail: int = 0
    has_engine: bool = False
    # its disk
    states: int = 0
    """How many states the engine has saved."""
    stored: int = 0
    """How many of them are in the object store."""
    end: str = ""
    """How the engine's end is recorded, after the states: "S" as a step that ended by itself, "C" as a step that was cut short,
    "A" in the last state, which is an errored one."""
    result: str = ""
    eyed: int = 0
    """The reaper has found it silent and has not acted on that yet. 2: heard since it was declared lost."""
    known: int = 0
    """What its runner's disk says: nothing, that it was granted, that its process was seen."""
    # what only an observer of the whole world knows
    has_unsaved: bool = False
    """The engine made something since its last save; or a state that it had saved was lost before it was delivered."""
    is_excused: bool = False
    """A plan that a person approved after this attempt was fenced has begun, and has not been cut short itself."""
    answered_by: int = 0
    """The attempt (`name_of`) whose `begin` has ended the doubt about this one, until that attempt has ended."""
    is_behind: bool = False
    """Another state became the current one since its engine has started, whatever the database knows of that."""


ROW = slice(0, 14)


class Runner(NamedTuple):
    up: bool = True
    link: bool = True
    is_removed: bool = False


_THERE, _REMOVED = Runner(), Runner(link=False, is_removed=True)


class Backup(NamedTuple):
    """What the database had at an earlier moment."""

    jobs: tuple[Job, ...]
    tries: tuple[Try, ...]
    """The rows, and what an observer knew then."""
    quarantine: int
    is_moved: bool = False
    """Another state became the current one since."""
    is_changed: bool = False
    """An attempt has made something and delivered it since."""


class World(NamedTuple):
    jobs: tuple[Job, ...]
    tries: tuple[Try, ...] = ()
    runners: tuple[Runner, ...] = (Runner(), Runner())
    quarantine: int = 0
    news: int = 0
    """How often the last move has made another state the current one."""
    backup: Backup | None = None
    hold: Literal["", "unnoticed", "open", "released"] = ""
    """Whether the database was set back, and what became of that."""


NEW = "NEW"
"""The status of a job that nobody has created yet."""
TERMINAL = frozenset({"SUCCEEDED", "FAILED", "CANCELED", "DECLINED"})
ACTIVE = frozenset({"CLAIMED", "PROCESSING"})


def name_of(it: Try) -> int:
    return it.job * 1000 + it.number


def with_try(world: World, i: int, **changes: object) -> World:
    return put(world, i, world.tries[i]._replace(**changes))


def put(world: World, i: int, it: Try) -> World:
    tries = world.tries
    return world._replace(tries=(*tries[:i], it, *tries[i + 1 :]))


def with_job(world: World, i: int, job: Job) -> World:
    return world._replace(jobs=(*world.jobs[:i], job, *world.jobs[i + 1 :]))


def with_runner(world: World, i: int, **changes: object) -> World:
    runners = (*world.runners[:i], world.runners[i]._replace(**changes), *world.runners[i + 1 :])
    return world._replace(runners=runners)


def moved(world: World, writer: int | None) -> World:
    """There is a new current state: plans were made from an older one now, and who has begun was passed by."""
    tries = tuple(
        it._replace(
            base=OLD if it.base == NOW else it.base,
            begun=OLD if it.begun == NOW else it.begun,
            is_passed=it.is_passed or (i != writer and it.begun != NO),
            is_behind=it.is_behind or (i != writer and world.hold != "" and has_changed(it)),
        )
        for i, it in enumerate(world.tries)
    )
    jobs = tuple(
        job._replace(plan=job.plan._replace(version=OLD)) if job.plan and job.status not in TERMINAL else job
        for job in world.jobs
    )
    backup = world.backup and world.backup._replace(is_moved=True, is_changed=True)
    return World(jobs, tries, world.runners, world.quarantine, world.news + 1, backup, world.hold)


def answered(world: World, it: Try, *, returns: bool) -> World:
    """An attempt has ended. What its `begin` was the answer to is settled, unless it was cut short itself."""
    tries = tuple(
        other._replace(
            answered_by=0,
            is_excused=other.is_excused and not it.fenced,
            fenced=LATER if returns and not other.is_change_ended else 0,
        )
        if other.answered_by == name_of(it)
        else other
        for other in world.tries
    )
    return world._replace(tries=tries)


def is_in_contact(world: World, it: Try) -> bool:
    """By its own connection, or by that of a runner that names it."""
    if it.outcome == UNKNOWN:
        return False
    return it.link or (it.known > 0 and world.runners[it.runner].link)


def last_event(it: Try) -> int:
    """The number of the last event in its outbox: first the states, then the end of the step, then the result."""
    return it.states + (it.end in ("S", "C")) + bool(it.result)


def is_spent(it: Try) -> bool:
    """All that it had to say is stored."""
    return it.mark == last_event(it)


def has_changed(it: Try) -> bool:
    """Whether its engine has started. The executor knows that: it has written down the answer to its `begin`."""
    return it.has_unsaved or it.states > 0 or it.end != ""


def is_unaccounted(it: Try) -> bool:
    """Whether something that its engine made is in no state that the server has."""
    return it.has_unsaved or it.mark < it.states


def without_disk(it: Try) -> Try:
    """The attempt after its outbox was lost: what was delivered remains, and nothing else comes."""
    states = min(it.states, it.mark)
    has_end = it.mark > it.states if it.end != "A" else it.mark >= it.states
    return it._replace(
        states=states,
        stored=states,
        end=it.end if has_end else "",
        result=it.result if it.has_result else "",
        has_unsaved=it.has_unsaved or it.mark < it.states,
    )


def is_refused(it: Try) -> bool:
    """Whether the database does not have it, and another attempt has got its number."""
    return it.number > 2 * LOST_NUMBER


def has_voice(world: World, it: Try) -> bool:
    """Whether what is on its disk can still come: its executor lives, or its runner has the disk."""
    if is_refused(it):
        return False
    return it.phase in "RMD" or (it.phase == "X" and it.known > 0)


def tidy(world: World) -> World:
    """The same world without what cannot matter any more, in one of the ways in which it can be written down."""
    return named(trim(world))


def trim(world: World) -> World:
    tries: list[Try] = []
    busy, makers, has_times = 0, 0, False
    backup = world.backup
    for it in world.tries:
        if (left := _left(it)) is None:
            if backup is not None and not backup.is_changed and has_changed(it):
                backup = backup._replace(is_changed=True)
        else:
            if backup is not None and it.known and left.states != it.states:
                left = it  # what is on its disk is delivered once more if the database is set back
            tries.append(left)
            if left.known or not left.outcome:
                busy |= 1 << left.runner
            if left.fenced > 1:
                has_times = True
    jobs = world.jobs
    for j, job in enumerate(jobs):
        if job.status in TERMINAL:
            jobs = (*jobs[:j], _ended(job), *jobs[j + 1 :])
        elif job.plan is not None:
            makers |= 1 << job.plan.runner
            has_times = has_times or job.plan.decided > 1
    runners = world.runners
    for r, runner in enumerate(runners):
        if not busy >> r & 1 and not (runner.up and runner.link) and world.hold != "unnoticed":
            runners = (*runners[:r], _idle(runner, makers >> r & 1), *runners[r + 1 :])
    world = World(jobs, tuple(tries), runners, world.quarantine, 0, backup, world.hold)
    return _timed(world) if has_times else world


@cache
def _left(it: Try) -> Try | None:
    """What of an attempt can still matter."""
    needs_base = it.phase in "-R" or it.mail & ASK or it.result == "WAITING"
    if not it.outcome:
        return it if needs_base else it._replace(base=NO)
    if it.outcome == UNKNOWN and (it.phase != "X" or it.known or it.has_engine):
        return it
    is_open = it.fenced > 0 or it.answered_by > 0 or (is_unaccounted(it) and not it.is_excused)
    if it.job == HOLD:
        return it if is_open else None
    if not it.has_engine and (is_spent(it) or (it.phase == "X" and not it.known)):
        if not is_open and (it.phase != "R" or not it.mail):
            return (
                None  # whatever it asks from now on is refused by its number; what it has asked before may still arrive
            )
        if it.phase == "X":
            is_known = it.known > 0  # otherwise nobody can learn any more whether something was made: it counts as made
            return Try(
                it.job,
                it.number,
                it.runner,
                begun=OLD,
                outcome=UNKNOWN if it.outcome == UNKNOWN else "lost",
                is_gone=it.is_gone and is_known,
                fenced=it.fenced,
                phase="X",
                known=it.known,
                is_change_ended=it.is_change_ended and is_known,
                has_unsaved=is_unaccounted(it) if is_known else not it.is_excused or it.answered_by > 0,
                is_excused=it.is_excused,
                answered_by=it.answered_by,
            )
    if needs_base:
        return it
    outcome = "lost" if it.outcome == "lost" else "failed"  # or any other
    return it._replace(is_started=True, base=NO, begun=OLD if it.begun == NOW else it.begun, outcome=outcome, eyed=0)


@cache
def _ended(job: Job) -> Job:
    return Job(job.status, job.attempt, is_retried=job.is_retried)


def _idle(runner: Runner, is_maker: int) -> Runner:
    """It has nothing, and nothing is asked of it: whether it is there makes no difference but to when a job is claimed.

    For one that was removed, another is started; but a plan that it made stays what a removed one has made.
    """
    return _REMOVED if runner.is_removed and is_maker else _THERE


def _timed(world: World) -> World:
    """Times matter only where an approval and a fence stand in between: everything else happened at once."""
    fences = [it.fenced for it in world.tries if it.fenced]
    decided = [job.plan.decided for job in world.jobs if job.plan and job.plan.decided]
    rank, order, was = 0, {0: 0}, None
    for time, is_fence in sorted({(time, True) for time in fences} | {(time, False) for time in decided}):
        rank += is_fence is not was
        was = is_fence
        order[time] = rank
    tries = tuple(it._replace(fenced=order[it.fenced]) if it.fenced else it for it in world.tries)
    jobs = tuple(
        job._replace(plan=job.plan._replace(decided=order[job.plan.decided])) if job.plan else job for job in world.jobs
    )
    return world._replace(jobs=jobs, tries=tries)


@cache
def _renamed(backup: Backup) -> Backup:
    """The backup with the other names of the runners."""
    tries = tuple(it._replace(runner=1 - it.runner) for it in backup.tries)
    return backup._replace(tries=tries, jobs=tuple(map(_of_other_runner, backup.jobs)))


def _of_other_runner(job: Job) -> Job:
    return job._replace(plan=job.plan._replace(runner=1 - job.plan.runner)) if job.plan else job


def named(world: World) -> World:
    """Two runners are alike: the first is the one that is named first."""
    if len(world.runners) == 1:
        return world
    if world.tries and world.tries[0].job != HOLD:
        is_second = world.tries[0].runner
    else:
        makers = [job.plan.runner for job in world.jobs if job.plan]
        is_second = makers[0] if makers else world.runners[0] < world.runners[1]
    if not is_second:
        return world
    tries = tuple(it if it.job == HOLD else it._replace(runner=1 - it.runner) for it in world.tries)
    jobs = tuple(map(_of_other_runner, world.jobs))
    backup = world.backup and _renamed(world.backup)
    return World(jobs, tries, world.runners[::-1], world.quarantine, 0, backup, world.hold)
