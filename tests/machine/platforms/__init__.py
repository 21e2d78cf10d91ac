"""The platforms that tests use for real: Docker and others that a machine rarely runs by itself.

A test is marked with what it uses, `@pytest.mark.platform("docker")`, and asks for it: `platforms.need("docker")`.
`make test` leaves it out, and says so, unless the platform answers already at its usual address. `make test-platforms`
installs and starts all of them, and a test fails there if its platform is missing.
"""

from tests.machine.platforms.registry import CHOICE, leave_all, need, prepare, why_left_out

__all__ = ["CHOICE", "leave_all", "need", "prepare", "why_left_out"]
