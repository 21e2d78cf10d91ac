"""Open Policy Agent, a program that checks plans: built from its Go module and kept in the cache."""

from pathlib import Path

from terracrew.cli.commands.engine import showing_progress
from terracrew.toolchains import cache, go_build
from terracrew.toolchains.specs import GoProgram, Spec

_OPA = Spec(
    name="opa",
    title="Open Policy Agent",
    version="1.10.1",
    go="1.24.6",
    programs=(GoProgram("github.com/open-policy-agent/opa", ".", "opa"),),
)


class Opa:
    def find(self) -> str | None:
        """Return the program if an earlier run has built it: it runs nowhere else than in the tests that start it."""
        return str(_binary()) if _binary().exists() else None

    def missing(self) -> str | None:
        """Return nothing: a machine without Go gets one."""

    def prepare(self) -> None:
        with cache.locked("platforms-opa", lambda: None) as workplace, showing_progress() as report:
            if not _binary().exists():
                [made] = go_build.build(_OPA, _OPA.version, workplace, report)
                made.chmod(0o755)
                _binary().parent.mkdir(parents=True, exist_ok=True)
                made.replace(_binary())

    def join(self) -> str:
        """Return the path of the program."""
        self.prepare()
        return str(_binary())

    def leave(self) -> None:
        """There is no daemon to end."""


def _binary() -> Path:
    return cache.root() / "platforms" / f"opa-{_OPA.version}" / "opa"
