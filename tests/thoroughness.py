"""How many random examples the tests try: `make test-thorough` tries all of them, and `make test` half.

The examples of `make test` are the first half of the same sequence where a test derandomizes them.
"""

import os

IS_THOROUGH = bool(os.environ.get("TERRACREW_TEST_THOROUGH"))


def examples(count: int) -> int:
    """Return how many examples this run tries, of so many in a thorough one."""
    return count if IS_THOROUGH else (count + 1) // 2
