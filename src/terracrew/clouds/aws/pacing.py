"""Keeps requests below the rates that AWS allows an account in a region, so that the fleet takes nothing from its other users.

AWS counts with token buckets: a number of requests at once, then so many a second. Here each bucket has a part of that.
"""

import time
from collections.abc import Callable

import msgspec

_SHARE_RATIO = 0.8
"""Which part of the rates of AWS is used. Other programs of the account use the same buckets."""
Clock = Callable[[], float]


class _Rate(msgspec.Struct, frozen=True):
    actions: frozenset[str]
    burst: int
    """How many requests AWS accepts at once."""
    a_second: float
    """How many it accepts in the long run."""


_RATES = (
    _Rate(frozenset({"ecs:RunTask"}), 100, 20),
    _Rate(frozenset({"ecs:RunTask", "ecs:StopTask"}), 100, 40),
    _Rate(frozenset({"ecs:DescribeTasks", "ecs:ListTasks"}), 100, 20),
    _Rate(frozenset({"ecs:RegisterTaskDefinition", "ecs:DeregisterTaskDefinition"}), 20, 1),
    _Rate(frozenset({"ecs:DeleteTaskDefinitions"}), 5, 1),
    _Rate(frozenset({"ecs:CreateCluster", "ecs:DeleteCluster"}), 20, 1),
)


class Pacer:
    """The buckets of one account in one region."""

    def __init__(self, clock: Clock = time.monotonic, share: float = _SHARE_RATIO) -> None:
        self._clock = clock
        self._share = share
        self._left = [float(rate.burst) * share for rate in _RATES]
        self._filled_at = [clock() for _ in _RATES]

    def reserve(self, action: str) -> float:
        """Take a request from the buckets of an action. Returns how many seconds it has to wait for its turn."""
        now, wait = self._clock(), 0.0
        for number, rate in enumerate(_RATES):
            if action not in rate.actions:
                continue
            a_second = rate.a_second * self._share
            filled = self._left[number] + (now - self._filled_at[number]) * a_second
            # Below zero are the requests that wait already.
            self._left[number] = min(rate.burst * self._share, filled) - 1
            self._filled_at[number] = now
            wait = max(wait, -self._left[number] / a_second)
        return wait


_pacers: dict[tuple[str, str], Pacer] = {}


def pacer_of(account: str, region: str) -> Pacer:
    """Return the buckets of an account in a region, which all identities of this process share."""
    return _pacers.setdefault((account, region), Pacer())
