"""Everything that is measured, as the text that Prometheus reads. `docs/operations.md` says what each figure means."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from terracrew import __version__
from terracrew.server.api.metrics.gauges import Figures, Gauges
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.http.request import Counts
from terracrew.server.metrics import process
from terracrew.server.objects import Objects


@dataclass(frozen=True)
class Measured:
    """What the figures of this process are read from."""

    db: Database
    objects: Objects
    registry: Registry
    counts: Counts
    gauges: Gauges


async def render(measured: Measured) -> tuple[bytes, str]:
    """Return the text, and its media type."""
    figures = await measured.gauges.current()
    families = [*_own(measured), *(_shared(figures) if figures else ())]

    class Collected:
        def collect(self) -> Iterable[Any]:
            return families

    registry = CollectorRegistry()
    registry.register(Collected())
    ProcessCollector(registry=registry)
    kind, _, _ = CONTENT_TYPE_LATEST.partition("; charset")  # which the framework adds again
    return generate_latest(registry), kind


def _own(measured: Measured) -> Iterator[Metric]:
    """Return what this process measures: the whole is the sum over all servers."""
    yield _counter(
        "terracrew_requests",
        "Answered HTTP requests",
        {(method, str(status)): count for (method, status), count in measured.counts.answers.items()},
        "method",
        "status",
    )
    errors = {(kind,): measured.objects.health.errors[kind] for kind in ("storage", "read")}
    yield _counter("terracrew_object_store_errors", "Requests that the object store did not fulfil", errors, "kind")
    yield from process.registry.collect()
    health = measured.db.health
    yield from (*health.commits.collect(), *health.errors.collect())
    yield _gauge(
        "terracrew_info",
        "The version and the database of this server",
        {(__version__, measured.db.kind): 1},
        "version",
        "database",
    )
    yield _gauge("terracrew_database_up", "Whether the database answers this server", health.is_reachable())
    yield _gauge(
        "terracrew_object_store_up",
        "Whether the object store answers this server and takes writes",
        not measured.objects.health.problem,
    )
    yield _gauge(
        "terracrew_database_waiting_writes", "Units of work that wait for their turn to write", health.waiting()
    )
    connections = {("runner",): len(measured.registry.runners), ("executor",): len(measured.registry.executors)}
    yield _gauge("terracrew_connections", "Processes that are connected to this server", connections, "kind")


def _shared(figures: Figures) -> Iterator[Metric]:
    """Return what is true of the whole database, and reported by every server."""
    found, fleet = figures.backlog, figures.fleet
    yield _gauge("terracrew_jobs", "Jobs that have not ended", _by(found.jobs), "status")
    yield _gauge("terracrew_jobs_waiting", "Jobs that wait, by the code of the reason", _by(found.waiting), "reason")
    yield _gauge(
        "terracrew_job_oldest_queued_seconds",
        "For how long the oldest queued job has waited",
        _age(found.oldest_queued_at, found.now),
    )
    yield _gauge("terracrew_approvals_waiting", "Plans that wait for a person", found.jobs["AWAITING_APPROVAL"])
    yield _gauge(
        "terracrew_approval_oldest_waiting_seconds",
        "For how long the oldest of these plans has waited",
        _age(found.oldest_approval_at, found.now),
    )
    yield _gauge(
        "terracrew_attempts_lost_now", "Attempts that count as lost in the middle of a change, now", found.attempts_lost
    )
    yield _gauge(
        "terracrew_modules_in_doubt", "Modules on which a change may be unaccounted for", found.modules_in_doubt
    )
    yield _gauge("terracrew_states_quarantined", "States that a person must adopt or discard", found.states_quarantined)
    yield _gauge("terracrew_servers", "Servers that use the database", _by(figures.servers), "version")
    yield _gauge("terracrew_runners", "Runners that are not disabled", _by(fleet.runners), "status")
    yield _gauge("terracrew_runners_disabled", "Runners that are disabled", fleet.disabled)
    yield _gauge(
        "terracrew_runner_instances_connected", "Runner processes that are connected to any server", fleet.instances
    )
    yield _gauge(
        "terracrew_runner_instances",
        "Runner processes that are connected to any server, by their version",
        _by(fleet.versions),
        "version",
    )
    yield _gauge("terracrew_runner_slots", "Jobs that the connected runner processes can have at a time", fleet.slots)
    yield _gauge(
        "terracrew_runner_alerts", "Alerts about runners that nobody has acknowledged", _by(fleet.alerts), "kind"
    )
    storage = figures.storage
    yield _gauge(
        "terracrew_logs_to_move", "Logs of ended attempts that are in rows of the database", storage.logs_to_move
    )
    yield _gauge(
        "terracrew_log_oldest_to_move_seconds",
        "For how long the oldest log has waited to be moved to the object store",
        _age(storage.oldest_log_ended_at, found.now),
    )
    yield _gauge("terracrew_objects_to_delete", "Objects that wait to be deleted", storage.objects_to_delete)
    yield _gauge(
        "terracrew_retention_last_seconds",
        "How long ago each chore of retention last came to its end",
        {(name,): _age(at, found.now) for name, at in storage.finished_at.items()},
        "chore",
    )
    yield _gauge(
        "terracrew_gauges_age_seconds",
        "How old the figures of the whole database are",
        time.monotonic() - figures.read_at,
    )


def _gauge(
    name: str, help_text: str, values: float | dict[tuple[str, ...], int] | dict[tuple[str, ...], float], *labels: str
) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for key, value in values.items() if isinstance(values, dict) else [((), values)]:
        family.add_metric(key, value)
    return family


def _counter(name: str, help_text: str, values: dict[tuple[str, ...], int], *labels: str) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _by(values: dict[str, int]) -> dict[tuple[str, ...], int]:
    return {(key,): value for key, value in values.items()}


def _age(moment: float | None, now: float) -> float:
    return 0.0 if moment is None else max(0.0, now - moment)
