"""Shows how far the update of one instance is, as steps of the fleet job."""

from datetime import datetime

from terracrew.server.connections.update_reads import UpdatableInstance
from terracrew.server.fleet_jobs.handlers import ServerReporter
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
