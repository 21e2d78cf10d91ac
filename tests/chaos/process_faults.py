"""Faults of single processes: killed, stopped for a while, or asked to end."""

import signal
import time

from tests.chaos import hosts
from tests.chaos.hosts import Member, Role
from tests.chaos.installation import Process
from tests.chaos.targets import Struck, Targets, nothing

_TERM_SECONDS = 10
"""How long a process may take to end after its second SIGTERM."""


class ProcessFaults:
    def __init__(self, targets: Targets) -> None:
        self._targets, self._site, self._random = targets, targets.site, targets.random

    # ---- processes of a host

    def kill(self, role: Role) -> Struck | None:
        found = [one for one in self._site.members() if one.role == role]
        if not found:
            return None
        victim = self._random.choice(found)
        hosts.strike([victim], signal.SIGKILL)
        return Struck(_name(victim), self._hit(victim), 0, nothing)

    def pause(self, role: Role) -> Struck | None:
        found = [one for one in self._site.members() if one.role == role and str(one.pid) not in self._targets.busy]
        if not found:
            return None
        victim = self._random.choice(found)
        return self._paused([victim], _name(victim), str(victim.pid), self._hit(victim))

    def pause_host(self) -> Struck | None:
        host = self._targets.idle(list(self._site.runners))
        found = list(hosts.on(self._site.members(), host)) if host else []
        return self._paused(found, host, host, hosts.attempts(found)) if host and found else None

    def _paused(self, victims: list[Member], name: str, key: str, hit: tuple[str, ...]) -> Struck:
        self._targets.busy.add(key)
        hosts.strike(victims, signal.SIGSTOP)

        def resume() -> None:
            self._targets.busy.discard(key)
            hosts.strike(victims, signal.SIGCONT)

        return Struck(name, hit, self._targets.seconds(5, 90), resume)

    def _hit(self, victim: Member) -> tuple[str, ...]:
        """Return what a fault hits: a fault of a runner or a zygote may affect all attempts of its host."""
        return (victim.attempt,) if victim.attempt else self._targets.on(victim.host)

    # ---- runners

    def kill_runner(self) -> Struck | None:
        host = self._targets.running_host()
        if host is None:
            return None
        hit, runner = self._targets.on(host), self._site.runners[host]
        runner.kill()
        return Struck(host, hit, self._targets.seconds(0, 20), self._targets.start_again(runner))

    def term_runner(self) -> Struck | None:
        """Send SIGTERM, so that the runner drains; a second SIGTERM later ends it, and its jobs continue."""
        host = self._targets.running_host()
        if host is None:
            return None
        hit, runner = self._targets.on(host), self._site.runners[host]
        runner.is_wanted = False
        runner.signal(signal.SIGTERM)

        def again() -> None:
            runner.signal(signal.SIGTERM)
            _wait_or_kill(runner)
            self._targets.start_again(runner)()

        return Struck(host, hit, self._targets.seconds(1, 30), again)

    # ---- servers and the database

    def kill_server(self) -> Struck | None:
        server = self._targets.running_server()
        if server is None:
            return None
        server.kill()
        again = self._targets.start_again(server)
        return Struck(server.name, self._targets.everywhere(), self._targets.seconds(0, 10), again)

    def term_server(self) -> Struck | None:
        server = self._targets.running_server()
        if server is None:
            return None
        server.is_wanted = False
        server.signal(signal.SIGTERM)

        def again() -> None:
            _wait_or_kill(server)
            self._targets.start_again(server)()

        return Struck(server.name, self._targets.everywhere(), self._targets.seconds(1, 8), again)

    def stop_server(self) -> Struck | None:
        server = self._targets.running_server()
        if server is None:
            return None
        server.signal(signal.SIGSTOP)

        def resume() -> None:
            server.signal(signal.SIGCONT)
            self._targets.busy.discard(server.name)

        return Struck(server.name, self._targets.everywhere(), self._targets.seconds(5, 60), resume)

    def database(self, *, is_immediate: bool, seconds: float) -> Struck | None:
        postgres = self._site.postgres
        if postgres is None or "postgres" in self._targets.busy:
            return None
        self._targets.busy.add("postgres")
        hit = self._targets.everywhere()
        postgres.stop(is_immediate=is_immediate)

        def start() -> None:
            self._targets.busy.discard("postgres")
            postgres.start()

        return Struck("postgres", hit, seconds, start)


def _name(victim: Member) -> str:
    return f"{victim.role} {victim.pid} of {victim.host}"


def _wait_or_kill(process: Process) -> None:
    end = time.monotonic() + _TERM_SECONDS
    while process.code is None and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()
