"""What executors do, and what goes wrong with them and their messages."""

from collections.abc import Awaitable
from random import Random
from typing import Any

from terracrew.server.jobs.model import JobStatus
from tests.stateful.happenings.registry import KINDS, alive, choose, connected, hosts, weight
from tests.stateful.link import KILLED, SILENT
from tests.stateful.simulated_executor import Executor
from tests.stateful.simulation import MOST_OPEN, Action, Simulation

# ---- what goes well


@weight(10)
def executor_goes_on(world: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, world.busy)

    async def work(executor: Executor) -> list[str]:
        return [await executor.go_on() for _ in range(random.randrange(2, 9))]

    return executor and work(executor)


@weight(6)
def several_go_on_at_once(world: Simulation, random: Random) -> Awaitable[object] | None:
    found = world.natural()
    chosen = random.sample(found, min(len(found), random.randrange(2, 6)))
    actions: dict[object, Action] = dict(chosen)

    async def look() -> str:
        await world.site.loops()
        return "looked"

    return world.at_once([*actions.values(), *([look] if random.random() < 0.3 else [])])


@weight(3)
def jobs_are_wanted(world: Simulation, random: Random) -> Awaitable[object] | None:
    if len(world.open_jobs) >= MOST_OPEN:
        return None
    module = random.choice(world.modules[:2] if random.random() < 0.8 else world.modules)
    return world.create(module, random.choice(KINDS), needs_approval=random.random() < 0.2)


@weight(4)
def hosts_race_for_jobs(world: Simulation, random: Random) -> Awaitable[object] | None:
    queued = world.of(JobStatus.QUEUED)
    jobs = random.sample(queued, min(len(queued), random.randrange(1, 4)))
    # Some of them for an attempt that is over, or has yet to come.
    wrong = random.choice([0, 0, 0, 0, -1, 1])
    claims: list[Action] = [
        lambda h=host, j=job: h.claim(j.id, max(0, j.attempt + wrong)) for host in hosts(world) for job in jobs
    ]
    random.shuffle(claims)
    return world.at_once(claims) if claims else None


# ---- executors and their messages


@weight(6)
def events_are_delivered(world: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, connected(world))
    if executor is None:
        return None
    if not executor.is_over:
        for _ in range(random.randrange(3)):
            executor.log()
    mode: Any = random.choice(["next", "again", "reordered", "gap", "cut", "lost"])
    return executor.deliver(mode, random.randrange(1, 6))


@weight(5)
def leave_is_asked_for(world: Simulation, random: Random) -> Awaitable[object] | None:
    """In the right words by who has a plan; else in wrong ones, by whoever lives, also when it is long superseded."""
    executor: Executor | None = choose(random, [each for each in connected(world) if each.may_mutate])
    if executor is None:
        return None
    is_honest = executor.is_planned and not executor.is_over and not executor.has_mutated
    questions = ["right", "right", "old", "new", "foreign", "lost"] if is_honest else ["old", "new", "foreign"]
    return executor.ask(random.choice(questions), is_used=is_honest)  # pyright: ignore[reportArgumentType]


@weight(4)
def states_are_written(world: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, [each for each in alive(world) if each.is_mutating])

    async def work(executor: Executor) -> list[str]:
        return [executor.write(is_inline=random.random() < 0.5) for _ in range(random.randrange(1, 3))]

    return executor and work(executor)


@weight(2)
def late_states_arrive(world: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, [each for each in world.crew.executors.values() if each.late])
    return executor and executor.upload()


@weight(3)
def executor_dies(world: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, alive(world))
    return executor and executor.die(with_engine=random.random() < 0.5, code=random.choice([KILLED, SILENT]))


@weight(3)
def executor_loses_its_connection(world: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, connected(world))
    return executor and executor.hang_up(random.choice([KILLED, SILENT]))


@weight(2)
def engine_fails(world: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, alive(world))

    async def work(executor: Executor) -> str:
        if executor.is_mutating:
            executor.write(origin="errored")
            return executor.end_engine(is_ok=False)
        return "nothing to fail" if executor.is_over else executor.finish("FAILED")

    return executor and work(executor)


@weight(3)
def engine_is_killed(world: Simulation, random: Random) -> Awaitable[object] | None:
    """Memory ran out: its executor lives and says so."""
    executor: Executor | None = choose(random, [each for each in alive(world) if each.is_mutating])

    async def work(executor: Executor) -> str:
        return executor.kill_engine("FAILED")

    return executor and work(executor)


@weight(3)
def executor_is_evicted(world: Simulation, random: Random) -> Awaitable[object] | None:
    """Nobody asked the server for it: the host is shut down. Its engine may end in time, or be killed."""
    executor: Executor | None = choose(random, [each for each in alive(world) if not each.is_over])

    async def work(executor: Executor) -> str:
        if executor.is_mutating and random.random() < 0.5:
            return executor.kill_engine("CANCELED")
        return executor.be_evicted()

    return executor and work(executor)


@weight(2)
def engine_changes_the_lineage(world: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, [each for each in alive(world) if each.is_mutating])

    async def work(executor: Executor) -> str:
        return executor.write(lineage=f"another lineage of {executor.name}")

    return executor and work(executor)


@weight(2)
def more_comes_after_a_result(world: Simulation, random: Random) -> Awaitable[object] | None:
    ended = [ref for ref, attempt in world.now.attempts.items() if attempt.has_result]
    known = [each for ref in ended if (each := world.crew.executors.get(ref))]
    executor: Executor | None = choose(
        random, [each for each in known if each.is_delivered and not each.host.is_cut_off]
    )
    return executor and executor.send_after_the_result()
