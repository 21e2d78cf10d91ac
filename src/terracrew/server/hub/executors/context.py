"""What the connections of executors need of a running server."""

from dataclasses import dataclass

from terracrew.server.disk_reserve import DiskReserve
from terracrew.server.hub.context import ConnectionContext
from terracrew.server.hub.executors.arrivals import Arrivals
from terracrew.server.jobs.attempts.ingest import Ingest
from terracrew.server.jobs.attempts.policy_checks import PolicyChecks
from terracrew.server.objects import Objects
from terracrew.server.runs.follow import Watchers
from terracrew.server.secrets.keyring import Keyring


@dataclass(frozen=True)
class ExecutorContext(ConnectionContext):
    objects: Objects
    disk: DiskReserve
    keys: Keyring
    ingest: Ingest
    watchers: Watchers
    arrivals: Arrivals
    policies: PolicyChecks
