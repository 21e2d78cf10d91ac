"""What goes wrong with hosts and runners, and how they come back."""

from collections.abc import Awaitable
from random import Random

from terracrew.api.jobs import JobStatus
from terracrew.protocol.spec import JobType
from tests.stateful.happenings.registry import alive, choose, hosts, weight
from tests.stateful.link import KILLED, SILENT
from tests.stateful.simulated_executor import Executor
from tests.stateful.simulated_runners import Host
from tests.stateful.simulation import MOST_OPEN, Simulation

# ---- hosts


@weight(2)
def host_loses_power(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    return random.choice(simulation.crew.hosts).lose_power(random.choice([KILLED, SILENT]))


@weight(2)
def runner_crashes(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    return random.choice(simulation.crew.hosts).crash()


@weight(5)
def host_is_cut_off(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    host: Host | None = choose(random, [host for host in simulation.crew.hosts if not host.is_cut_off and host.journal])
    return host and host.be_cut_off(random.choice([KILLED, SILENT]))


@weight(9)
def attempt_is_lost_in_the_middle(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """An engine changes things when its host is cut off; it is given up, and may come back at any moment of what follows."""
    executor: Executor | None = choose(
        random, [each for each in alive(simulation) if each.may_mutate and not each.is_over]
    )

    async def work(executor: Executor) -> list[str]:
        told = [f"{executor.name}:"]
        for _ in range(12):
            if executor.is_mutating or executor.is_over:
                break
            told.append(await executor.go_on())
        await simulation.check()
        await executor.host.be_cut_off(random.choice([KILLED, SILENT]))
        await simulation.wait(72, is_watched=True)
        told.append(await simulation.give_up(executor.ref))
        executor.host.is_cut_off = random.random() < 0.5
        return told

    return executor and work(executor)


@weight(5)
def fenced_attempt_comes_back(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """A fenced attempt comes back with states that no job waits for any more."""
    ended = [
        ref for ref, attempt in simulation.now.attempts.items() if attempt.ended_at is not None and attempt.begun_at
    ]
    fenced = [each for ref in ended if (each := simulation.crew.executors.get(ref)) and each.process == "alive"]
    executor: Executor | None = choose(random, [each for each in fenced if each.is_mutating or not each.is_delivered])

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
def network_is_back(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    host: Host | None = choose(random, [host for host in simulation.crew.hosts if host.is_cut_off])

    async def work(host: Host) -> None:
        host.is_cut_off = False

    return host and work(host)


@weight(8)
def host_comes_back(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    host: Host | None = choose(random, [host for host in simulation.crew.hosts if not host.is_up])

    async def work(host: Host) -> str:
        host.come_back(is_disk_empty=random.random() < 0.3)
        return await host.connect()

    return host and work(host)


@weight(3)
def runner_starts_anew(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """Its process was killed and is there again at once, perhaps without knowing of what it had started."""
    host: Host | None = choose(random, [host for host in simulation.crew.hosts if host.journal and not host.is_cut_off])

    async def work(host: Host) -> str:
        await host.crash()
        host.come_back(is_disk_empty=random.random() < 0.5)
        return await host.connect()

    return host and work(host)


@weight(2)
def runner_connects_again(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """Its old connection may still be there."""
    host: Host | None = choose(random, [host for host in simulation.crew.hosts if host.is_up])
    return host and host.connect()


@weight(2)
def heartbeat(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """It may not name all that it has; it may say that it drains."""
    host: Host | None = choose(random, hosts(simulation))
    if host is None:
        return None
    host.is_draining = random.random() < 0.15
    names = sorted(host.journal)
    return host.heartbeat(random.sample(names, random.randrange(len(names) + 1)))


@weight(4)
def attempt_is_reported_gone_too_early(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """No process of it is left; what it has written is not delivered, and the runner may be wrong about that."""
    found = [each for each in simulation.crew.executors.values() if each.process == "dead" and not each.is_mutating]
    found = [each for each in found if each.ref in each.host.journal and each.host.is_connected]
    executor: Executor | None = choose(random, [each for each in found if not each.is_delivered] or found)

    async def work(executor: Executor) -> str:
        await executor.hang_up()
        return await executor.host.report(executor.ref, is_delivered=random.random() < 0.5)

    return executor and work(executor)


@weight(3)
def attempt_is_handed_back(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """It was granted and could not be started."""
    host, job = choose(random, hosts(simulation)), choose(random, simulation.of(JobStatus.QUEUED))

    async def work(host: Host) -> list[str]:
        told = [await host.claim(job.id, job.attempt)]
        unstarted = [ref for ref, executor in host.journal.items() if executor.process == "none"]
        return told + [await host.report(ref) for ref in unstarted]

    return host and job and work(host)


@weight(3)
def attempt_is_handed_back_wrongly(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """A runner hands back an attempt because it does not know of the process that it started."""
    found = [each for each in alive(simulation) if each.host.is_connected and each.ref in each.host.journal]
    executor: Executor | None = choose(random, [each for each in found if each.is_mutating] or found)

    async def work(executor: Executor) -> str:
        await executor.hang_up()
        return await executor.host.report(executor.ref, saw_process=False)

    return executor and work(executor)


@weight(1)
def grant_is_lost(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    host, job = choose(random, hosts(simulation)), choose(random, simulation.of(JobStatus.QUEUED))
    return host and job and host.claim(job.id, job.attempt, is_answer_received=False)


@weight(9)
def job_is_created_for_a_standing_claim(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    """The runner that has claimed ahead may disconnect before the job is created, or before it takes the grant."""
    host: Host | None = choose(random, hosts(simulation))

    async def work(host: Host) -> list[str]:
        told = [await host.send_credits(random.choice([0, 1, 1, 2]))]
        if random.random() < 0.2:
            await host.hang_up()
        held = {job.module_id for job in simulation.open_jobs}
        free = [module for module in simulation.modules if module not in held]
        kind, module = random.choice([JobType.APPLY, JobType.PLAN]), random.choice(free or simulation.modules)
        told.append(await simulation.create(module, kind, needs_approval=False))
        if random.random() < 0.2:
            await host.hang_up()  # a grant that was sent is lost with the connection
        return told + host.take_grants()

    return work(host) if host and len(simulation.open_jobs) < MOST_OPEN else None


@weight(1)
def runner_is_drained(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    return simulation.drain(random.choice(simulation.crew.hosts), is_on=random.random() < 0.3)


@weight(1)
def runner_is_removed(simulation: Simulation, random: Random) -> Awaitable[object] | None:
    is_forced = random.random() < 0.5
    return simulation.remove(simulation.crew.hosts[2], is_forced=is_forced) if random.random() < 0.3 else None
