"""How often something may be written to a forge: some writes at once, and then as many as are refilled."""

from collections import OrderedDict

MAX_KEPT = 10_000


class Buckets:
    """A token bucket for each key, in the memory of this server."""

    def __init__(self, per_minute: float, burst: float) -> None:
        self._rate, self._burst = per_minute / 60, burst
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, now: float) -> float:
        """Take one token, and return 0; or return after how many seconds there is one."""
        level = self._level(key, now)
        if level < 1:
            return (1 - level) / self._rate
        self._levels[key] = (level - 1, now)
        self._levels.move_to_end(key)
        while len(self._levels) > MAX_KEPT:
            self._levels.popitem(last=False)
        return 0.0

    def _level(self, key: str, now: float) -> float:
        level, at = self._levels.get(key, (self._burst, now))
        return min(self._burst, level + max(0.0, now - at) * self._rate)
