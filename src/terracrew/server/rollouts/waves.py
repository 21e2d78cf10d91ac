"""Divides the runners of a roll-out into waves: one runner first, alone, then two, four, eight and so on."""

from collections import Counter
from collections.abc import Sequence

import msgspec


class WaveCandidate(msgspec.Struct, frozen=True):
    """A runner that the server can update."""

    runner_id: str
    path: str

    @property
    def group(self) -> str:
        return self.path.rpartition("/")[0]


def divide(candidates: Sequence[WaveCandidate]) -> list[list[str]]:
    """Return the ids of the runners of each wave; the first wave has one runner.

    Half of the runners of a group are in one wave at most, so that a group with several runners is never updated all at once. A wave
    has twice as many places as the one before. It stays smaller if its groups allow no more.
    """
    left = sorted(candidates, key=lambda each: (each.path, each.runner_id))
    sizes = Counter(each.group for each in left)
    # A group with many runners does without the first one most easily, if the update goes wrong.
    left.sort(key=lambda each: -sizes[each.group])
    waves: list[list[str]] = []
    while left:
        wave = _next_wave(left, sizes, places=2 ** len(waves))
        taken = {each.runner_id for each in wave}
        left = [each for each in left if each.runner_id not in taken]
        waves.append([each.runner_id for each in wave])
    return waves


def most_at_once(size: int) -> int:
    """Return how many runners of a group with this many are updated at once at most."""
    return max(1, size // 2)


def _next_wave(left: Sequence[WaveCandidate], sizes: Counter[str], places: int) -> list[WaveCandidate]:
    """Take runners of as many groups as possible: one of each, then a second one of each, and so on."""
    in_wave: Counter[str] = Counter()
    ranked: list[tuple[int, int, WaveCandidate]] = []
    for position, each in enumerate(left):
        if in_wave[each.group] < most_at_once(sizes[each.group]):
            ranked.append((in_wave[each.group], position, each))
            in_wave[each.group] += 1
    ranked.sort(key=lambda entry: entry[:2])
    return [each for _, _, each in ranked[:places]]
