"""Knows which runners are online for precedence: those that are connected here, and those that other servers have."""

from collections.abc import Iterable, Mapping
from itertools import chain

from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.scheduling.assignment_view import AssignedRunners


class OnlineRunners:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._elsewhere: dict[str, set[str]] = {}
        """The names of instances that take jobs and are not connected here, or were connected anywhere a moment ago, by runner."""

    def replace(self, elsewhere: Mapping[str, Iterable[str]]) -> None:
        self._elsewhere = {runner_id: set(names) for runner_id, names in elsewhere.items()}

    def change(self, runner_id: str, names: Iterable[str]) -> None:
        """Set the instances of one runner, as the database has them."""
        here = {session.name for session in self._registry.of(runner_id)}
        self._elsewhere[runner_id] = set(names) - here

    def left(self, session: RunnerSession) -> None:
        """Count an instance that has just disconnected as online until the database is read again."""
        if session.takes_jobs:
            self._elsewhere.setdefault(session.runner_id, set()).add(session.name)

    def has_one_of(self, tier: AssignedRunners, name: str | None) -> bool:
        """Return whether a runner of the tier is online, with an instance of this name if there is one.

        The smaller set is searched: the tier, or all connected runners.
        """
        here, elsewhere = self._registry.of_runner, self._elsewhere
        if len(here) + len(elsewhere) < len(tier.runners):
            return any(runner in tier.known and self._is_online(runner, name) for runner in chain(here, elsewhere))
        return any(self._is_online(runner, name) for runner in tier.runners)

    def _is_online(self, runner_id: str, name: str | None) -> bool:
        elsewhere = self._elsewhere.get(runner_id, ())
        if name in elsewhere or (name is None and elsewhere):
            return True
        here = self._registry.of_runner.get(runner_id, {}).values()
        return any(session.takes_jobs and name in (None, session.name) for session in here)
