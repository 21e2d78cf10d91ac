"""What the API needs of a running server: a small context for each package of handlers, and the request that has it."""

import asyncio
from dataclasses import dataclass

from terracrew.server.api.metrics.exposition import Measured
from terracrew.server.api.publishing import PublishingContext
from terracrew.server.cloud_hosted.model import CloudCalls
from terracrew.server.cloud_hosted.starting import WakingAhead
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.discovery.tools import DiscoveryTools
from terracrew.server.disk_reserve import DiskReserve
from terracrew.server.fleet_jobs.handlers import FleetHandlers
from terracrew.server.forges.receiving import ForgeReceiver
from terracrew.server.forges.service import ForgeConnections
from terracrew.server.http import request
from terracrew.server.http.streams import Streams
from terracrew.server.identity.context import Identity
from terracrew.server.jobs.apply_plan import Apply
from terracrew.server.jobs.create import Create
from terracrew.server.notifications.service import Channels
from terracrew.server.objects import Objects
from terracrew.server.policies.service import Policies
from terracrew.server.principals.authorize import Verb
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.readiness import Readiness
from terracrew.server.registry.publishing import PublishingTools
from terracrew.server.retention.surveys import Surveys
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runs.follow import Watchers
from terracrew.server.runs.log_search import LogSearches
from terracrew.server.runs.policy_trials import PolicyTrials
from terracrew.server.runs.reasons import Watch
from terracrew.server.schedules.starting import Sources
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.diff_process import DiffProcess
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.uploads.service import Staging
from terracrew.settings.server import ServerSettings


@dataclass(frozen=True)
class AccessContext:
    db: Database
    identity: Identity


class AccessCall(request.Call):
    @property
    def context(self) -> AccessContext:
        return self.app.state.api.access


@dataclass(frozen=True)
class OperationsContext:
    db: Database
    keys: Keyring
    surveys: Surveys
    disk: DiskReserve
    readiness: Readiness
    policies: Policies
    measured: Measured
    publishing: PublishingContext


class OperationsCall(request.Call):
    @property
    def context(self) -> OperationsContext:
        return self.app.state.api.operations


@dataclass(frozen=True)
class RunsContext:
    db: Database
    objects: Objects
    keys: Keyring
    diffs: DiffProcess
    registry: Registry
    create_job: Create
    apply_plan: Apply
    watch: Watch
    watchers: Watchers
    log_searches: LogSearches
    streams: Streams
    fleet_handlers: FleetHandlers
    sources: Sources
    pull_requests: PullRequestTools
    waking_ahead: WakingAhead
    closing: asyncio.Event
    """Set when the server begins to stop. A stream that never ends by itself ends when it sees this."""


class RunsCall(request.Call):
    @property
    def context(self) -> RunsContext:
        return self.app.state.api.runs


@dataclass(frozen=True)
class TreeContext:
    settings: ServerSettings
    db: Database
    objects: Objects
    keys: Keyring
    diffs: DiffProcess
    staging: Staging
    quotas: Quotas
    cloud_calls: CloudCalls
    rollout_rules: RolloutRules
    channels: Channels
    forges: ForgeConnections
    discovery: DiscoveryTools
    publishing: PublishingTools
    policies: Policies
    trials: PolicyTrials
    receiver: ForgeReceiver


class TreeCall(request.Call):
    @property
    def context(self) -> TreeContext:
        return self.app.state.api.tree

    def verb(self, usual: Verb) -> Verb:
        """Return the right that an operation takes which engines may use, too.

        An engine may read the states of its own module, which includes all that these operations show, and nothing else of the tree.
        """
        return Verb.STATE_READ if self.user.kind == "engine" else usual


@dataclass(frozen=True)
class ApiContext:
    access: AccessContext
    operations: OperationsContext
    runs: RunsContext
    tree: TreeContext
