"""What executors do, and what goes wrong with them and their messages."""

from collections.abc import Awaitable
from random import Random
from typing import Any

from terracrew.api.jobs import JobStatus
from tests.stateful.happenings.registry import KINDS, alive, choose, connected, hosts, weight
from tests.stateful.link import KILLED, SILENT
from tests.stateful.simulated_executor import Executor
from tests.stateful.simulation import MOST_OPEN, Action, Simulation

# ---- what goes well


@weight(10)
def executor_goes_on(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, simulation.busy)

    async def work(executor: Executor) -> list[str]:
        return [await executor.go_on() for _ in range(random.randrange(2, 9))]

    return executor and work(executor)


@weight(6)
def several_go_on_at_once(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    found = simulation.natural()
    chosen = random.sample(found, min(len(found), random.randrange(2, 6)))
    actions: dict[object, Action] = dict(chosen)

    async def look() -> str:
        await simulation.loops()
        return "looked"

    return simulation.at_once([*actions.values(), *([look] if random.random() < 0.3 else [])])


@weight(3)
def jobs_are_wanted(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    if len(simulation.open_jobs) >= MOST_OPEN:
        return None
    module = random.choice(simulation.modules[:2] if random.random() < 0.8 else simulation.modules)
    return simulation.create(module, random.choice(KINDS), needs_approval=random.random() < 0.2)


@weight(4)
def hosts_race_for_jobs(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    queued = simulation.of(JobStatus.QUEUED)
    jobs = random.sample(queued, min(len(queued), random.randrange(1, 4)))
    # Some of them for an attempt that is over, or has yet to come.
    wrong = random.choice([0, 0, 0, 0, -1, 1])
    claims: list[Action] = [
        lambda h=host, j=job: h.claim(j.id, max(0, j.attempt + wrong)) for host in hosts(simulation) for job in jobs
    ]
    random.shuffle(claims)
    return simulation.at_once(claims) if claims else None


# ---- executors and their messages


@weight(6)
def events_are_delivered(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, connected(simulation))
    if executor is None:
        return None
    if not executor.is_over:
        for _ in range(random.randrange(3)):
            executor.log()
    mode: Any = random.choice(["next", "again", "reordered", "gap", "cut", "lost"])
    return executor.deliver(mode, random.randrange(1, 6))


@weight(5)
def leave_is_asked_for(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """In the right words by who has a plan; else in wrong ones, by whoever lives, also when it is long superseded."""
    executor: Executor | None = choose(random, [each for each in connected(simulation) if each.may_mutate])
    if executor is None:
        return None
    is_honest = executor.is_planned and not executor.is_over and not executor.has_mutated
    questions = ["right", "right", "old", "new", "foreign", "lost"] if is_honest else ["old", "new", "foreign"]
    return executor.ask(random.choice(questions), is_used=is_honest)  # pyright: ignore[reportArgumentType]


@weight(4)
def states_are_written(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, [each for each in alive(simulation) if each.is_mutating])

    async def work(executor: Executor) -> list[str]:
        return [executor.write(is_inline=random.random() < 0.5) for _ in range(random.randrange(1, 3))]

    return executor and work(executor)


@weight(2)
def late_states_arrive(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, [each for each in simulation.crew.executors.values() if each.late])
    return executor and executor.upload()


@weight(3)
def executor_dies(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, alive(simulation))
    return executor and executor.die(with_engine=random.random() < 0.5, code=random.choice([KILLED, SILENT]))


@weight(3)
def executor_loses_its_connection(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, connected(simulation))
    return executor and executor.hang_up(random.choice([KILLED, SILENT]))


@weight(2)
def engine_fails(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, alive(simulation))

    async def work(executor: Executor) -> str:
        if executor.is_mutating:
            executor.write(origin="errored")
            return executor.end_engine(is_ok=False)
        return "nothing to fail" if executor.is_over else executor.finish("FAILED")

    return executor and work(executor)


@weight(3)
def engine_is_killed(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """Memory ran out: its executor lives and says so."""
    executor: Executor | None = choose(random, [each for each in alive(simulation) if each.is_mutating])

    async def work(executor: Executor) -> str:
        return executor.kill_engine("FAILED")

    return executor and work(executor)


@weight(3)
def executor_is_evicted(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """Nobody asked the server for it: the host is shut down. Its engine may end in time, or be killed."""
    executor: Executor | None = choose(random, [each for each in alive(simulation) if not each.is_over])

    async def work(executor: Executor) -> str:
        if executor.is_mutating and random.random() < 0.5:
            return executor.kill_engine("CANCELED")
        return executor.be_evicted()

    return executor and work(executor)


@weight(2)
def engine_changes_the_lineage(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    executor: Executor | None = choose(random, [each for each in alive(simulation) if each.is_mutating])

    async def work(executor: Executor) -> str:
        return executor.write(lineage=f"another lineage of {executor.name}")

    return executor and work(executor)


@weight(2)
def more_comes_after_a_result(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    ended = [ref for ref, attempt in simulation.now.attempts.items() if attempt.has_result]
    known = [each for ref in ended if (each := simulation.crew.executors.get(ref))]
    executor: Executor | None = choose(
        random, [each for each in known if each.is_delivered and not each.host.is_cut_off]
    )
    return executor and executor.send_after_the_result()
