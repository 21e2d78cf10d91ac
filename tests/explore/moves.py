"""What can happen next in a world: steps of processes, messages, time, faults, and what people do."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.explore import set_back
from tests.explore.server import Server
from tests.explore.wording import ABOUT_RUNNER, WORDS
from tests.explore.world import (
    ANSWER,
    ASK,
    HOLD,
    LOST_NUMBER,
    NEW,
    NO,
    NOW,
    TERMINAL,
    UNKNOWN,
    Runner,
    Try,
    World,
    has_changed,
    is_spent,
    put,
    with_job,
    with_runner,
    with_try,
    without_disk,
)

STEP, ACT, END, FAULT, SET_BACK = "step", "act", "end", "fault", "set back"
"""What goes on by itself or by a person's mending act; a person who wants no more of it; what goes wrong; the database is set back,
which happens at most once and does not count as a fault."""


class Move(NamedTuple):
    kind: str
    name: str
    what: tuple[int, ...]
    """A runner; or a job, and the number of its attempt."""
    after: World


class Bounds(NamedTuple):
    attempts: int = 3
    faults: int = 3
    states: int = 1
    """That an engine writes."""
    has_objects: bool = False
    """A state's object travels apart from its event."""
    has_pauses: bool = False
    """The reaper may pause between finding an attempt silent and acting on it."""
    has_set_back: bool = False
    """The database may be set back once, to any earlier moment."""


def words(move: Move) -> str:
    what = (*move.what, 0, 0, 0)
    if move.name in ABOUT_RUNNER:
        return WORDS[move.name].format(r=what[0] + 1)
    about = f"attempt {what[1] % LOST_NUMBER} of job {what[0] + 1}"
    if what[1] > LOST_NUMBER:
        about = f"the lost {about}"
    return WORDS[move.name].format(j=what[0] + 1, n=what[1], a=about, r=what[2] + 1)


