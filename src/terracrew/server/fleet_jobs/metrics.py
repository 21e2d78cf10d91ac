"""Counts what happens to fleet jobs. Each server counts what it has committed itself."""

from prometheus_client import Counter

from terracrew.server.metrics.process import registry

ended = Counter(
    "terracrew_fleet_jobs_ended", "Fleet jobs that ended on this server", ("type", "result"), registry=registry
)
lost = Counter(
    "terracrew_fleet_attempts_lost", "Attempts of fleet jobs that were cut off", ("type",), registry=registry
)

for _type in ("DEPLOY_WORKER", "UPDATE_WORKER", "DESTROY_WORKER", "CONNECTION_TEST"):
    lost.labels(_type)
    for _result in ("SUCCEEDED", "FAILED", "CANCELED"):
        ended.labels(_type, _result)
