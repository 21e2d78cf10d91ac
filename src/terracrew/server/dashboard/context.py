"""What the pages need of a running server."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from terracrew.server.cloud_hosted.model import CloudCalls
from terracrew.server.cloud_hosted.starting import WakingAhead
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.discovery.tools import DiscoveryTools
from terracrew.server.fleet_jobs.handlers import FleetHandlers
from terracrew.server.forges.applications import GitHubApplications
from terracrew.server.forges.service import ForgeConnections
from terracrew.server.http import request
from terracrew.server.identity.context import Identity
from terracrew.server.jobs.apply_plan import Apply
from terracrew.server.jobs.create import Create
from terracrew.server.notifications.service import Channels
from terracrew.server.objects import Objects
from terracrew.server.policies.service import Policies
from terracrew.server.principals.model import Principal
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.registry.publishing import PublishingTools
from terracrew.server.retention.surveys import Surveys
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runs.policy_trials import PolicyTrials
from terracrew.server.runs.reasons import Watch
from terracrew.server.schedules.starting import Sources
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.diff_process import DiffProcess
from terracrew.server.supervise import Tasks
from terracrew.server.uploads.service import Staging

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class DashboardContext:
    url: str
    """How browsers reach this server."""
    release_key: str
    """The public key of releases, which a runner is registered with; empty if the server's settings have none."""
    db: Database
    objects: Objects
    keys: Keyring
    diffs: DiffProcess
    staging: Staging
    identity: Identity
    registry: Registry
    create_job: Create
    apply_plan: Apply
    watch: Watch
    fleet_handlers: FleetHandlers
    waking_ahead: WakingAhead
    cloud_calls: CloudCalls
    tasks: Tasks
    cloud_runner_image: str
    """The image of cloud-hosted runners that name none; empty if the server's settings name none."""
    rollout_rules: RolloutRules
    channels: Channels
    forges: ForgeConnections
    applications: GitHubApplications
    pull_requests: PullRequestTools
    discovery: DiscoveryTools
    publishing: PublishingTools
    policies: Policies
    trials: PolicyTrials
    local_roots: Sequence[Path]
    """The folders on runners that a module's source may be in."""
    sources: Sources
    surveys: Surveys


class DashboardCall(request.Call):
    @property
    def context(self) -> DashboardContext:
        return self.app.state.dashboard

    @property
    def watch(self) -> Watch:
        """What is known of the jobs that wait, as far as the user may see it."""
        return self.context.watch.for_reader(self.user)

    async def read(
        self, work: Callable[Concatenate[Tx, Principal, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a unit of work for the user that only reads. It gets a transaction, the user and these arguments."""
        who = self.user
        return await self.context.db.read_in_background(lambda tx: work(tx, who, *args, **kwargs))

    async def write(
        self, work: Callable[Concatenate[Tx, Principal, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a unit of work for the user. All of it is committed when this returns."""
        who = self.user
        return await self.context.db.write(lambda tx: work(tx, who, *args, **kwargs))
