"""Faults of whole hosts: reboots with and without the disk, shutdowns, and disks that come back after a person has decided."""

import random
import signal

from tests.chaos import hosts, witness
from tests.chaos.proxy import Order
from tests.chaos.targets import Struck, Targets, Undo

_RETURN_SECONDS = (40, 100)
"""How long a disk is away: a person has given its attempts up by then, and another attempt has begun. It takes the server
10 s to notice the loss, however short the other faults are, so this does not shrink with them."""


class HostFaults:
    def __init__(self, targets: Targets) -> None:
        self._targets, self._site, self._random = targets, targets.site, targets.random

    def reboot(self) -> Struck | None:
        """End all processes at the same moment; the disk stays."""
        host = self._targets.running_host()
        return Struck(host, self._end_all(host), self._away(), self._start_again(host)) if host else None

    def replace(self) -> Struck | None:
        """Do the same and wipe the disk: afterwards the host is a new machine with the same name."""
        host = self._targets.running_host()
        if host is None:
            return None
        hit = self._end_all(host)
        self._site.wipe(host)
        return Struck(host, hit, self._away(), self._start_again(host))

    def shut_down(self) -> Struck | None:
        """Send SIGTERM to all processes at once, as `shutdown` does, and kill those that are left after a while."""
        host = self._targets.running_host()
        if host is None:
            return None
        self._site.runners[host].is_wanted = False
        found = list(hosts.on(self._site.members(), host))
        self._random.shuffle(found)
        hosts.strike(found, signal.SIGTERM)

        def kill() -> Struck:
            hit = self._end_all(host)
            return Struck(host, hit, self._away(), self._start_again(host), "the power is off")

        return Struck(host, hosts.attempts(found), self._targets.seconds(2, 30), kill)

    def deliver_late(self) -> Struck | None:
        """A host that is in the middle of a change loses its network, then its power, and comes back when others went on.

        Its disk has states that the server never saw. They belong to a fenced attempt by then and go to quarantine.
        """
        host = self._changing_host()
        if host is None:
            return None
        link = self._site.links[host]
        self._site.network.order(Order(link, "hold"))

        def lose_power() -> Struck:
            hit = self._end_all(host)
            self._site.network.order(Order(link, "open", is_reset=True))
            return Struck(
                host, hit, self._random.uniform(*_RETURN_SECONDS), self._start_again(host), "the power is off"
            )

        return Struck(host, self._targets.on(host), self._random.uniform(4, 12), lose_power)

    def return_disk(self) -> Struck | None:
        """A machine is replaced, and its old disk is put back later: the new machine's disk is lost then."""
        host = self._changing_host()
        if host is None:
            return None
        hit = self._end_all(host)
        aside = self._site.set_disk_aside(host)

        def begin_anew() -> Struck:
            self._site.runners[host].start()
            return Struck(host, (), self._random.uniform(*_RETURN_SECONDS), put_back, "a new disk")

        def put_back() -> Struck:
            hit = self._end_all(host)
            self._site.wipe(host)
            self._site.put_disk_back(host, aside)
            return Struck(host, hit, self._targets.seconds(0, 5), self._start_again(host), "the old disk is back")

        return Struck(host, hit, self._targets.seconds(0, 5), begin_anew)

    def _changing_host(self) -> str | None:
        """Return a host whose engine is changing something now, and mark it as busy."""
        changing = {
            one.host
            for one in self._site.members()
            if one.role == "engine" and one.attempt and self._site.runners[one.host].is_wanted
        } - self._targets.busy
        inside = witness.writers(self._site.witnesses)
        pids = {one.host for one in self._site.members() if one.pid in inside} & changing
        host = _chosen(self._random, sorted(pids))
        if host:
            self._targets.busy.add(host)
        return host

    def _end_all(self, host: str) -> tuple[str, ...]:
        """SIGKILL to all of its processes. They are stopped first, so that none sees another one end."""
        hit: set[str] = set()
        self._site.runners[host].is_wanted = False
        stopped: set[int] = set()
        while found := [one for one in hosts.on(self._site.members(), host) if one.pid not in stopped]:
            hit.update(hosts.attempts(found))
            hosts.strike(found, signal.SIGSTOP)
            stopped.update(one.pid for one in found)
        while found := list(hosts.on(self._site.members(), host)):
            hosts.strike(found, signal.SIGKILL)
        self._site.runners[host].kill()
        return tuple(sorted(hit))

    def _away(self) -> float:
        """Return how long the host is away: sometimes long enough that its attempts are given up and their jobs continue elsewhere."""
        return self._random.choice([self._targets.seconds(1, 40), self._targets.seconds(40, 180)])

    def _start_again(self, host: str) -> Undo:
        return self._targets.start_again(self._site.runners[host])


def _chosen(rng: random.Random, names: list[str]) -> str | None:
    return rng.choice(names) if names else None
