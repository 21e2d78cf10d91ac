"""What may happen in a simulation: most of the time all goes well, and now and then something fails."""

from tests.stateful.happenings import executors, hosts, people
from tests.stateful.happenings.registry import HAPPENINGS, Happening

__all__ = ["HAPPENINGS", "Happening", "executors", "hosts", "people"]
