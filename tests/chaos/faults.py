"""The faults: what each does to the site, what undoes it, and after how long."""

import os
import random
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.chaos import hosts
from tests.chaos.hosts import Member, Role
from tests.chaos.proxy import Direction, Order, Whose
from tests.chaos.site import Process, Site

Undo = Callable[[], None]


class Struck(NamedTuple):
    """What a fault hit, and what undoes it after so many seconds."""

    target: str
    attempts: tuple[str, ...]
    seconds: float
    undo: Undo


class Faults:
    """Each method is one fault; None where there is nothing to hit just now."""

    def __init__(self, site: Site, rng: random.Random) -> None:
        self._site, self._random = site, rng
        self._busy: set[str] = set()
        """What already suffers from a fault: a second one of the same kind would only undo the first."""
        self.all: dict[str, tuple[float, Callable[[], Struck | None]]] = {
            "kill server": (2, lambda: self._kill_server()),
            "kill runner": (3, lambda: self._kill_runner()),
            "kill executor": (4, lambda: self._kill("executor")),
            "kill engine": (4, lambda: self._kill("engine")),
            "kill zygote": (2, lambda: self._kill("zygote")),
            "kill host": (3, lambda: self._kill_host(is_wiped=False)),
            "lose host and disk": (2, lambda: self._kill_host(is_wiped=True)),
            "stop server": (1, lambda: self._stop_server()),
            "stop runner": (2, lambda: self._pause("runner")),
            "stop executor": (3, lambda: self._pause("executor")),
            "stop engine": (2, lambda: self._pause("engine")),
            "stop zygote": (1, lambda: self._pause("zygote")),
            "stop host": (3, lambda: self._pause_host()),
            "term runner": (2, lambda: self._term_runner()),
            "term server": (1, lambda: self._term_server()),
            "partition, held": (4, lambda: self._partition("hold", "all", "both")),
            "partition, closed": (2, lambda: self._partition("closed", "all", "both")),
            "partition, runner only": (2, lambda: self._partition("hold", "runner", "both")),
            "partition, executors only": (2, lambda: self._partition("hold", "executors", "both")),
            "partition, one way": (2, lambda: self._partition("hold", "all", self._random.choice(["up", "down"]))),
        }
        if site.small_disks:
            self.all["full disk"] = 2, self._fill_disk
        if site.postgres:
            self.all["database restart, fast"] = 1, lambda: self._database(is_immediate=False, seconds=0)
            self.all["database restart, immediate"] = 1, lambda: self._database(is_immediate=True, seconds=0)
            self.all["database away"] = 1, lambda: self._database(is_immediate=False, seconds=self._seconds(3, 40))

    # ---- processes of a host

    def _kill(self, role: Role) -> Struck | None:
        found = [one for one in self._site.members() if one.role == role]
        if not found:
            return None
        victim = self._random.choice(found)
        hosts.strike([victim], signal.SIGKILL)
        return Struck(_name(victim), self._hit(victim), 0, _nothing)

    def _pause(self, role: Role) -> Struck | None:
        found = [one for one in self._site.members() if one.role == role and str(one.pid) not in self._busy]
        if not found:
            return None
        victim = self._random.choice(found)
        return self._paused([victim], _name(victim), str(victim.pid), self._hit(victim))

    def _pause_host(self) -> Struck | None:
        host = self._idle(list(self._site.runners))
        found = list(hosts.on(self._site.members(), host)) if host else []
        return self._paused(found, host, host, hosts.attempts(found)) if host and found else None

    def _paused(self, victims: list[Member], name: str, key: str, hit: tuple[str, ...]) -> Struck:
        self._busy.add(key)
        hosts.strike(victims, signal.SIGSTOP)

        def resume() -> None:
            self._busy.discard(key)
            hosts.strike(victims, signal.SIGCONT)

        return Struck(name, hit, self._seconds(5, 90), resume)

    def _hit(self, victim: Member) -> tuple[str, ...]:
        """A runner or a zygote that suffers may matter to all that its host runs."""
        return (
            (victim.attempt,) if victim.attempt else hosts.attempts(list(hosts.on(self._site.members(), victim.host)))
        )

    # ---- a host and its runner

    def _kill_runner(self) -> Struck | None:
        host = self._running_host()
        if host is None:
            return None
        hit = hosts.attempts(list(hosts.on(self._site.members(), host)))
        self._site.runners[host].kill()
        return Struck(host, hit, self._seconds(0, 20), self._start_again(host))

    def _term_runner(self) -> Struck | None:
        """It drains for a while, then it is told again and leaves its jobs alone."""
        host = self._running_host()
        if host is None:
            return None
        runner = self._site.runners[host]
        hit = hosts.attempts(list(hosts.on(self._site.members(), host)))
        runner.is_wanted = False
        runner.signal(signal.SIGTERM)

        def again() -> None:
            runner.signal(signal.SIGTERM)
            _wait_or_kill(runner)
            self._start_again(host)()

        return Struck(host, hit, self._seconds(1, 30), again)

    def _kill_host(self, *, is_wiped: bool) -> Struck | None:
        host = self._running_host()
        if host is None:
            return None
        hit: set[str] = set()
        self._site.runners[host].is_wanted = False
        while found := list(hosts.on(self._site.members(), host)):
            hit.update(hosts.attempts(found))
            hosts.strike(found, signal.SIGKILL)
        self._site.runners[host].kill()
        if is_wiped:
            self._site.wipe(host)
        # Now and then so long that a person has given its attempts up, and others have gone on, when it comes back.
        seconds = self._random.choice([self._seconds(1, 40), self._seconds(40, 180)])
        return Struck(host, tuple(sorted(hit)), seconds, self._start_again(host))

    def _running_host(self) -> str | None:
        host = self._idle([name for name, runner in self._site.runners.items() if runner.is_wanted])
        if host:
            self._busy.add(host)
        return host

    def _start_again(self, host: str) -> Undo:
        def start() -> None:
            self._busy.discard(host)
            self._site.runners[host].start()

        return start

    def _idle(self, names: list[str]) -> str | None:
        """One that suffers nothing yet; mostly one where something can be lost."""
        free = [name for name in names if name not in self._busy]
        working = {one.host for one in self._site.members() if one.attempt}
        return self._pick([name for name in free if name in working] or free, free)

    def _pick(self, better: list[str], others: list[str]) -> str | None:
        return self._random.choice(better if self._random.random() < 0.7 else others) if others else None

    # ---- servers and the database

    def _server(self) -> Process | None:
        """Any of them while others serve; the only one there is, too."""
        name = self._idle([name for name, server in self._site.servers.items() if server.is_wanted])
        if name is None:
            return None
        self._busy.add(name)
        return self._site.servers[name]

    def _kill_server(self) -> Struck | None:
        server = self._server()
        if server is None:
            return None
        server.kill()
        return Struck(server.name, self._everywhere(), self._seconds(0, 10), self._serve_again(server))

    def _term_server(self) -> Struck | None:
        server = self._server()
        if server is None:
            return None
        server.is_wanted = False
        server.signal(signal.SIGTERM)

        def again() -> None:
            _wait_or_kill(server)
            self._serve_again(server)()

        return Struck(server.name, self._everywhere(), self._seconds(1, 8), again)

    def _stop_server(self) -> Struck | None:
        server = self._server()
        if server is None:
            return None
        server.signal(signal.SIGSTOP)

        def resume() -> None:
            server.signal(signal.SIGCONT)
            self._busy.discard(server.name)

        return Struck(server.name, self._everywhere(), self._seconds(5, 60), resume)

    def _serve_again(self, server: Process) -> Undo:
        def start() -> None:
            self._busy.discard(server.name)
            server.start()

        return start

    def _database(self, *, is_immediate: bool, seconds: float) -> Struck | None:
        postgres = self._site.postgres
        if postgres is None or "postgres" in self._busy:
            return None
        self._busy.add("postgres")
        hit = self._everywhere()
        postgres.stop(is_immediate=is_immediate)

        def start() -> None:
            self._busy.discard("postgres")
            postgres.start()

        return Struck("postgres", hit, seconds, start)

    def _everywhere(self) -> tuple[str, ...]:
        return hosts.attempts(self._site.members())

    # ---- the network and disks

    def _partition(self, mode: str, whose: Whose, direction: Direction) -> Struck | None:
        host = self._idle(list(self._site.runners))
        key = f"link of {host}"
        if host is None or key in self._busy:
            return None
        self._busy.add(key)
        link = self._site.links[host]
        self._site.network.order(Order(link, mode, whose, direction))  # pyright: ignore[reportArgumentType]
        # What was held arrives after all, or the connection is found to be dead.
        is_reset = self._random.random() < 0.5

        def heal() -> None:
            self._busy.discard(key)
            self._site.network.order(Order(link, "open", is_reset=is_reset))

        hit = hosts.attempts(list(hosts.on(self._site.members(), host)))
        # Long enough, now and then, for a lease to run out while the attempt lives on.
        seconds = self._random.choice([self._seconds(5, 90), self._seconds(60, 150)])
        return Struck(host, hit, seconds, heal)

    def _fill_disk(self) -> Struck | None:
        host = self._random.choice(sorted(self._site.small_disks))
        if host in self._site.full_disks:
            return None
        self._site.full_disks.add(host)
        path = self._site.folder(host) / "filler"
        with open(path, "wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

        def empty() -> None:
            self._site.full_disks.discard(host)
            if path.exists():
                os.truncate(path, 0)

        hit = hosts.attempts(list(hosts.on(self._site.members(), host)))
        return Struck(host, hit, self._seconds(3, 30), empty)

    def _seconds(self, least: float, most: float) -> float:
        # Short ones are more frequent, and tell more about races; long ones pass the thresholds.
        return (least + (most - least) * self._random.random() ** 2) * self._site.plan.longest / 90


def _name(victim: Member) -> str:
    return f"{victim.role} {victim.pid} of {victim.host}"


def _nothing() -> None:
    """A killed process needs no undoing: whoever watches it must cope."""


def _wait_or_kill(process: Process) -> None:
    end = time.monotonic() + 10
    while process.code is None and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()
