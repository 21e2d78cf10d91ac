"""The checks of a connection: each is a step of its own, and one that failed does not keep the next ones from being made."""

from collections.abc import Awaitable, Callable

from terracrew.clouds.contract import CloudRefused, CloudSilent, Reporter
from terracrew.errors import TerracrewError


class CheckFailed(TerracrewError):
    """A check found something wrong."""

    code = "check_failed"

    def __init__(self, words: str, remedy: str = "") -> None:
        super().__init__(words)
        self.remedy = remedy


class Checks:
    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.has_failed = False

    async def make(self, step: str, words: str, check: Callable[[], Awaitable[str]]) -> bool:
        """Make one check, which returns the words that prove it. Returns whether it passed."""
        self._reporter.require_wanted()
        self._reporter.begin(step, words)
        try:
            said = await check()
        except (CheckFailed, CloudRefused, CloudSilent) as error:
            self.has_failed = True
            fail_step(self._reporter, step, error)
            return False
        self._reporter.done(step, words=said)
        return True


def fail_step(reporter: Reporter, step: str, error: TerracrewError) -> None:
    """End a step with what went wrong, and apart from that how to mend it, if the error says so."""
    remedy = str(getattr(error, "remedy", ""))
    reporter.failed(step, error.message.removesuffix(remedy).rstrip(), remedy)
