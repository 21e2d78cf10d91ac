"""`python -m tests.machine.platforms`: build what the platforms of TERRACREW_TEST_PLATFORMS need, before tests begin to run.

A build takes longer than one test may take.
"""

from tests.machine import platforms

if __name__ == "__main__":
    platforms.prepare()
