"""The contract of a cloud. The fleet runner calls it; `tests/contracts/` holds every cloud to it.

A cloud keeps no list of its own of what exists: everything has a name or marks from which the next call finds it again. So each
call can be cut off at any moment and be repeated, and nothing is made twice.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.model import CloudIdentity, Deployment, InstanceState, StartAnswer, StartRequest
from terracrew.errors import TerracrewError


class SignToken(Protocol):
    """Returns a new token of the server for the identity, valid for some minutes."""

    def __call__(self, is_probe: bool = False, /) -> Awaitable[str]:
        """Return a token. `is_probe` asks for one of a subject that no identity has, which a cloud must turn away."""
        ...


class CloudRefused(TerracrewError):
    """The cloud answered that it does not do what it was asked for. The message has its words and what a person can do."""

    code = "cloud_refused"


class CloudSilent(TerracrewError):
    """There was no answer that says anything, after repetitions. What was asked for may have happened."""

    code = "cloud_silent"


class Canceled(TerracrewError):
    """A person has canceled the job."""

    code = "canceled"


class Reporter(Protocol):
    """Where a job of the fleet says what it does. Each step is begun once and ends once in an attempt."""

    def begin(self, step: str, words: str) -> None:
        """Begin a step. `words` says what it does to people, such as `Task role`."""
        ...

    def done(self, step: str, reference: str = "", words: str = "") -> None:
        """End a step: `reference` is the name that the cloud knows the thing by; `words` is the number that proves it."""
        ...

    def failed(self, step: str, words: str, remedy: str = "") -> None:
        """End a step that found something wrong: what it is, and how to mend it."""
        ...

    def line(self, text: str) -> None:
        """Add a line to the log of the job."""
        ...

    def require_wanted(self) -> None:
        """Raise Canceled if a person has canceled the job. Called between steps and while waiting."""
        ...


class Cloud(Protocol):
    """One account, as one identity sees it. Credentials are kept in memory for minutes and renewed by itself."""

    async def check(self, reporter: Reporter, deployment: Deployment | None = None) -> bool:
        """Test the connection: sign in, say who one is, check each permission, then what a deployment would need. Changes nothing.

        Every check is a step of its own, and all of them are made even if one fails. Returns whether all passed.
        """
        ...

    async def deploy(
        self, deployment: Deployment, worker_token: str, job_id: str, reporter: Reporter
    ) -> dict[str, str]:
        """Make everything that instances need, and return the facts by which they are started. What exists is used again.

        `worker_token` is empty if the runner is federated, or if the secret store has a valid one. Raises CloudRefused or CloudSilent
        after it has removed what this call has made; what could not be removed is in the log and in the message.
        """
        ...

    async def start(self, deployment: Deployment, wanted: Sequence[StartRequest]) -> list[StartAnswer]:
        """Start instances; the answers have the same order. Never raises for one of them alone."""
        ...

    async def watch(self, deployment: Deployment, references: Sequence[str]) -> list[InstanceState]:
        """Return the instances of the runner that exist, and what became of those with these references.

        Instances that nobody here started, but that have the runner's marks, are among them. One that the cloud does not show, because it
        was started a moment ago or ended long ago, is left out.
        """
        ...

    async def stop(self, deployment: Deployment, reference: str, reason: str) -> None:
        """Stop an instance that nobody owns. One that is already gone is no error."""
        ...

    async def destroy(self, deployment: Deployment, job_id: str, reporter: Reporter) -> None:
        """Remove everything that deployments of this runner have made, also what one that was cut off left, and nothing else.

        Raises CloudRefused with the names of what is left.
        """
        ...

    async def found(self) -> list[FoundResource]:
        """Return everything of ours in the account and region."""
        ...

    async def close(self) -> None: ...


OpenCloud = Callable[[CloudIdentity, SignToken], Cloud]
"""Opens the account of an identity. Nothing is called before the first use."""


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
