"""Rows of roll-outs and their runners. Each write is a compare-and-set on the status."""

from collections.abc import Sequence

from terracrew.api.rollouts import Rollout, RolloutRunner
from terracrew.errors import NotFound, Superseded
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table, assignments, values

ROLLOUTS = Table("rollouts", Rollout)
ROLLOUT_RUNNERS = Table("rollout_runners", RolloutRunner)
_CHANGEABLE = ("status", "stop_reason", "stop_runner_id", "ended_at")
_RUNNER_CHANGEABLE = ("wave", "status", "job_id", "job_number", "words", "command", "changed_at")


async def insert(tx: Tx, rollout: Rollout, runners: Sequence[RolloutRunner]) -> None:
    """Write a roll-out with its runners. Raises Conflict if the organization has another one that is open (`rollouts_open`)."""
    await tx.run(ROLLOUTS.insert(), **to_params(rollout))
    await tx.each(
        ROLLOUT_RUNNERS.insert_batch(*ROLLOUT_RUNNERS.fields), ROLLOUT_RUNNERS.types, [values(each) for each in runners]
    )
    tx.wake("rollouts", rollout.id)


async def get(tx: Tx, rollout_id: str) -> Rollout | None:
    return await ROLLOUTS.find(tx, id=rollout_id)


async def hold(tx: Tx, rollout_id: str) -> Rollout:
    """Read a roll-out and lock its row, which everybody does who changes it or one of its runners."""
    row = await tx.one("SELECT " + ROLLOUTS.columns + " FROM rollouts WHERE id = :id FOR UPDATE", id=rollout_id)
    if row is None:
        raise NotFound(f"there is no roll-out {rollout_id}")
    return row_to(Rollout, row)


async def save(tx: Tx, before: Rollout, after: Rollout) -> None:
    """Write what was decided about a roll-out. Raises Superseded if somebody else has decided about it meanwhile."""
    done = await tx.run(
        f"UPDATE rollouts SET {assignments(*_CHANGEABLE)} WHERE id = :id AND status = :was",
        **to_params(after, "id", *_CHANGEABLE),
        was=before.status.value,
    )
    if not done:
        raise Superseded(f"the roll-out of {before.version} has changed meanwhile")
    tx.wake("rollouts", after.id)


async def runners(tx: Tx, rollout_id: str) -> list[RolloutRunner]:
    """Return the runners of a roll-out by wave and path; those that have no wave are last."""
    return await ROLLOUT_RUNNERS.all(
        tx,
        "FROM rollout_runners WHERE rollout_id = :id ORDER BY CASE WHEN wave IS NULL THEN 1 ELSE 0 END, wave, "
        "path, runner_id",
        id=rollout_id,
    )


async def save_runner(tx: Tx, before: RolloutRunner, after: RolloutRunner) -> None:
    """Write a runner of a roll-out. Raises Superseded if somebody else has changed it meanwhile."""
    done = await tx.run(
        f"UPDATE rollout_runners SET {assignments(*_RUNNER_CHANGEABLE)}"
        " WHERE rollout_id = :rollout_id AND runner_id = :runner_id AND status = :was",
        **to_params(after, "rollout_id", "runner_id", *_RUNNER_CHANGEABLE),
        was=before.status.value,
    )
    if not done:
        raise Superseded(f"`{before.path}` has changed meanwhile in its roll-out")
    tx.wake("rollouts", after.rollout_id)


async def at_work(tx: Tx, after: str, count: int) -> list[str]:
    """Return the ids of the next roll-outs that may have something to do, in their order: the open ones, and those that have a runner
    which is being updated."""
    rows = await tx.all(
        "SELECT id FROM rollouts WHERE id > :after AND (ended_at IS NULL OR id IN ("
        "SELECT rollout_id FROM rollout_runners WHERE status = 'updating')) ORDER BY id LIMIT :count",
        after=after,
        count=count,
    )
    return [row["id"] for row in rows]


async def open_of(tx: Tx, organization_id: str) -> Rollout | None:
    """Return the roll-out of an organization that has not ended."""
    return await ROLLOUTS.one(tx, "FROM rollouts WHERE organization_id = :id AND ended_at IS NULL", id=organization_id)
