"""Dependencies between modules in words, the same on pages and in a terminal."""

from collections.abc import Sequence

HIDDEN = "a module that you may not see"
"""What is said instead of the path of a module that the reader may not see."""
MAX_NAMED = 10


def used_by(users: Sequence[str]) -> str:
    """Say which modules use outputs of a module: `2 modules use its outputs: stack/b and stack/c`."""
    named = [each for each in users if each != HIDDEN][:MAX_NAMED]
    if left := len(users) - len(named):
        named.append(f"{left:,} that you may not see" if len(users) <= MAX_NAMED else f"{left:,} more")
    words = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    count = "1 module uses" if len(users) == 1 else f"{len(users):,} modules use"
    return f"{count} its outputs: {words}"
