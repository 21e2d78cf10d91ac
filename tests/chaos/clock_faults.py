"""Faults of clocks: a clock jumps by an hour and is corrected after a while."""

from tests.chaos.targets import Struck, Targets

HOUR_SECONDS = 3600.0


class ClockFaults:
    def __init__(self, targets: Targets) -> None:
        self._targets, self._site, self._random = targets, targets.site, targets.random

    def jump(self, names: list[str]) -> Struck | None:
        """Jump an hour forward or back; the correction afterwards is the opposite jump."""
        free = [name for name in names if f"clock of {name}" not in self._targets.busy]
        if not free:
            return None
        name = self._random.choice(free)
        self._targets.busy.add(f"clock of {name}")
        offset = self._random.choice([-HOUR_SECONDS, HOUR_SECONDS])
        self._site.clocks[name].set(offset)

        def correct() -> None:
            self._targets.busy.discard(f"clock of {name}")
            self._site.clocks[name].set(0)

        hit = self._targets.on(name) if name in self._site.runners else self._targets.everywhere()
        return Struck(f"{name} by {offset:+.0f} s", hit, self._targets.seconds(5, 60), correct)
