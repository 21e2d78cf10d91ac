"""How much the tests try: `make test-thorough` tries everything, and `make test` half of the random examples and no slow repetitions.

The examples of `make test` are the first half of the same sequence where a test derandomizes them.
"""

import os

import pytest

IS_THOROUGH = bool(os.environ.get("TERRACREW_TEST_THOROUGH"))
thorough = pytest.mark.skipif(
    not IS_THOROUGH, reason="it is slow, and others like it are tried: `make test-thorough` runs it"
)


def examples(count: int) -> int:
    """Return how many examples this run tries, of so many in a thorough one."""
    return count if IS_THOROUGH else (count + 1) // 2
