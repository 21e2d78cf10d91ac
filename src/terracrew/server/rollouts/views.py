"""Roll-outs as people see them: each reader sees the runners that they may see, and nothing that names another one."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import asdict, replace

from terracrew.api.rollouts import (
    SETTLED,
    Rollout,
    RolloutCounts,
    RolloutRunner,
    RolloutRunnerStatus,
    RolloutRunnerView,
    RolloutSummary,
    RolloutView,
)
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.rollouts import reads

HIDDEN_REASON = "a runner that you may not see could not be updated"
Members = Sequence[tuple[RolloutRunner, str]]
"""The runners of a roll-out, each with the path of its group."""


class RolloutReader:
    """What a caller may see and change of roll-outs."""

    def __init__(self, seen: Visible, writable: Visible) -> None:
        self._seen, self._writable = seen, writable

    @classmethod
    async def of(cls, tx: Tx, who: Principal) -> "RolloutReader":
        found = await authorize.visible_by_verb(tx, who, Verb.RUNNER_READ, Verb.RUNNER_WRITE)
        return cls(found[Verb.RUNNER_READ], found[Verb.RUNNER_WRITE])

    def is_seen(self, rollout: Rollout, members: Members) -> bool:
        """Return whether the caller may know of a roll-out: they may see one of its runners."""
        return bool(self._visible(rollout, members))

    def is_changeable(self, rollout: Rollout, members: Members) -> bool:
        """Return whether the caller may pause, resume and stop a roll-out: they may change all of its runners."""
        return all(self._writable.covers(authorize.group(rollout.organization_id, group)) for _, group in members)

    def summary(self, rollout: Rollout, members: Members) -> RolloutSummary:
        shown = self._visible(rollout, members)
        counted = Counter(each.status for each in shown)
        left = [each.wave for each in shown if each.wave is not None and each.status not in SETTLED]
        if rollout.stop_runner_id is not None and all(each.runner_id != rollout.stop_runner_id for each in shown):
            rollout = replace(rollout, stop_reason=HIDDEN_REASON, stop_runner_id=None)
        return RolloutSummary(
            **asdict(rollout),
            counts=RolloutCounts(**{each.value: counted[each] for each in RolloutRunnerStatus}),
            wave=min(left, default=None) if rollout.is_open else None,
            waves=len({each.wave for each in shown} - {None}),
            is_changeable=self.is_changeable(rollout, members),
        )

    def view(self, rollout: Rollout, members: Members, steps: Mapping[str, str]) -> RolloutView:
        shown = [
            RolloutRunnerView(**asdict(each), step=steps.get(each.job_id or "", ""))
            for each in self._visible(rollout, members)
        ]
        return RolloutView(**asdict(self.summary(rollout, members)), runners=shown)

    def _visible(self, rollout: Rollout, members: Members) -> list[RolloutRunner]:
        return [each for each, group in members if self._seen.covers(authorize.group(rollout.organization_id, group))]


async def view(tx: Tx, who: Principal, rollout: Rollout) -> RolloutView:
    """Return a roll-out that the caller may know of."""
    reader, members = await RolloutReader.of(tx, who), await reads.runners_with_groups(tx, [rollout.id])
    updating = [each.job_id for each, _ in members if each.status is RolloutRunnerStatus.UPDATING and each.job_id]
    return reader.view(rollout, members, await reads.running_steps(tx, updating))
