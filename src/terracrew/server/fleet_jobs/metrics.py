"""Counts what happens to fleet jobs. Each server counts what it has committed itself."""

from terracrew.server.metrics.instruments import Counter

ended = Counter("terracrew_fleet_jobs_ended", "Fleet jobs that ended on this server", ("type", "result"))
lost = Counter("terracrew_fleet_attempts_lost", "Attempts of fleet jobs that were cut off", ("type",))
ALL = (ended, lost)

for _type in ("DEPLOY_WORKER", "UPDATE_WORKER", "DESTROY_WORKER", "CONNECTION_TEST"):
    lost.add(0, _type)
    for _result in ("SUCCEEDED", "FAILED", "CANCELED"):
        ended.add(0, _type, _result)
