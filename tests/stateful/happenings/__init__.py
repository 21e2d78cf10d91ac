"""What may happen to a world: most of the time all goes well, and now and then something does not."""

from tests.stateful.happenings import executors, hosts, people
from tests.stateful.happenings.registry import HAPPENINGS, Happening

__all__ = ["HAPPENINGS", "Happening", "executors", "hosts", "people"]