class Moves:
    def __init__(self, server: Server, bounds: Bounds) -> None:
        self.server, self.bounds = server, bounds
        self._own: dict[tuple[Try, bool], tuple[tuple[str, str, Try], ...]] = {}

    def __call__(self, world: World, *, is_calm: bool = False) -> list[Move]:
        """All moves; without the faults, and the people who want no more of it, where `is_calm`."""
        found: list[Move] = []
        self._connections(world, found)
        for i, it in enumerate(world.tries):
            if it.job == HOLD:
                continue
            self._alone(world, i, found, is_calm)
            self._reports(world, i, found, is_calm)
            self._mail(world, i, found)
            self._disk(world, i, found, is_calm)
            self._time(world, i, found)
        self._claims(world, found)
        self._people(world, found, is_calm)
        if not is_calm:
            self._faults(world, found)
        if self.bounds.has_set_back and not world.hold:
            if world.backup is None:
                found.append(Move(SET_BACK, "back up", (), set_back.back_up(world)))
            else:
                found.append(Move(SET_BACK, "set back", (), set_back.set_back(world)))
        return found

    def attempts_left(self, world: World) -> bool:
        return sum(job.attempt - (job.status in (NEW, "QUEUED")) for job in world.jobs) < self.bounds.attempts

    # ---- runners, and the server itself

    def _connections(self, world: World, found: list[Move]) -> None:
        for r, runner in enumerate(world.runners):
            if not runner.up:
                found.append(Move(STEP, "return", (r,), with_runner(world, r, up=True)))
            elif not runner.link and not runner.is_removed:
                found.append(Move(STEP, "connect", (r,), self.server.hello(world, r)))

    def _faults(self, world: World, found: list[Move]) -> None:
        is_any_removed = any(runner.is_removed for runner in world.runners)
        for r, runner in enumerate(world.runners):
            its = [it for it in world.tries if it.runner == r]
            if not is_any_removed and len(world.runners) > 1:
                found.append(Move(FAULT, "remove", (r,), with_runner(world, r, link=False, is_removed=True)))
            if not any(it.known or not it.outcome for it in its):
                continue  # nobody would notice
            if runner.up:
                found.append(Move(FAULT, "crash", (r,), with_runner(world, r, up=False, link=False)))
                if runner.link:
                    found.append(Move(FAULT, "disconnect", (r,), with_runner(world, r, link=False)))
            elif any(it.known for it in its):
                found.append(Move(FAULT, "return empty", (r,), _empty(with_runner(world, r, up=True), r)))
            if any(it.known or it.phase in "RMD" or it.has_engine for it in its):
                down = with_runner(world, r, up=False, link=False)
                found.append(Move(FAULT, "lose the host", (r,), _empty(down, r, is_host=True)))
                if any(it.phase in "RMD" or it.has_engine for it in its):
                    tries = (_killed(it) if it.runner == r else it for it in world.tries)
                    found.append(Move(FAULT, "reboot", (r,), down._replace(tries=tuple(tries))))
        if any(runner.link for runner in world.runners) or any(it.link for it in world.tries):
            runners = tuple(Runner(runner.up, False, runner.is_removed) for runner in world.runners)
            tries = tuple(it._replace(link=False, mail=it.mail & ANSWER) for it in world.tries)
            found.append(Move(FAULT, "restart", (), world._replace(runners=runners, tries=tries)))

    def _reports(self, world: World, i: int, found: list[Move], is_calm: bool) -> None:
        """What a runner does with an attempt that is on its disk."""
        it = world.tries[i]
        runner, what = world.runners[it.runner], (it.job, it.number)
        if not runner.up or not it.known:
            return
        if it.known == 1:
            name = "start" if it.phase == "-" else "find"
            found.append(
                Move(STEP, name, what, with_try(world, i, phase="R" if it.phase == "-" else it.phase, known=2))
            )
        if not runner.link:
            return
        if it.known == 1:
            after = self.server.report(world, i, saw_process=False)
            found.append(
                Move(STEP, "hand back", what, with_try(after, i, known=0) if after.tries[i].outcome else after)
            )
        elif it.phase == "X" and not it.has_engine:
            after = self.server.report(world, i, saw_process=True)
            if is_spent(it):
                found.append(Move(STEP, "gone", what, with_try(after, i, known=0)))
            elif not is_calm:  # what it has on its disk may still be delivered, and then it reports again
                found.append(Move(FAULT, "gone too early", what, after))

    # ---- an executor and its engine

    def _alone(self, world: World, i: int, found: list[Move], is_calm: bool) -> None:
        it = world.tries[i]
        what = (it.job, it.number)
        key = (it, world.jobs[it.job].is_canceled)
        own = self._own.get(key)
        if own is None:
            own = self._own[key] = tuple(self._steps(*key))
        for kind, name, after in own:
            if not (is_calm and kind == FAULT):
                found.append(Move(kind, name, what, put(world, i, after)))
        if it.outcome == UNKNOWN and (it.phase in "RMD" or self._has_way(world, i)):
            if (after := self.server.restore(world, i)) is not None:
                found.append(Move(STEP, "show the receipt", what, after))
        elif it.phase in "RMD" and not it.link:
            found.append(Move(STEP, "executor connects", what, self.server.executor_hello(world, i)))
        if not is_calm and it.phase == "-" and it.known == 1 and world.runners[it.runner].up:
            torn = with_runner(with_try(world, i, phase="R"), it.runner, up=False, link=False)
            found.append(Move(FAULT, "start and crash", what, torn))

    def _steps(self, it: Try, is_canceled: bool) -> Iterator[tuple[str, str, Try]]:
        """What an executor and its engine do, or suffer, by themselves."""
        if it.phase == "X" and it.has_engine:
            saved = self._saved(it)._replace(end="A") if it.known else it
            yield STEP, "orphan ends", saved._replace(has_engine=False)
            yield FAULT, "orphan is killed", it._replace(has_engine=False)
        if it.phase not in "RMD":
            return
        if it.link:
            yield FAULT, "executor disconnects", it._replace(link=False)
        dead = it._replace(phase="X", link=False, mail=it.mail & ASK)
        if it.known == 0:
            dead = without_disk(dead)
        yield FAULT, "executor dies", dead
        if it.phase == "M":
            yield FAULT, "engine dies", dead._replace(has_engine=False)
            yield from self._changes(it, is_canceled)
        elif it.phase == "R":
            if it.outcome and it.outcome != UNKNOWN:
                yield STEP, "stop", it._replace(phase="X", link=False, mail=0)
            elif it.link and is_canceled:
                yield STEP, "obey", it._replace(phase="D", mail=0, result="CANCELED")
            else:
                yield FAULT, "evict", it._replace(phase="D", mail=it.mail & ASK, result="CANCELED")
        if it.mail & ANSWER and it.phase == "R":
            begun = it._replace(phase="M", has_engine=True, has_unsaved=True, mail=it.mail & ~ANSWER)
            yield STEP, "answer", begun
            yield FAULT, "lose the answer", it._replace(mail=it.mail & ~ANSWER)

    def _changes(self, it: Try, is_canceled: bool) -> Iterator[tuple[str, str, Try]]:
        """What becomes of an engine in the middle of a change, while its executor lives."""
        if it.has_unsaved:
            yield STEP, "write", self._saved(it)
        elif it.states < self.bounds.states:
            yield STEP, "make", it._replace(has_unsaved=True)
        ended = self._saved(it)._replace(end="S", phase="D", has_engine=False)
        killed = it._replace(end="C", phase="D", has_engine=False)
        yield STEP, "finish", ended._replace(result="CANCELED" if is_canceled else "SUCCEEDED")
        yield FAULT, "engine is killed", killed._replace(result="FAILED")
        if it.known:
            yield FAULT, "finish and die", ended._replace(phase="X", link=False, mail=it.mail & ASK)
        if is_canceled:
            yield STEP, "obey and kill", killed._replace(result="CANCELED")
        else:
            yield FAULT, "evict", ended._replace(result="CANCELED")
            yield FAULT, "evict and kill", killed._replace(result="CANCELED")

    def _saved(self, it: Try) -> Try:
        """What it made is in a state on the disk. An engine that has saved everything writes no further state."""
        if not it.has_unsaved:
            return it
        stored = it.stored if self.bounds.has_objects else it.states + 1
        return it._replace(states=it.states + 1, stored=stored, has_unsaved=False)

    def _mail(self, world: World, i: int, found: list[Move]) -> None:
        it = world.tries[i]
        what = (it.job, it.number)
        if it.phase == "R" and it.link and not it.mail:
            found.append(Move(STEP, "ask", what, with_try(world, i, mail=ASK)))
        if it.mail & ASK:
            after, answer = self.server.begin(world, i)
            found.append(Move(STEP, "begin", what, self._answered(after, i, answer)))

    @staticmethod
    def _answered(world: World, i: int, answer: str) -> World:
        """A refusal works at once; should it be lost, it is as if `begin` had not arrived."""
        it = world.tries[i]
        if it.phase != "R":
            return with_try(world, i, mail=it.mail & ASK)
        if not it.link:
            return world
        match answer:
            case "state_moved":
                return with_try(world, i, base=NOW, plan=it.number)
            case "superseded":
                return with_try(world, i, phase="X", link=False, mail=0)
            case "canceled":
                return with_try(world, i, phase="D", mail=0, result="CANCELED")
            case "approval":
                return with_try(world, i, phase="D", mail=0, result="WAITING")
            case _:
                return world

    def _disk(self, world: World, i: int, found: list[Move], is_calm: bool) -> None:
        it = world.tries[i]
        if is_spent(it) or not self._has_way(world, i) or not self.server.may_deliver(world, it):
            return
        if it.outcome == UNKNOWN:
            return
        if world.hold and it.phase == "X" and (it.may_have_begun or it.begun == NO):
            # What delivers for it says hello first, and tells whether the attempt has begun.
            world = self.server.recall(self.server.notice(world) if has_changed(it) else world, i)
            it = world.tries[i]
        what = (it.job, it.number)
        if it.stored < it.states:
            found.append(Move(STEP, "store", what, with_try(world, i, stored=it.stored + 1)))
        after = self.server.take(world, i)
        if after is None:
            return
        found.append(Move(STEP, "deliver", what, self._cleared(after, i)))
        if is_calm:
            return
        if it.mark < it.states and (foreign := self.server.take(world, i, is_same_lineage=False)) is not None:
            found.append(Move(FAULT, "deliver foreign", what, self._cleared(foreign, i)))
        if after.tries[i].has_result:
            more = self.server.take_one_more(after, i)
            found.append(Move(FAULT, "deliver one more", what, self._cleared(more, i)))

    @staticmethod
    def _cleared(world: World, i: int) -> World:
        """An executor that is done and has delivered everything ends, and what it had is cleaned up."""
        it = world.tries[i]
        if it.phase != "D" or not is_spent(it):
            return world
        known = 0 if world.runners[it.runner].up else it.known
        return with_try(world, i, phase="X", link=False, known=known)

    @staticmethod
    def _has_way(world: World, i: int) -> bool:
        it = world.tries[i]
        runner = world.runners[it.runner]
        if it.phase in "RMD":
            return it.link
        return it.known > 0 and runner.up and (runner.link or runner.is_removed)

    # ---- time and people

    def _time(self, world: World, i: int, found: list[Move]) -> None:
        it = world.tries[i]
        if it.outcome:
            return
        is_in_contact = self.server.is_in_contact(world, it)
        if self.bounds.has_pauses and not is_in_contact and not it.eyed:
            found.append(Move(STEP, "eye", (it.job, it.number), self.server.eye(world, i)))
        elif (after := self.server.look(world, i)) is not None:
            name = "found" if is_in_contact and not it.eyed else "lease" if it.lost else "lost"
            found.append(Move(STEP, name, (it.job, it.number), after))
        if it.lost and (after := self.server.give_up(world, i)) is not None:
            found.append(Move(ACT, "give up", (it.job, it.number), after))

    def _claims(self, world: World, found: list[Move]) -> None:
        if not self.attempts_left(world):
            return
        for j, job in enumerate(world.jobs):
            if job.status not in (NEW, "QUEUED"):
                continue
            queued = world
            if job.status == NEW:  # it may be claimed in the transaction that creates it: nobody ever sees it queued
                queued = with_job(world, j, job._replace(status="QUEUED"))
                found.append(Move(STEP, "create", (j,), queued))
            for r, runner in enumerate(world.runners):
                if not runner.link or (after := self.server.claim(queued, j, r)) is None:
                    continue
                i = next(i for i, it in enumerate(after.tries) if (it.job, it.number) == (j, job.attempt))
                what = (j, job.attempt, r)
                found.append(Move(STEP, "claim", what, with_try(after, i, known=1)))
                found.append(Move(FAULT, "lose the grant", what, with_runner(after, r, link=False)))

    def _people(self, world: World, found: list[Move], is_calm: bool) -> None:
        for j, job in enumerate(world.jobs):
            if job.status in TERMINAL or job.status == NEW:
                continue
            if job.status == "AWAITING_APPROVAL":
                if (after := self.server.approve(world, j)) is not None:
                    found.append(Move(ACT, "approve", (j,), after))
                if any(it.fenced for it in world.tries):
                    after = self.server.approve(world, j, names_all=False)
                    if after is not None:
                        found.append(Move(ACT, "approve blindly", (j,), after))
                found.append(Move(ACT, "replan", (j,), self.server.replan(world, j)))
                if not is_calm:
                    found.append(Move(END, "decline", (j,), self.server.decline(world, j)))
            if not is_calm and not job.is_canceled:
                found.append(Move(END, "cancel", (j,), self.server.cancel(world, j)))
        if world.hold == "open":
            found.append(Move(ACT, "release", (), world._replace(hold="released")))
        if world.quarantine:
            if (adopted := self.server.adopt(world)) is not None:
                found.append(Move(ACT, "adopt", (), adopted))
            found.append(Move(ACT, "discard", (), self.server.discard(world)))


def _killed(it: Try) -> Try:
    """An attempt whose processes were killed; a `begin` that was sent may still arrive."""
    if it.phase == "-":
        return it
    return it._replace(phase="X", link=False, has_engine=False, mail=it.mail & ASK)


def _empty(world: World, r: int, *, is_host: bool = False) -> World:
    """A runner without its disk; with its host, its processes are lost as well, and what they had not delivered."""
    tries = list(world.tries)
    for i, it in enumerate(tries):
        if it.runner != r:
            continue
        it = (_killed(it) if is_host else it)._replace(known=0)
        tries[i] = without_disk(it) if it.phase in "-X" else it
    return world._replace(tries=tuple(tries))
