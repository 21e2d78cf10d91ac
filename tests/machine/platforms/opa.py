"""Open Policy Agent, with which the server checks plans: installed as everywhere, into the cache."""

from terracrew.cli.commands.engine import showing_progress
from terracrew.toolchains import cache, install
from terracrew.toolchains.specs import OPA


class Opa:
    def find(self) -> str | None:
        """Return the program if an earlier run has built it: it runs nowhere else than in the tests that start it."""
        found = cache.binary(OPA, OPA.version)
        return None if found is None else str(found)

    def missing(self) -> str | None:
        """Return nothing: a machine without Go gets one."""

    def prepare(self) -> None:
        with showing_progress() as report:
            install.install(OPA.name, OPA.version, report=report)

    def join(self) -> str:
        """Return the path of the program."""
        self.prepare()
        return self.find() or ""

    def leave(self) -> None:
        """There is no daemon to end."""
