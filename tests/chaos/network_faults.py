"""Faults of the network, of proxies in it, and of disks."""

import os
import time
from collections.abc import Callable

from tests.chaos.proxy import Direction, Mode, Order, Whose
from tests.chaos.targets import Struck, Targets


class NetworkFaults:
    def __init__(self, targets: Targets) -> None:
        self._targets, self._site, self._random = targets, targets.site, targets.random

    def partition(self, mode: Mode, whose: Whose, direction: Direction) -> Struck | None:
        # Long enough, now and then, for a lease to run out while the attempt lives on.
        seconds = self._random.choice([self._targets.seconds(5, 90), self._targets.seconds(60, 150)])
        return self._disturbed(lambda link: Order(link, mode, whose, direction), seconds)

    def refuse(self) -> Struck | None:
        """Let a proxy answer some requests itself, with HTML pages that are not answers of the server."""
        share = self._random.choice([0.3, 0.7, 1.0])
        seconds = self._targets.seconds(5, 60)
        return self._disturbed(lambda link: Order(link, "refuse", refused_share=share, is_reset=True), seconds)

    def _disturbed(self, order: Callable[[int], Order], seconds: float) -> Struck | None:
        host = self._targets.idle(list(self._site.runners))
        key = f"link of {host}"
        if host is None or key in self._targets.busy:
            return None
        self._targets.busy.add(key)
        link = self._site.links[host]
        self._site.network.order(order(link))
        # What was held arrives after all, or the connection is found to be dead.
        is_reset = self._random.random() < 0.5

        def heal() -> None:
            self._targets.busy.discard(key)
            self._site.network.order(Order(link, "open", is_reset=is_reset))

        return Struck(host, self._targets.on(host), seconds, heal)

    def fill_disk(self) -> Struck | None:
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
            self._site.emptied_at[host] = time.monotonic()
            if path.exists():
                os.truncate(path, 0)

        return Struck(host, self._targets.on(host), self._targets.seconds(3, 30), empty)
