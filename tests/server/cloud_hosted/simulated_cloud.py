"""A cloud in memory: it starts instances by name, refuses, lies and falls silent as a test asks, and counts every request."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import msgspec

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.contract import CloudRefused
from terracrew.clouds.model import (
    CloudIdentity,
    Deployment,
    InstanceRefused,
    InstanceStarted,
    InstanceState,
    StartAnswer,
    StartRequest,
)
from terracrew.errors import Unavailable


class SimulatedCloud:
    def __init__(self) -> None:
        self.tasks: dict[str, InstanceState] = {}
        """What exists, by the name of the instance, also what has ended."""
        self.requests: Counter[str] = Counter()
        self.started: list[str] = []
        """The names that were started, in order. A repeated request starts nothing."""
        self.on_trial: list[str] = []
        """Those of them that take no job before they have passed a no-op job."""
        self.stopped: list[str] = []
        self.refusal: tuple[str, str] | None = None
        self.error: CloudRefused | None = None
        self.is_away = False
        self.loses_answers = False
        """Whether a start happens although there is no answer."""
        self.on_watch: Callable[[], Awaitable[None]] | None = None
        """What happens while the cloud is asked what runs."""

    async def start(
        self, identity: CloudIdentity, deployment: Deployment, wanted: Sequence[StartRequest]
    ) -> list[StartAnswer]:
        assert identity.id
        self.requests["start"] += 1
        if self.is_away:
            raise Unavailable("the cloud is away")
        if self.error is not None:
            raise self.error
        if self.refusal is not None:
            code, words = self.refusal
            return [
                msgspec.convert(
                    {"type": "refused", "instance": each.instance, "code": code, "words": words}, StartAnswer
                )
                for each in wanted
            ]
        answers: list[StartAnswer] = []
        for each in wanted:
            reference = f"{deployment.runner_id}/{each.instance}"
            if each.instance not in self.tasks:
                self.started.append(each.instance)
                self.on_trial += [each.instance] if each.is_on_trial else []
                self.tasks[each.instance] = InstanceState(
                    instance=each.instance,
                    reference=reference,
                    phase="starting",
                    words="pulling the image",
                    started_at=datetime.now(UTC),
                )
            answers.append(InstanceStarted(each.instance, reference))
        if self.loses_answers:
            raise Unavailable("the connection was lost")
        return answers

    async def watch(
        self, identity: CloudIdentity, deployment: Deployment, references: Sequence[str]
    ) -> list[InstanceState]:
        assert identity.id
        self.requests["watch"] += 1
        if self.on_watch is not None:
            await self.on_watch()
        if self.is_away:
            raise Unavailable("the cloud is away")
        own = [each for each in self.tasks.values() if each.reference.startswith(deployment.runner_id)]
        return [each for each in own if each.phase != "ended" or each.reference in references]

    async def stop(self, identity: CloudIdentity, deployment: Deployment, reference: str, reason: str) -> None:
        assert identity.id
        assert deployment.runner_id
        assert reason
        self.requests["stop"] += 1
        self.stopped.append(reference.rpartition("/")[2])
        self.change(reference.rpartition("/")[2], phase="ended", words="stopped by its owner")

    async def found(self, identity: CloudIdentity) -> list[FoundResource]:
        raise AssertionError(f"nobody asks what {identity.name} has")

    def change(self, name: str, **values: object) -> None:
        """Let something become of an instance."""
        self.tasks[name] = msgspec.structs.replace(self.tasks[name], **values)


def refused(code: str) -> tuple[str, str]:
    """Return a refusal with words of a cloud."""
    assert msgspec.convert({"type": "refused", "instance": "", "code": code, "words": ""}, InstanceRefused)
    return code, f"the cloud says {code}"
