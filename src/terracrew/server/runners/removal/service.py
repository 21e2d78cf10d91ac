"""Removes a runner: it drains first, and its record is deleted after its last job; by force it is deleted at once."""

import msgspec

from terracrew.api.runners import Dependents, Runner, RunnerRemoval
from terracrew.errors import Conflict
from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, Tx
from terracrew.server.deployments import store as deployments
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.runners import service, store
from terracrew.server.runners.removal import reads, remaining
from terracrew.server.runners.shared import rules

POLL_SECONDS = 1.0
"""How often runners that are being removed are checked."""
SWEEP_SECONDS = 30.0
"""While none is being removed, the loop waits for a change of a runner, or for this long."""
MAX_RUNNERS_PER_STEP = 100
log = get_logger("terracrew.runners")


async def remove(tx: Tx, who: Principal, reference: str, force: bool) -> RunnerRemoval:
    """Remove a runner. Without `force` it drains first; the answer says what it still has to finish.

    A runner that modules name as the only one that they may use is removed by force only. These modules stay pinned, and no
    other runner runs them: another runner could have credentials that are not meant for them.
    """
    runner = await service.hold(tx, who, reference)
    rules.require_not_declared(runner, "be removed")
    if force:
        await delete(tx, who, runner, is_forced=True)
        return RunnerRemoval(runner.path, is_removed=True, remaining=None)
    if await deployments.get(tx, runner.id) is not None:
        raise Conflict(
            f"`{runner.path}` is cloud-hosted: `terracrew runner destroy` removes it with everything that was made for it. "
            "force=true (--force on the command line) removes only the record, and leaves that in the account"
        )
    found = await remaining.dependents(tx, who, runner.id)
    if found.pinned_count:
        raise Conflict(
            f"`{runner.path}` is the only runner that {_pinned(found)} may use: change that first, or ask for force=true "
            "(--force on the command line); their jobs then wait until they name another runner. "
            "To stop it from taking jobs, disable it instead"
        )
    draining = await start(tx, who, runner)
    # A claim that was being decided when the drain began may still win. So a connected runner is deleted by the loop, in a
    # later transaction, unless it was draining before this request.
    if await _is_finished(tx, runner, is_drain_new=not runner.is_draining):
        await delete(tx, who, draining)
        return RunnerRemoval(runner.path, is_removed=True, remaining=None)
    return RunnerRemoval(runner.path, is_removed=False, remaining=await remaining.of(tx, who, draining))


async def start(tx: Tx, who: Principal, runner: Runner) -> Runner:
    """Let a runner drain, and mark its record for deletion. The end of the drain (undrain) takes this back."""
    if runner.removing_since is not None:
        return runner
    after = msgspec.structs.replace(runner, is_draining=True, removing_since=tx.moment)
    await store.update(tx, after)
    await service.note(tx, who, "runner.remove", after)
    return after


async def finish(tx: Tx, runner_id: str) -> bool:
    """Delete the record of a runner that is being removed and has nothing left to finish. Returns whether it was deleted."""
    runner = await store.hold(tx, runner_id)
    if runner is None or runner.removing_since is None or not await _is_finished(tx, runner, is_drain_new=False):
        return False
    await delete(tx, SYSTEM, runner)
    return True


async def _is_finished(tx: Tx, runner: Runner, *, is_drain_new: bool) -> bool:
    found = await reads.counts(tx, runner.id)
    if found is None or found["jobs"] or found["delivering"]:
        return False
    return not (is_drain_new and found["is_connected"])


async def delete(tx: Tx, who: Principal, runner: Runner, *, is_forced: bool = False) -> None:
    """Delete the record. Its connections end, and it claims no more jobs.

    The attempts that it still runs deliver with their own credentials, or are lost like the attempts of any silent runner.
    """
    jobs, pinned = await store.active_jobs(tx, runner.id), await store.count_pinned_modules(tx, runner.id)
    facts: dict[str, object] = {"is_forced": True} if is_forced else {}
    facts |= {"unfinished": jobs} if jobs else {}
    facts |= {"pinned_modules": pinned} if pinned else {}
    await store.delete(tx, runner.id)
    await service.note(tx, who, "runner.delete", runner, **facts)
    tx.wake("access", runner.id)


def _pinned(found: Dependents) -> str:
    """Name the modules that the caller may see, and count the others."""
    if not (others := found.pinned_count - len(found.pinned)):
        return ", ".join(found.pinned)
    words = f"{others} {'other ' if found.pinned else ''}{'module' if others == 1 else 'modules'}"
    return f"{', '.join(found.pinned)} and {words}" if found.pinned else words


class Removals:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def run(self) -> None:
        with self._db.listen("runners") as wakeups:
            while True:
                is_waiting = await self.step()
                await wakeups.get(timeout=POLL_SECONDS if is_waiting else SWEEP_SECONDS)

    async def step(self) -> bool:
        """Delete what can be deleted, and return whether a runner was being removed."""
        found, is_waiting = await self._db.read(lambda tx: reads.removing(tx, MAX_RUNNERS_PER_STEP))
        for runner_id in found:
            if await self._db.write(lambda tx, runner_id=runner_id: finish(tx, runner_id)):
                log.info("runner removed", runner=runner_id)
        return is_waiting
