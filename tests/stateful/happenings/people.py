"""What people decide, and what time, the server and its database do."""

from collections.abc import Awaitable
from random import Random

from terracrew.api.jobs import JobStatus
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import JobType
from terracrew.server.figures import store as figures
from tests.stateful.happenings.registry import choose, weight
from tests.stateful.link import KILLED, STOPPING
from tests.stateful.simulation import Simulation

# ---- people


@weight(2)
def job_is_canceled(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    job = choose(random, simulation.open_jobs)
    return job and simulation.cancel(job, random.choice(["after_step", "interrupt", "kill"]))


@weight(3)
def plan_is_decided_about(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    job = choose(random, simulation.of(JobStatus.AWAITING_APPROVAL))
    if job is None:
        return None
    attempt = job.plan_attempt if random.random() < 0.8 else random.randrange(1, job.attempt + 2)
    if random.random() < 0.15:
        return simulation.replan(job, attempt)
    return simulation.decide(job, attempt, is_good=random.random() < 0.85, is_blind=random.random() < 0.3)


@weight(3)
def plan_of_another_job_is_applied(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    ended = [job for job in simulation.of(JobStatus.SUCCEEDED) if job.type is JobType.PLAN]
    job = choose(random, ended[-6:])
    return job and simulation.apply_plan(job)


@weight(4)
def attempt_is_given_up(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    job = choose(random, simulation.of(JobStatus.CLAIMED, JobStatus.PROCESSING))
    return job and simulation.give_up(AttemptRef(job.id, job.attempt))


@weight(6)
def state_is_judged(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    waiting = sorted(state.id for state in simulation.now.states.values() if state.status == "quarantined")
    others = sorted(simulation.now.states) if random.random() < 0.1 else []
    state_id = choose(random, waiting or others)
    return state_id and simulation.judge(state_id, is_adopted=random.random() < 0.5)


@weight(1)
def inputs_are_changed(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    return simulation.change_inputs(random.choice(simulation.modules), random.randrange(3))


# ---- time, the server and its database


@weight(9)
def time_passes(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    seconds = random.choice([3, 12, 12, 12, 72, 72, 72, 1_812, 1_812, 8 * 86_400])
    return simulation.wait(seconds, is_watched=random.random() < 0.8)


@weight(4)
def server_acts_on_wakeups(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    async def work() -> None:
        await simulation.site.hear()
        await simulation.ask(lambda: simulation.site.db.write(figures.fold))

    return work()


@weight(2)
def server_restarts(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    is_killed = random.random() < 0.5

    async def hang_up() -> None:
        for each in (*simulation.crew.executors.values(), *simulation.crew.hosts):
            await each.hang_up(KILLED if is_killed else STOPPING)

    return simulation.site.restart(hang_up, is_killed=is_killed)


@weight(4)
def database_will_fail(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    async def work() -> None:
        simulation.site.db.faults.extend(
            random.choices(["none", "before", "middle", "after"], k=random.randrange(1, 5))
        )

    return work()
