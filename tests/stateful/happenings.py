"""What may happen to a world, each with a weight: most of the time all goes well, and now and then something does not."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import JobType
from terracrew.server.jobs.model import JobStatus
from tests.stateful.crew import Host
from tests.stateful.executor import Executor
from tests.stateful.link import KILLED, SILENT, STOPPING
from tests.stateful.world import MOST_OPEN, Action, World

Happening = Callable[[World, Random], Awaitable[object] | None]
HAPPENINGS: dict[Happening, int] = {}
"""None: it cannot happen now."""
KINDS = (JobType.APPLY, JobType.APPLY, JobType.APPLY, JobType.DESTROY, JobType.PLAN)


def weight(count: int) -> Callable[[Happening], Happening]:
    def note(happening: Happening) -> Happening:
        HAPPENINGS[happening] = count
        return happening

    return note


def _any(random: Random, things: list[Any]) -> Any:
    return random.choice(things) if things else None


def _connected(world: World) -> list[Executor]:
    return [each for each in world.crew.executors.values() if each.link is not None and each.link.is_open]


def _alive(world: World) -> list[Executor]:
    return [each for each in world.crew.executors.values() if each.process == "alive"]


def _hosts(world: World) -> list[Host]:
    return [host for host in world.crew.hosts if host.is_connected]


# ---- what goes well


@weight(10)
def executor_goes_on(world: World, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = _any(random, world.busy)

    async def work(executor: Executor) -> list[str]:
        return [await executor.go_on() for _ in range(random.randrange(2, 9))]

    return executor and work(executor)


@weight(6)
def several_go_on_at_once(world: World, random: Random) -> Awaitable[object] | None:
    found = world.natural()
    chosen = random.sample(found, min(len(found), random.randrange(2, 6)))
    actions: dict[object, Action] = dict(chosen)

    async def look() -> str:
        await world.site.loops()
        return "looked"

    return world.at_once([*actions.values(), *([look] if random.random() < 0.3 else [])])


@weight(3)
def jobs_are_wanted(world: World, random: Random) -> Awaitable[object] | None:
    if len(world.open_jobs) >= MOST_OPEN:
        return None
    module = random.choice(world.modules[:2] if random.random() < 0.8 else world.modules)
    return world.create(module, random.choice(KINDS), needs_approval=random.random() < 0.2)


@weight(4)
def hosts_race_for_jobs(world: World, random: Random) -> Awaitable[object] | None:
    queued = world.of(JobStatus.QUEUED)
    jobs = random.sample(queued, min(len(queued), random.randrange(1, 4)))
    # Some of them for an attempt that is over, or has yet to come.
    wrong = random.choice([0, 0, 0, 0, -1, 1])
    claims: list[Action] = [
        lambda h=host, j=job: h.claim(j.id, max(0, j.attempt + wrong)) for host in _hosts(world) for job in jobs
    ]
    random.shuffle(claims)
    return world.at_once(claims) if claims else None


# ---- executors and their messages


@weight(6)
def events_are_delivered(world: World, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = _any(random, _connected(world))
    if executor is None:
        return None
    if not executor.is_over:
        for _ in range(random.randrange(3)):
            executor.log()
    mode: Any = random.choice(["next", "again", "reordered", "gap", "cut", "lost"])
    return executor.deliver(mode, random.randrange(1, 6))


@weight(5)
def leave_is_asked_for(world: World, random: Random) -> Awaitable[object] | None:
    """In the right words by who has a plan; else in wrong ones, by whoever lives, also when it is long superseded."""
    executor: Executor | None = _any(random, [each for each in _connected(world) if each.may_mutate])
    if executor is None:
        return None
    is_honest = executor.is_planned and not executor.is_over and not executor.has_mutated
    questions = ["right", "right", "old", "new", "foreign", "lost"] if is_honest else ["old", "new", "foreign"]
    return executor.ask(random.choice(questions), is_used=is_honest)  # pyright: ignore[reportArgumentType]


@weight(4)
def states_are_written(world: World, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = _any(random, [each for each in _alive(world) if each.is_mutating])

    async def work(executor: Executor) -> list[str]:
        return [executor.write(is_inline=random.random() < 0.5) for _ in range(random.randrange(1, 3))]

    return executor and work(executor)


@weight(2)
def late_states_arrive(world: World, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = _any(random, [each for each in world.crew.executors.values() if each.late])
    return executor and executor.upload()


@weight(3)
def executor_dies(world: World, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = _any(random, _alive(world))
    return executor and executor.die(with_engine=random.random() < 0.5, code=random.choice([KILLED, SILENT]))


@weight(3)
def executor_loses_its_connection(world: World, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = _any(random, _connected(world))
    return executor and executor.hang_up(random.choice([KILLED, SILENT]))


@weight(2)
def engine_fails(world: World, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = _any(random, _alive(world))

    async def work(executor: Executor) -> str:
        if executor.is_mutating:
            executor.write(origin="errored")
            return executor.end_engine(is_ok=False)
        return "nothing to fail" if executor.is_over else executor.finish("FAILED")

    return executor and work(executor)


@weight(3)
def engine_is_killed(world: World, random: Random) -> Awaitable[object] | None:
    """Memory ran out: its executor lives and says so."""
    executor: Executor | None = _any(random, [each for each in _alive(world) if each.is_mutating])

    async def work(executor: Executor) -> str:
        return executor.kill_engine("FAILED")

    return executor and work(executor)


@weight(3)
def executor_is_evicted(world: World, random: Random) -> Awaitable[object] | None:
    """Nobody asked the server for it: the host is shut down. Its engine may end in time, or be killed."""
    executor: Executor | None = _any(random, [each for each in _alive(world) if not each.is_over])

    async def work(executor: Executor) -> str:
        if executor.is_mutating and random.random() < 0.5:
            return executor.kill_engine("CANCELED")
        return executor.be_evicted()

    return executor and work(executor)


@weight(2)
def engine_changes_the_lineage(world: World, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = _any(random, [each for each in _alive(world) if each.is_mutating])

    async def work(executor: Executor) -> str:
        return executor.write(lineage=f"another lineage of {executor.name}")

    return executor and work(executor)


@weight(2)
def more_comes_after_a_result(world: World, random: Random) -> Awaitable[object] | None:
    ended = [ref for ref, attempt in world.now.attempts.items() if attempt.has_result]
    known = [each for ref in ended if (each := world.crew.executors.get(ref))]
    executor: Executor | None = _any(random, [each for each in known if each.is_delivered and not each.host.is_cut_off])
    return executor and executor.send_after_the_result()


# ---- hosts


@weight(2)
def host_loses_power(world: World, random: Random) -> Awaitable[object] | None:
    return random.choice(world.crew.hosts).lose_power(random.choice([KILLED, SILENT]))


@weight(2)
def runner_crashes(world: World, random: Random) -> Awaitable[object] | None:
    return random.choice(world.crew.hosts).crash()


@weight(5)
def host_is_cut_off(world: World, random: Random) -> Awaitable[object] | None:
    host: Host | None = _any(random, [host for host in world.crew.hosts if not host.is_cut_off and host.journal])
    return host and host.be_cut_off(random.choice([KILLED, SILENT]))


@weight(9)
def attempt_is_lost_in_the_middle(world: World, random: Random) -> Awaitable[object] | None:
    """An engine changes things when its host is cut off; it is given up, and may come back at any moment of what follows."""
    executor: Executor | None = _any(random, [each for each in _alive(world) if each.may_mutate and not each.is_over])

    async def work(executor: Executor) -> list[str]:
        told = [f"{executor.name}:"]
        for _ in range(12):
            if executor.is_mutating or executor.is_over:
                break
            told.append(await executor.go_on())
        await world.check()
        await executor.host.be_cut_off(random.choice([KILLED, SILENT]))
        await world.wait(72, is_watched=True)
        told.append(await world.give_up(executor.ref))
        executor.host.is_cut_off = random.random() < 0.5
        return told

    return executor and work(executor)


@weight(5)
def fenced_attempt_comes_back(world: World, random: Random) -> Awaitable[object] | None:
    """With states that nobody waits for any more."""
    ended = [ref for ref, attempt in world.now.attempts.items() if attempt.ended_at is not None and attempt.begun_at]
    fenced = [each for ref in ended if (each := world.crew.executors.get(ref)) and each.process == "alive"]
    executor: Executor | None = _any(random, [each for each in fenced if each.is_mutating or not each.is_delivered])

    async def work(executor: Executor) -> list[str]:
        executor.host.is_cut_off = False
        if executor.is_mutating and random.random() < 0.5:
            executor.write()
        await executor.connect()
        if executor.link is None or not executor.link.is_open:
            return ["came back in vain"]
        return [f"{executor.name} came back:", await executor.deliver("next", 20)]

    return executor and work(executor)


@weight(4)
def network_is_back(world: World, random: Random) -> Awaitable[object] | None:
    host: Host | None = _any(random, [host for host in world.crew.hosts if host.is_cut_off])

    async def work(host: Host) -> None:
        host.is_cut_off = False

    return host and work(host)


@weight(8)
def host_comes_back(world: World, random: Random) -> Awaitable[object] | None:
    host: Host | None = _any(random, [host for host in world.crew.hosts if not host.is_up])

    async def work(host: Host) -> str:
        host.come_back(is_disk_empty=random.random() < 0.3)
        return await host.connect()

    return host and work(host)


@weight(3)
def runner_starts_anew(world: World, random: Random) -> Awaitable[object] | None:
    """Its process was killed and is there again at once, perhaps without knowing of what it had started."""
    host: Host | None = _any(random, [host for host in world.crew.hosts if host.journal and not host.is_cut_off])

    async def work(host: Host) -> str:
        await host.crash()
        host.come_back(is_disk_empty=random.random() < 0.5)
        return await host.connect()

    return host and work(host)


@weight(2)
def runner_connects_again(world: World, random: Random) -> Awaitable[object] | None:
    """Its old connection may still be there."""
    host: Host | None = _any(random, [host for host in world.crew.hosts if host.is_up])
    return host and host.connect()


@weight(2)
def heartbeat(world: World, random: Random) -> Awaitable[object] | None:
    """It may not name all that it has; it may say that it drains."""
    host: Host | None = _any(random, _hosts(world))
    if host is None:
        return None
    host.is_draining = random.random() < 0.15
    names = sorted(host.journal)
    return host.heartbeat(random.sample(names, random.randrange(len(names) + 1)))


@weight(4)
def attempt_is_reported_gone_too_early(world: World, random: Random) -> Awaitable[object] | None:
    """No process of it is left; what it has written is not delivered, and the runner may be wrong about that."""
    found = [each for each in world.crew.executors.values() if each.process == "dead" and not each.is_mutating]
    found = [each for each in found if each.ref in each.host.journal and each.host.is_connected]
    executor: Executor | None = _any(random, [each for each in found if not each.is_delivered] or found)

    async def work(executor: Executor) -> str:
        await executor.hang_up()
        return await executor.host.report(executor.ref, is_delivered=random.random() < 0.5)

    return executor and work(executor)


@weight(3)
def attempt_is_handed_back(world: World, random: Random) -> Awaitable[object] | None:
    """It was granted and could not be started."""
    host, job = _any(random, _hosts(world)), _any(random, world.of(JobStatus.QUEUED))

    async def work(host: Host) -> list[str]:
        told = [await host.claim(job.id, job.attempt)]
        unstarted = [ref for ref, executor in host.journal.items() if executor.process == "none"]
        return told + [await host.report(ref) for ref in unstarted]

    return host and job and work(host)


@weight(3)
def attempt_is_handed_back_wrongly(world: World, random: Random) -> Awaitable[object] | None:
    """By a runner that does not know of the process which it has started; nobody else hears of that one just now."""
    found = [each for each in _alive(world) if each.host.is_connected and each.ref in each.host.journal]
    executor: Executor | None = _any(random, [each for each in found if each.is_mutating] or found)

    async def work(executor: Executor) -> str:
        await executor.hang_up()
        return await executor.host.report(executor.ref, saw_process=False)

    return executor and work(executor)


@weight(1)
def grant_is_lost(world: World, random: Random) -> Awaitable[object] | None:
    host, job = _any(random, _hosts(world)), _any(random, world.of(JobStatus.QUEUED))
    return host and job and host.claim(job.id, job.attempt, is_heard=False)


@weight(1)
def runner_is_drained(world: World, random: Random) -> Awaitable[object] | None:
    return world.drain(random.choice(world.crew.hosts), is_on=random.random() < 0.3)


@weight(1)
def runner_is_removed(world: World, random: Random) -> Awaitable[object] | None:
    return world.remove(world.crew.hosts[2]) if random.random() < 0.15 else None


# ---- people


@weight(2)
def job_is_canceled(world: World, random: Random) -> Awaitable[object] | None:
    job = _any(random, world.open_jobs)
    return job and world.cancel(job, random.choice(["after_step", "interrupt", "kill"]))


@weight(3)
def plan_is_decided_about(world: World, random: Random) -> Awaitable[object] | None:
    job = _any(random, world.of(JobStatus.AWAITING_APPROVAL))
    if job is None:
        return None
    attempt = job.plan_attempt if random.random() < 0.8 else random.randrange(1, job.attempt + 2)
    if random.random() < 0.15:
        return world.replan(job, attempt)
    return world.decide(job, attempt, is_good=random.random() < 0.85, is_blind=random.random() < 0.3)


@weight(4)
def attempt_is_given_up(world: World, random: Random) -> Awaitable[object] | None:
    job = _any(random, world.of(JobStatus.CLAIMED, JobStatus.PROCESSING))
    return job and world.give_up(AttemptRef(job.id, job.attempt))


@weight(6)
def state_is_judged(world: World, random: Random) -> Awaitable[object] | None:
    waiting = sorted(state.id for state in world.now.states.values() if state.status == "quarantined")
    others = sorted(world.now.states) if random.random() < 0.1 else []
    state_id = _any(random, waiting or others)
    return state_id and world.judge(state_id, is_adopted=random.random() < 0.5)


@weight(1)
def inputs_are_changed(world: World, random: Random) -> Awaitable[object] | None:
    return world.change_inputs(random.choice(world.modules), random.randrange(3))


# ---- time, the server and its database


@weight(9)
def time_passes(world: World, random: Random) -> Awaitable[object] | None:
    seconds = random.choice([3, 12, 12, 12, 72, 72, 72, 1_812, 1_812, 8 * 86_400])
    return world.wait(seconds, is_watched=random.random() < 0.8)


@weight(4)
def server_acts_on_wakeups(world: World, random: Random) -> Awaitable[object] | None:
    return world.site.hear()


@weight(2)
def server_restarts(world: World, random: Random) -> Awaitable[object] | None:
    is_killed = random.random() < 0.5

    async def hang_up() -> None:
        for each in (*world.crew.executors.values(), *world.crew.hosts):
            await each.hang_up(KILLED if is_killed else STOPPING)

    return world.site.restart(hang_up, is_killed=is_killed)


@weight(4)
def database_will_fail(world: World, random: Random) -> Awaitable[object] | None:
    async def work() -> None:
        world.site.db.faults.extend(random.choices(["none", "before", "middle", "after"], k=random.randrange(1, 5)))

    return work()
