"""What the steps of one fleet job share: the account, the names and tags, and how they wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

import msgspec

from terracrew.backoff import Backoff
from terracrew.clouds.aws.api import Answer, AwsApi, Service
from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.names import JOB_TAG, RUNNER_TAG, Tags, names_of, tags_of
from terracrew.clouds.contract import CloudRefused, Reporter
from terracrew.clouds.model import Deployment

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 10.0
_SLICE_SECONDS = 1.0
T = TypeVar("T")


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a job waits at most for what AWS does by itself."""

    propagation_seconds: float = 60.0
    """Until one of its services knows what another one has made."""
    stopping_seconds: float = 180.0
    """Until a task that was stopped has ended. It has two minutes to end by itself."""
    emptying_seconds: float = 60.0
    """Until a cluster does not show tasks any more that have ended."""
    detaching_seconds: float = 300.0
    """Until the network interfaces of tasks do not use a security group any more."""


class Work:
    """One fleet job at one deployment."""

    def __init__(
        self,
        api: AwsApi,
        deployment: Deployment,
        job_id: str,
        reporter: Reporter,
        waits: Waits,
        *,
        is_unwinding: bool = False,
    ) -> None:
        """With `is_unwinding`, only what this job has made counts as made for the runner."""
        self.api, self.deployment, self.job_id, self.reporter, self.waits = api, deployment, job_id, reporter, waits
        self.settings, self.names = deployment.settings, names_of(deployment.runner_id)
        self.tags = tags_of(deployment, job_id)
        self.is_unwinding = is_unwinding
        self.has_new_role = False
        """Whether a role is so new that not every service may know it."""

    async def call(self, service: Service, operation: str, **arguments: Any) -> Answer:
        return await self.api.call(service, operation, **arguments)

    async def find(self, service: Service, operation: str, missing: Collection[str], **arguments: Any) -> Answer | None:
        """Return what the call answers; None if it answers that there is no such thing, which these codes say."""
        try:
            return await self.api.call(service, operation, **arguments)
        except AwsRefused as error:
            if error.aws_code in missing:
                return None
            raise

    def is_ours(self, tags: Tags) -> bool:
        return tags.get(RUNNER_TAG) == self.deployment.runner_id

    def is_removed(self, tags: Tags) -> bool:
        """Return whether a thing with these tags goes away in this job."""
        return self.is_ours(tags) and (not self.is_unwinding or tags.get(JOB_TAG) == self.job_id)

    def require_ours(self, kind: str, name: str, tags: Tags) -> None:
        if not self.is_ours(tags):
            raise CloudRefused(
                f"the {kind} {name} exists in this account, but does not have the tag {RUNNER_TAG}={self.deployment.runner_id}: "
                f"it was not made for this runner, so it is neither used nor changed. Rename or delete it, then deploy again"
            )

    async def retry(self, ask: Callable[[], Awaitable[T]], words: Callable[[AwsRefused], str], max_seconds: float) -> T:
        """Ask again while `words` has something to say about the refusal. It becomes a line of the log, once."""
        delays, until, said = Backoff(FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS), time.monotonic() + max_seconds, ""
        while True:
            try:
                return await ask()
            except AwsRefused as error:
                why = words(error)
                if not why or time.monotonic() > until:
                    raise
                if why != said:
                    self.reporter.line(f"{why} Asking again for up to {max_seconds:.0f} s. AWS said: {error.message}")
                    said = why
            await self.pause(delays.next())

    async def pause(self, seconds: float) -> None:
        """Wait, unless a person cancels the job."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.reporter.require_wanted()
            await asyncio.sleep(min(left, _SLICE_SECONDS))
        self.reporter.require_wanted()
