"""What UPDATE_WORKER means for a self-hosted runner: its instances update themselves, one after the other.

Everything that an attempt must know is in rows, so that another server goes on with the job at the same place.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from terracrew import ids
from terracrew.api.fleet_jobs import FleetJob
from terracrew.clouds.contract import Canceled
from terracrew.errors import Conflict
from terracrew.server.connections import reads
from terracrew.server.connections.reads import UpdatableInstance
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs.handlers import FleetGrant, ServerReporter
from terracrew.server.releases import store as releases
from terracrew.server.runner_updates import decide, store
from terracrew.server.runner_updates.decide import step_index
from terracrew.server.runner_updates.model import STEPS, InstanceUpdate

MAX_DETAILED_INSTANCES = 20
"""The instances of a job that are shown with all of their steps. Each later one is one step, because a job has a limited number."""


class Progress:
    """The steps of one instance. Those before the one that it reports are done, also if it did not report each of them."""

    def __init__(self, reporter: ServerReporter, number: int, name: str, *, is_only: bool) -> None:
        self._reporter, self._number, self._name, self._is_only = reporter, number, name, is_only
        self._names = list(STEPS) if number <= MAX_DETAILED_INSTANCES else ["update"]
        self._index = -1
        self._switched_at: datetime | None = None

    def show(self, update: InstanceUpdate) -> None:
        """Show what the instance does now."""
        if update.status == "asked" and not update.step:
            self._reach(0)
            self._reporter.describe(self._key, "asked; it has not begun")
            return
        self._reach(step_index(update.step))
        if update.step == "switch" and self._switched_at is None:
            self._switched_at = update.changed_at
        self._reporter.describe(self._key, update.words)

    def away(self, words: str) -> None:
        """Show that the instance is not connected now."""
        self._reach(max(self._index, 0))
        self._reporter.describe(self._key, words)

    def done(self, update: InstanceUpdate, instance: UpdatableInstance) -> None:
        """End all steps; the last one says when the new version said hello."""
        self._reach(len(STEPS) - 1)
        words = f"Said hello as {update.version}"
        if self._switched_at is not None and instance.connected_at >= self._switched_at:
            words = f"Said hello after {(instance.connected_at - self._switched_at).total_seconds():.0f} s"
        self._reporter.done(self._key, words=words)
        if update.words:
            self._reporter.line(f"{self._name}: {update.words}")

    def failed(self, words: str, remedy: str) -> None:
        self._reach(max(self._index, 0))
        self._reporter.failed(self._key, words, remedy)

    @property
    def _key(self) -> str:
        return f"{self._number} {self._names[self._index]}"

    def _reach(self, index: int) -> None:
        while self._index < min(index, len(self._names) - 1):
            if self._index >= 0:
                self._reporter.done(self._key)
            self._index += 1
            words = STEPS.get(self._names[self._index], "Update")
            self._reporter.begin(self._key, words if self._is_only else f"{self._name}: {words[0].lower()}{words[1:]}")


VERSION = "version"
"""The word in the specification of the job for the version that the runner gets."""
LOOK_SECONDS = 1.0
"""How often the job looks at the row of the instance. Reports are written by the server that has the connection, maybe another one."""


class InstanceTurn(msgspec.Struct, frozen=True):
    """The instance whose turn it is; its update is None while the job waits for it to come back before it asks."""

    number: int
    """Counted from 1."""
    instance: UpdatableInstance
    update: InstanceUpdate | None
    others: int
    """How many more instances have a lower version."""


class Seen(msgspec.Struct, frozen=True):
    """What the rows say about an update at one moment."""

    update: InstanceUpdate
    instance: UpdatableInstance | None
    now: datetime


class SelfUpdateHandler:
    later_steps: Sequence[tuple[str, str]] = ()

    async def on_claim(self, tx: Tx, job: FleetJob) -> FleetGrant | None:
        """The fleet process has no part in it: no cloud is used."""
        del tx, job
        return None

    async def before(self, job: FleetJob, reporter: ServerReporter) -> None:
        """There is nothing to wait for: each instance finishes what it has before it switches."""

    async def after(self, job: FleetJob, facts: Mapping[str, str], reporter: ServerReporter) -> dict[str, str]:
        """Ask each instance for its update, and wait until it has said hello with the new version. The first failure ends the job."""
        del facts
        done = 0
        while True:
            reporter.require_wanted()
            turn = await reporter.write(lambda tx: _turn(tx, job))
            if turn is None:
                return {}
            if turn.update is None:
                await reporter.wait(LOOK_SECONDS)
                continue
            if turn.number - 1 > done:
                reporter.line(f"An earlier attempt of this job has updated {turn.number - 1} of its instances.")
            done = turn.number
            await self._follow(job, turn, turn.update, reporter)

    async def _follow(
        self, job: FleetJob, turn: InstanceTurn, update: InstanceUpdate, reporter: ServerReporter
    ) -> None:
        progress = Progress(reporter, turn.number, turn.instance.name, is_only=turn.number == 1 and not turn.others)
        while True:
            seen = await reporter.write(lambda tx: _look(tx, update))
            if seen.instance is not None and decide.is_updated(seen.update, seen.instance):
                progress.done(seen.update, seen.instance)
                return
            if words := decide.problem(seen.update, seen.instance, seen.now):
                if not await _save_failed(seen, words, reporter):
                    continue  # a report has just come
                self._fail(job, turn, seen, words, progress)
            if seen.instance is not None and not seen.instance.is_connected and seen.update.step != "switch":
                progress.away("it is disconnected; waiting for it to come back")
            else:
                progress.show(seen.update)
            try:
                await reporter.wait(LOOK_SECONDS)
            except Canceled:
                if await reporter.write(lambda tx: _withdraw(tx, job, update)):
                    progress.failed("withdrawn before it began", "")
                    raise
                # The instance has begun and cannot be stopped in the middle: the job ends when that has ended.
                await asyncio.sleep(LOOK_SECONDS)

    def _fail(self, job: FleetJob, turn: InstanceTurn, seen: Seen, words: str, progress: Progress) -> None:
        progress.show(seen.update)
        is_here = seen.instance is not None and seen.instance.is_connected
        progress.failed(words, f"it works with {seen.instance.version} as before" if seen.instance and is_here else "")
        others = "1 other instance was" if turn.others == 1 else f"{turn.others} other instances were"
        left = f". {others} not asked" if turn.others else ""
        raise Conflict(f"instance `{turn.instance.name}` was not updated to {job.spec[VERSION]}: {words}{left}")

    async def on_end(self, tx: Tx, job: FleetJob, facts: Mapping[str, str]) -> None:
        """Withdraw what is open: reports about it change nothing from now on, and another job can ask again."""
        del facts
        await store.withdraw(tx, job.id)


async def _turn(tx: Tx, job: FleetJob) -> InstanceTurn | None:
    """Return the update that has not ended, or ask the next instance; None if no instance has a lower version."""
    now, version = tx.moment, job.spec[VERSION]
    known = await store.of_job(tx, job.id)
    asked = {each.instance_id for each in known}
    since = now - decide.MAX_REJOIN
    instances = await reads.updatable_of_runner(tx, job.target_id, since.timestamp())
    left = sum(each.id not in asked and decide.is_outdated(each, version) for each in instances)
    for number, update in enumerate(known, 1):
        instance = await reads.updatable(tx, update.instance_id)
        if instance is not None and not decide.is_updated(update, instance):
            return InstanceTurn(number, instance, update, left)
    found = decide.next_instance(instances, asked, version, now)
    if found is None:
        if not known and not any(each.is_connected for each in instances):
            raise Conflict(f"`{job.target_name}` is offline, so that it cannot be asked")
        return None
    if not found.is_connected:
        return InstanceTurn(len(known) + 1, found, None, left - 1)
    if not found.is_self_updating:
        raise Conflict(f"instance `{found.name}` does not update itself: its setting `runner.self_update` is off")
    release = await releases.get(tx, version)
    if release.is_withdrawn:
        raise Conflict(f"the release {release.version} was withdrawn: {release.withdrawn_reason}")
    update = InstanceUpdate(
        id=ids.new("upd"),
        instance_id=found.id,
        runner_id=found.runner_id,
        job_id=job.id,
        version=version,
        asked_at=now,
        changed_at=now,
    )
    await store.insert(tx, update)
    return InstanceTurn(len(known) + 1, found, update, left - 1)


async def _look(tx: Tx, update: InstanceUpdate) -> Seen:
    now = tx.moment
    found = await store.get(tx, update.id)
    if found is None:  # its instance or its runner was removed, and the row with it
        return Seen(update, None, now)
    return Seen(found, await reads.updatable(tx, update.instance_id), now)


async def _save_failed(seen: Seen, words: str, reporter: ServerReporter) -> bool:
    """Write that an update has failed, unless its instance has said so. Returns False if the row has changed meanwhile."""
    if seen.instance is None or not seen.update.is_open:
        return True
    failed = msgspec.structs.replace(seen.update, status="failed", words=words, changed_at=seen.now)
    return await reporter.write(lambda tx: store.save(tx, seen.update, failed))


async def _withdraw(tx: Tx, job: FleetJob, update: InstanceUpdate) -> bool:
    """Withdraw the update, unless its instance has begun or ended it. Returns whether nothing of it runs or is left to be told."""
    found = await store.hold(tx, update.id)
    if found is not None and found.status in ("running", "done", "failed"):
        return False
    await store.withdraw(tx, job.id)
    return True
